"""Kernels for programs without Python: objects that a linker puts into a library or an executable."""

from __future__ import annotations

from collections.abc import Sequence

from abi import Error, UnsupportedError
from interop import ptx

from . import codegen
from .analysis import Plan, plan_kernel
from .builder import ModuleText
from .emit import VERSION, emit_kernel
from .storage import Storage
from .table import instruction_table
from .vector_emit import emit_vector_kernel
from .vector_flatten import Unsuitable
from .vector_plan import are_warps, preferred_lanes


def record_symbol(prefix: str, symbol: str, level: str) -> str:
    """The name of a kernel's record in an object.

    >>> record_symbol("mix_", "saxpy", "x86-64-v3")
    'mix_cpu_saxpy_x86_64_v3'
    """
    return f"{prefix}cpu_{symbol}_{level.replace('-', '_')}"


def compile_object(
    ptx_text: str, symbols: Sequence[str], *, prefix: str, level: str = "x86-64-v3", checks: bool = False
) -> bytes:
    """Translates kernels of a PTX text to one position-independent ELF object; the same input gives the same bytes.

    The object defines a ``const interop_cpu_kernel`` for each kernel, named as :func:`record_symbol` says: its exact
    path, and from x86-64-v3 on versions for several lanes, of which the runtime takes what suits a launch's block. It
    refers only to libc, libm and the runtime's functions under `prefix` (``cpp_shim/src/interop_cpu*.c`` compiled with
    ``-DINTEROP_PREFIX=prefix``). Module variables of the PTX are part of the object. With `checks` its memory accesses
    are compared with the ranges that ``interop_cpu_launch_with`` is given.

    >>> compile_object(".version 8.0\\n.target sm_80\\n.entry nop() { ret; }", ["nop"], prefix="mix_")[:4]
    b'\\x7fELF'
    """
    if not symbols or len(set(symbols)) != len(symbols):
        raise Error("compile_object needs the names of one or more kernels, each once")
    target = codegen.level(level)
    module = ptx.parse(ptx_text)
    table = instruction_table()
    text = ModuleText(prefix)
    coroutines = False
    for symbol in symbols:
        plan = plan_kernel(module, symbol, table, checks=checks)
        versions = _add_versions(plan, text) if target.vector_lanes else []
        emit_kernel(
            plan, text, Storage(plan, module, text, None), record_symbol(prefix, symbol, level),
            [record for record, _ in versions],
        )  # fmt: skip
        coroutines |= plan.coroutine or any(version.coroutine for _, version in versions)
    return codegen.compile_ir(text.text(), target, coroutines)


_VERSIONS = ((32, True), (32, False), (16, True), (8, True))
"""Lanes, and whether for rows of whole strands alone: what is made for kernels whose block is not known."""


def _add_versions(plan: Plan, text: ModuleText) -> list[tuple[str, Plan]]:
    """Adds the versions for several lanes that the kernel can have; their records' names and plans."""
    block = plan.exact_block
    wanted = _VERSIONS if block is None else [(lanes, block[0] % lanes == 0) for lanes in preferred_lanes(block)]
    made: list[tuple[str, Plan]] = []
    for lanes, whole in wanted:
        record = f"{VERSION}{plan.function.name}.{lanes}{'w' if whole else ''}"
        storage = Storage(plan, plan.module, text, None)
        try:
            version = emit_vector_kernel(plan.module, plan, lanes, whole, text, storage, record)
        except (Unsuitable, UnsupportedError):
            continue
        made.append((record, version))
        if block is not None and (not version.warps or are_warps(block)):
            break
    return made
