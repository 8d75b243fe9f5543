"""f16 and bf16 as bits: widening to f32, rounding back, and registers that hold two elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .types import PACKED, vector

if TYPE_CHECKING:
    from .translator import Translator

_TO_FLOAT = {"f16": "half_to_float", "bf16": "bfloat_to_float"}
_FROM_FLOAT = {"f16": "float_to_half", "bf16": "float_to_bfloat"}


def widen(t: Translator, bits: str, type_: str, flush: bool = False) -> str:
    """The f32 of a half; exact. `flush` takes subnormal halves as zero."""
    if flush:
        bits = flush_half(t, bits, type_)
    return t.b.prelude("float", _TO_FLOAT[type_], [("i16", bits)])


def narrow(t: Translator, value: str, type_: str) -> str:
    """An f32 rounded to nearest even; NaN becomes 0x7FFF."""
    return t.b.prelude("i16", _FROM_FLOAT[type_], [("float", value)])


def narrow_double(t: Translator, value: str, type_: str, mode: int = 0) -> str:
    """An f64 rounded once, in any mode."""
    arguments = [("double", value), ("i32", str(int(type_ == "bf16"))), ("i32", str(mode))]
    return t.b.helper("i16", "f64_to_half", arguments)


def flush_half(t: Translator, bits: str, type_: str) -> str:
    """A subnormal half as zero of its sign."""
    exponent = {"f16": "31744", "bf16": "32640"}[type_]
    b = t.b
    small = b.compare("eq", "i16", b.binary("and", "i16", bits, exponent), "0")
    return b.select(small, "i16", b.binary("and", "i16", bits, "-32768"), bits)


def split(t: Translator, value: str, type_: str) -> list[str]:
    """The two elements of a packed register, the low one first."""
    element = vector(PACKED[type_])
    whole, half = vector(type_), f"i{32 if type_ == 'f32x2' else 16}"
    low = t.b.resize(value, whole, half)
    high = t.b.resize(t.b.binary("lshr", whole, value, half[1:]), whole, half)
    return [t.b.bitcast(v, half, element) for v in (low, high)]


def join(t: Translator, values: Sequence[str], type_: str) -> str:
    """Two elements in one register."""
    element = vector(PACKED[type_])
    whole, half = vector(type_), f"i{32 if type_ == 'f32x2' else 16}"
    low, high = (t.b.resize(t.b.bitcast(v, element, half), half, whole) for v in values)
    return t.b.binary("or", whole, low, t.b.binary("shl", whole, high, half[1:]))
