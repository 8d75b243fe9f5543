"""Rounding of Python floats to the kernel language's float types."""

from __future__ import annotations

import math
import struct

from abi import Scalar, bf16, f16, f32


def round_to(value: float, type_: Scalar) -> float:
    """`value` rounded to a float type, overflow to infinity."""
    if not math.isfinite(value):
        return value
    if type_ == f32:
        return _pack(value, "f")
    if type_ == f16:
        return _pack(value, "e")
    if type_ == bf16:
        return _round_bf16(value)
    return float(value)


def _pack(value: float, code: str) -> float:
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_bf16(value: float) -> float:
    """Nearest-even at 8 significant bits. Through f32 it would round twice; scaling by powers of two is exact."""
    if value == 0.0:
        return value
    exponent = max(math.frexp(value)[1], -125)
    quantum = math.ldexp(1.0, exponent - 8)
    rounded = round(value / quantum) * quantum
    return rounded if abs(rounded) < 2.0**128 else math.copysign(math.inf, value)
