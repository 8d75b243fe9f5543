"""PTX types as LLVM types. Every type of a translated value goes through :func:`vector`."""

from __future__ import annotations

from abi import UnsupportedError

_SCALAR = {
    "pred": "i1",
    **{f"{kind}{bits}": f"i{bits}" for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": "i128",
    # Half formats are kept as bits: arithmetic on LLVM's `half` makes library calls on x86-64.
    "f16": "i16", "bf16": "i16", "f16x2": "i32", "bf16x2": "i32", "u16x2": "i32", "s16x2": "i32",
    "f32": "float", "f64": "double", "f32x2": "i64", "tf32": "i32", "e4m3x2": "i16", "e5m2x2": "i16",
}  # fmt: skip

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "i128": 128, "float": 32, "double": 64}
"""Width of each LLVM type in use."""

FLOATS = {"f16", "bf16", "f32", "f64"}
HALVES = {"f16", "bf16"}
PACKED = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32"}
"""Types of two elements in one register, and the element."""


def vector(type_: str) -> str:
    """The LLVM type of one lane's value of a PTX type.

    >>> vector("u32"), vector("f64"), vector("pred")
    ('i32', 'double', 'i1')

    :raises UnsupportedError: for a type that the executor does not have.
    """
    try:
        return _SCALAR[type_]
    except KeyError:
        raise UnsupportedError(f"the type .{type_} is not supported by the CPU device") from None


def is_signed(type_: str) -> bool:
    """Whether the type is a signed integer."""
    return type_[0] == "s"


def is_integer(type_: str) -> bool:
    """Whether the type is an integer or bits, one element to a register."""
    return type_[0] in "bus" and type_ not in PACKED and not type_.startswith("bf")


def width(type_: str) -> int:
    """Bits of a value of a PTX type in a register."""
    return BITS[vector(type_)]


def integer(bits: int) -> str:
    """The LLVM integer of that width."""
    return f"i{bits}"
