"""The kernel language as type checkers see it. Never imported when kernels run.

Kernel bodies are compiled by us, not executed; what a checker can say about them is limited to names and shapes of
calls. Numbers are ``Any``; arrays can be indexed and measured.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated as DisjointTensor
from typing import Annotated as Tensor
from typing import Any, Generic, TypeAlias, TypeVar, overload

from ..runtime.device import Device

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

bool_: TypeAlias = Any
i8: TypeAlias = Any
i16: TypeAlias = Any
i32: TypeAlias = Any
i64: TypeAlias = Any
u8: TypeAlias = Any
u16: TypeAlias = Any
u32: TypeAlias = Any
u64: TypeAlias = Any
f16: TypeAlias = Any
bf16: TypeAlias = Any
f32: TypeAlias = Any
f64: TypeAlias = Any


class Slice(Generic[T]):
    """A read-only run of elements."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    shape: tuple[Any, ...]


class DisjointSlice(Slice[T]):
    """A run of elements, each written by one thread."""

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError


class In(Slice[T]):
    """A bare pointer that is read."""


class InOut(DisjointSlice[T]):
    """A bare pointer that is read and written."""


class Out(DisjointSlice[T]):
    """A bare pointer that is written."""


def Const(name: str, value: bool | int | float) -> Any:
    """See :class:`interop.language.constants.Const`."""
    raise NotImplementedError


@overload
def device(function: F, /) -> F: ...
@overload
def device(name: str, /, *arguments: Any) -> Device: ...
def device(function: Any, /, *arguments: Any) -> Any:
    """See :func:`interop.language.functions.device`."""
    raise NotImplementedError


def unsafe(reason: str) -> AbstractContextManager[None]:
    """Lifts bounds and race checks in its body; `reason` says why that is right."""
    raise NotImplementedError


def _math(*args: Any) -> Any:
    raise NotImplementedError


acos = acosh = asin = asinh = atan = atan2 = atanh = cbrt = ceil = ceil_div = copysign = cos = cosh = _math
erf = erfc = exp = exp10 = exp2 = expm1 = floor = fma = fmod = gamma = hypot = isfinite = isinf = isnan = _math
lgamma = log = log10 = log1p = log2 = pow = remainder = round_even = rsqrt = sin = sinh = sqrt = tan = _math
tanh = trunc = _math

__all__ = [
    "Const", "DisjointSlice", "DisjointTensor", "In", "InOut", "Out", "Slice", "Tensor", "acos", "acosh", "asin",
    "asinh",
    "atan", "atan2", "atanh", "bf16", "bool_", "cbrt", "ceil", "ceil_div", "copysign", "cos", "cosh", "device",
    "erf", "erfc", "exp", "exp10", "exp2", "expm1", "f16", "f32", "f64", "floor", "fma", "fmod", "gamma", "hypot",
    "i16", "i32", "i64", "i8", "isfinite", "isinf", "isnan", "lgamma", "log", "log10", "log1p", "log2", "pow",
    "remainder", "round_even", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "u16", "u32", "u64", "u8",
    "unsafe",
]  # fmt: skip
