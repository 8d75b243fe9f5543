"""The functions that a kernel's body calls: mathematics, ``ceil_div``, device functions, ``unsafe``.

Each is an :class:`Intrinsic`: an object that the front end recognises by identity. Called outside a kernel it raises.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from abi import UnsupportedError


@dataclass(frozen=True)
class Intrinsic:
    """A word of the kernel language. ``family`` groups words that the front end treats alike.

    ``doc`` is what :func:`help` shows of the word itself.
    """

    name: str
    family: str
    arity: int = -1
    doc: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if self.doc:
            object.__setattr__(self, "__doc__", self.doc)
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__qualname__", self.name)

    def __call__(self, *args: object, **kwargs: object) -> Any:
        raise UnsupportedError(f"{self.name}() has a meaning only inside a kernel; it is compiled, not called")

    def __repr__(self) -> str:
        return f"<kernel function {self.name}>"


UNARY_MATH = (
    "sqrt", "rsqrt", "cbrt", "exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "gamma", "lgamma",
    "floor", "ceil", "trunc", "round_even", "isnan", "isinf", "isfinite",
)  # fmt: skip
BINARY_MATH = ("pow", "atan2", "hypot", "fmod", "copysign", "remainder")

_MEANINGS = {
    "rsqrt": "1 / sqrt(x)", "exp10": "10 to the power x", "gamma": "the gamma function",
    "lgamma": "the logarithm of the gamma function's magnitude", "round_even": "the nearest integer, ties to even",
    "floor": "the largest integer not above x, as a float", "ceil": "the smallest integer not below x, as a float",
    "trunc": "x without its fraction, as a float", "isnan": "whether x is not a number",
    "isinf": "whether x is infinite", "isfinite": "whether x is neither infinite nor NaN",
    "fmod": "the remainder of x / y rounded towards zero", "remainder": "the remainder of x / y rounded to nearest",
    "copysign": "x's magnitude with y's sign", "hypot": "sqrt(x*x + y*y) without overflow on the way",
    "atan2": "the angle of the point (y, x): atan2(y, x)", "pow": "x to the power y", "sqrt": "the square root",
    "cbrt": "the cube root",
}  # fmt: skip


def _math_doc(name: str, arguments: str) -> str:
    meaning = _MEANINGS.get(name, f"as Python's math.{name}")
    return f"``io.{name}({arguments})`` in a kernel: {meaning}, of floats, in the precision of the argument."


MATH: dict[str, Intrinsic] = {
    **{name: Intrinsic(name, "math", 1, _math_doc(name, "x")) for name in UNARY_MATH},
    **{name: Intrinsic(name, "math", 2, _math_doc(name, "x, y")) for name in BINARY_MATH},
    "fma": Intrinsic("fma", "math", 3, "``io.fma(x, y, z)``: x * y + z, rounded once."),
}
"""Floating-point functions by name; ``io.sqrt(x)`` and so on."""

PYTHON_MATH: dict[Callable[..., Any], Intrinsic] = {
    getattr(math, python): MATH[ours]
    for python, ours in {
        **{n: n for n in (*UNARY_MATH, *BINARY_MATH, "fma") if hasattr(math, n)},
    }.items()
    if ours in MATH
}
"""Python's own ``math`` functions, which kernels may use as well."""


@dataclass(frozen=True)
class GeometryAxis:
    """One axis of a geometry word: what ``simt.thread_index.x`` is before a kernel is compiled."""

    kind: str
    axis: int


@dataclass(frozen=True, repr=False)
class GeometryWord(Intrinsic):
    """``thread_index``, ``block_index``, ``block_dim``, ``grid_dim``: ``.x .y .z`` are plain i64 numbers."""

    @property
    def x(self) -> Any:
        return GeometryAxis(self.name, 0)

    @property
    def y(self) -> Any:
        return GeometryAxis(self.name, 1)

    @property
    def z(self) -> Any:
        return GeometryAxis(self.name, 2)


ceil_div = Intrinsic(
    "ceil_div",
    "ceil_div",
    2,
    """``io.ceil_div(a, b)`` in a kernel: a / b rounded up, of integers. In rules it is written ``ceil_div(a, b)``.""",
)
unsafe = Intrinsic(
    "unsafe",
    "unsafe",
    1,
    """``with io.unsafe("reason"):`` lifts the bounds and race checks of the statements in it.

    The reason says why that is right. ``grep unsafe`` finds every place where safety rests on a kernel's author::

        if simt.thread_index.x == 0:
            with io.unsafe("one thread of each block writes its element"):
                out[simt.block_index.x] = total
    """,
)


class DeviceFunction:
    """A function that kernels may call; made by :func:`device`. Generic by argument types, and compiled inline."""

    def __init__(self, function: Callable[..., Any]):
        self.function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        name = self.function.__name__
        raise UnsupportedError(f"{name}() is a device function: it can be called only inside a kernel")

    def __repr__(self) -> str:
        return f"<device function {self.function.__name__}>"


def device(function: Any, *arguments: Any) -> Any:
    """Decorator: makes `function` callable from kernels and other device functions.

    >>> import interop as io
    >>> @io.device
    ... def clamp(x, low, high):
    ...     return min(max(x, low), high)
    >>> clamp
    <device function clamp>

    With a name it is :func:`interop.runtime.device`, the machine's device of that name: ``io.device("cuda", 1)``.
    """
    if isinstance(function, str):
        from ..runtime import device as machine_device

        return machine_device(function, *arguments)
    if not inspect.isfunction(function) or arguments:
        raise TypeError(f"@io.device decorates a function, not {function!r}")
    return DeviceFunction(function)
