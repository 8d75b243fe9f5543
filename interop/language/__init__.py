"""What kernel authors write with: scalar types, parameter types, constants, and the functions of kernel bodies.

For type checkers scalar types are ``Any`` and the parameter types plain generics, so that kernels are clean under
mypy: ``x: io.Slice[io.f32]``, ``t: io.Tensor[io.f32, 2]``, ``n: io.i32 = 0``, ``io.f32(n)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .constants import BlockRule, multiple_of, up_to
from .functions import DeviceFunction

if TYPE_CHECKING:
    from .typing import (
        Const,
        DisjointSlice,
        DisjointTensor,
        In,
        InOut,
        Out,
        Slice,
        Tensor,
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atan2,
        atanh,
        bf16,
        bool_,
        cbrt,
        ceil,
        ceil_div,
        copysign,
        cos,
        cosh,
        device,
        erf,
        erfc,
        exp,
        exp2,
        exp10,
        expm1,
        f16,
        f32,
        f64,
        floor,
        fma,
        fmod,
        gamma,
        hypot,
        i8,
        i16,
        i32,
        i64,
        isfinite,
        isinf,
        isnan,
        lgamma,
        log,
        log1p,
        log2,
        log10,
        pow,
        remainder,
        round_even,
        rsqrt,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
        u8,
        u16,
        u32,
        u64,
        unsafe,
    )
else:
    from abi import bf16, bool_, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

    from .constants import Const
    from .functions import MATH, ceil_div, device, unsafe
    from .types import DisjointSlice, DisjointTensor, In, InOut, Out
    from .types import Slice_ as Slice
    from .types import Tensor_ as Tensor

    globals().update(MATH)

__all__ = [
    "BlockRule", "Const", "DeviceFunction", "DisjointSlice", "DisjointTensor", "In", "InOut", "Out", "Slice",
    "Tensor", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bf16", "bool_", "cbrt", "ceil",
    "ceil_div", "copysign", "cos", "cosh", "device", "erf", "erfc", "exp", "exp10", "exp2", "expm1", "f16", "f32",
    "f64", "floor", "fma", "fmod", "gamma", "hypot", "i16", "i32", "i64", "i8", "isfinite", "isinf", "isnan",
    "lgamma", "log", "log10", "log1p", "log2", "multiple_of", "pow", "remainder", "round_even", "rsqrt", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc", "u16", "u32", "u64", "u8", "unsafe", "up_to",
]  # fmt: skip
