"""What to write instead: words of CUDA, Numba and NumPy, of the wrong module, misspelt ones, missing parentheses."""

from __future__ import annotations

import difflib
import re
import types
from typing import Any

from ..language.functions import MATH, GeometryWord, Intrinsic

_OTHER_NAMES = {
    "threadIdx": "simt.thread_index", "blockIdx": "simt.block_index", "blockDim": "simt.block_dim",
    "gridDim": "simt.grid_dim", "syncthreads": "simt.barrier()", "__syncthreads": "simt.barrier()",
    "sync_threads": "simt.barrier()", "debug_barrier": "simt.barrier()", "grid": "simt.global_index()",
    "global_id": "simt.global_index()", "gridsize": "simt.block_dim.x * simt.grid_dim.x",
    "program_id": "simt.block_index", "num_programs": "simt.grid_dim", "shared_array": "simt.shared(io.f32, shape)",
    "shared_memory": "simt.shared(io.f32, shape)", "cdiv": "io.ceil_div(a, b)", "rint": "io.round_even(x)",
    "round": "io.round_even(x)", "power": "io.pow(x, y)", "float_power": "io.pow(x, y)", "absolute": "abs(x)",
    "fabs": "abs(x)", "abs": "abs(x)", "maximum": "max(a, b)", "fmax": "max(a, b)", "max": "max(a, b)",
    "minimum": "min(a, b)", "fmin": "min(a, b)", "min": "min(a, b)", "square": "x * x", "reciprocal": "1.0 / x",
    "where": "a if condition else b", "arctan2": "io.atan2(y, x)",
    **{f"arc{n}": f"io.a{n}(x)" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "float16": "io.f16(x)", "float32": "io.f32(x)", "float64": "io.f64(x)", "bool_": "a comparison",
    **{f"int{bits}": f"io.i{bits}(x)" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"io.u{bits}(x)" for bits in (8, 16, 32, 64)},
}  # fmt: skip
_MISSING = (
    (r"atomic|^cas$|^fetch_", "the language has no atomics yet: give each thread its own slot and add the slots "
     "up after a barrier, or write this kernel in CUDA C++ with atomicAdd and declare it with @io.foreign"),
    (r"shfl|shuffle|ballot|warp|laneid|lane_id|_sync$|vote|match_any|activemask", "warp operations are not in the "
     "language yet: exchange values through shared memory (simt.shared, simt.barrier)"),
    (r"fence|cluster|printf?$|cooperative|mma|tensor_core", "the language does not have it yet"),
)  # fmt: skip


def of_name(name: str) -> str:
    """What to write for a word of another library; empty when it is not known."""
    if name in MATH:
        return f"write io.{name}({'x' if MATH[name].arity == 1 else ', '.join('xyz'[: MATH[name].arity])})"
    if name in _OTHER_NAMES:
        return f"write {_OTHER_NAMES[name]}"
    return next((text for pattern, text in _MISSING if re.search(pattern, name, re.IGNORECASE)), "")


def of_attribute(base: Any, written: str, name: str) -> str:
    """What to write for ``written.name``, where the module `base` has no `name`."""
    if not isinstance(base, types.ModuleType):
        return ""
    from .. import language, simt

    known = of_name(name)
    if known:
        return known
    for module, prefix in ((simt, "simt"), (language, "io")):
        if module is not base and name in module.__all__:
            return f"write {prefix}.{name}"
    public = getattr(base, "__all__", None) or [n for n in dir(base) if not n.startswith("_")]
    if base.__name__ == "interop":
        public = language.__all__
    near = difflib.get_close_matches(name, public, 1)
    if near:
        return f"did you mean {written}.{near[0]}?"
    return f"{written} has {', '.join(sorted(public))}" if base is simt else ""


def of_object(value: Any, written: str) -> str:
    """What to write where `value`, a word of the language, stands for a number."""
    if isinstance(value, GeometryWord):
        return f"say which axis: {written}.x, {written}.y or {written}.z"
    if isinstance(value, Intrinsic):
        word = f"simt.{value.name}" if value.family == "simt" else f"io.{value.name}"
        arguments = {"simt": "", "math": ", ".join("xyz"[: max(value.arity, 0)])}.get(value.family, "...")
        return f"{word} is a function: call it, {word}({arguments})"
    return ""
