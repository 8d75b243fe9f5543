"""The functions that a kernel's body calls: mathematics, ``ceil_div``, device functions, ``unsafe``.

Each is an :class:`Intrinsic`: an object that the front end recognises by identity. Called outside a kernel it raises.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from abi import UnsupportedError


@dataclass(frozen=True)
class Intrinsic:
    """A word of the kernel language. ``family`` groups words that the front end treats alike."""

    name: str
    family: str
    arity: int = -1

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

MATH: dict[str, Intrinsic] = {
    **{name: Intrinsic(name, "math", 1) for name in UNARY_MATH},
    **{name: Intrinsic(name, "math", 2) for name in BINARY_MATH},
    "fma": Intrinsic("fma", "math", 3),
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


ceil_div = Intrinsic("ceil_div", "ceil_div", 2)
unsafe = Intrinsic("unsafe", "unsafe", 1)


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
