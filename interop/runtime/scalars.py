"""The one rule table for scalar arguments: which Python value fits which parameter type, and how it is packed.

:func:`converter` gives a function that checks a value and returns what :mod:`struct` packs under :data:`FORMATS`.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from abi import ArgumentRangeError, ArgumentTypeError, Scalar

Converter = Callable[[Any, str], Any]
"""Takes a value and how messages call it (``saxpy: a``)."""

FORMATS: dict[str, str] = {
    "bool": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "f16": "e", "bf16": "H", "f32": "f", "f64": "d",
}  # fmt: skip
"""The :mod:`struct` letter of each scalar type. bfloat16 is packed as its 16 bits."""

# The smallest magnitude that rounds to infinity: half a unit in the last place above the largest finite number.
FLOAT_LIMITS = {"f16": 65520.0, "bf16": (2 - 2**-8) * 2.0**127, "f32": (2 - 2**-24) * 2.0**127}
_INFINITY = float("inf")


def converter(type_: Scalar, sign_known: bool = True) -> Converter:
    """The check of one scalar type.

    :param sign_known: False where an image tells only an integer's width: then either reading of the bits will do.

    >>> from abi import u8
    >>> converter(u8)(255, "f: n")
    255
    """
    if type_.kind == "float":
        return _float_converter(type_)
    if type_.kind == "bool":
        return _convert_bool
    return _integer_converter(type_, sign_known)


def _integer_converter(type_: Scalar, sign_known: bool) -> Converter:
    low, high = type_.minimum, type_.maximum
    lowest = low if sign_known else -(1 << (type_.bits - 1))
    modulus = 1 << type_.bits

    def convert(value: Any, what: str) -> int:
        number = value if type(value) is int else _integer(value, what, type_)
        if low <= number <= high:
            return number
        if lowest <= number <= high:
            return number % modulus
        raise ArgumentRangeError(f"{what} is {type_}, which holds {lowest} to {high}, but {number} is given")

    return convert


def _integer(value: Any, what: str, type_: Scalar) -> int:
    if _is_numpy_bool(value):
        return int(value)
    if hasattr(value, "shape") and value.shape != ():
        _wrong(value, what, type_)
    if getattr(value, "ndim", None) == 0 and not _is_numpy_scalar(value):
        _zero_dimensional(value, what, type_)
    try:
        return operator.index(value)
    except TypeError:
        _wrong(value, what, type_)


def _convert_bool(value: Any, what: str) -> int:
    if value is True or value is False:
        return int(value)
    number = _integer(value, what, _BOOL)
    if number not in (0, 1):
        raise ArgumentRangeError(f"{what} is bool, which is 0 or 1, but {number} is given")
    return number


def _float_converter(type_: Scalar) -> Converter:
    limit = FLOAT_LIMITS.get(type_.name, _INFINITY)
    is_bf16 = type_.name == "bf16"

    def convert(value: Any, what: str) -> float | int:
        number = value if type(value) is float else _real(value, what, type_)
        # NaN fails the comparison and is fine; infinities were asked for and are fine.
        if not -limit < number < limit and number - number == 0:
            raise ArgumentRangeError(f"{what} is {type_}, and {number!r} is too large for it")
        return bf16_bits(number) if is_bf16 else number

    return convert


def _real(value: Any, what: str, type_: Scalar) -> float:
    if not (isinstance(value, (int, float)) or _is_real_numpy_scalar(value)):
        if getattr(value, "ndim", None) == 0:
            _zero_dimensional(value, what, type_)
        _wrong(value, what, type_)
    try:
        return float(value)
    except OverflowError:
        raise ArgumentRangeError(f"{what} is {type_}, and an integer of {value.bit_length()} bits is given") from None


def bf16_bits(value: float) -> int:
    """The bits of the bfloat16 nearest to `value`, ties to even, rounded once. `value` is in bfloat16's range.

    >>> hex(bf16_bits(1.0))
    '0x3f80'
    """
    if value != value:
        return 0x7FC0
    if value - value != 0:
        return 0x7F80 if value > 0 else 0xFF80
    single = struct.pack("<f", value)
    bits: int = struct.unpack("<I", single)[0]
    back: float = struct.unpack("<f", single)[0]
    if back != value:
        # Round to odd first, so that the second rounding sees on which side of a tie the value lies.
        bits = (bits - (abs(back) > abs(value))) | 1
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def _is_numpy_scalar(value: Any) -> bool:
    # Without importing NumPy: its scalars all have this base.
    return any(c.__module__ == "numpy" and c.__name__ == "generic" for c in type(value).__mro__)


def _is_numpy_bool(value: Any) -> bool:
    return _is_numpy_scalar(value) and value.dtype.kind == "b"


def _is_real_numpy_scalar(value: Any) -> bool:
    """NumPy's real scalars, and those of ml_dtypes, which have kind V (or f) and a `__float__`."""
    return _is_numpy_scalar(value) and (
        value.dtype.kind in "biuf" or (value.dtype.names is None and "float" in value.dtype.name)
    )


def _zero_dimensional(value: Any, what: str, type_: Scalar) -> NoReturn:
    name = what.rpartition(": ")[2]
    advice = f"{name if name.isidentifier() else 'value'}.item()"
    raise ArgumentTypeError(f"{what} is {type_}, but a 0-dimensional {_kind(value)} is given: pass {advice}")


def _wrong(value: Any, what: str, type_: Scalar) -> NoReturn:
    wanted = {"float": "a number", "bool": "True or False"}.get(type_.kind, "an integer")
    shown = f" ({value!r})" if isinstance(value, (int, float, complex, str, bytes)) and len(repr(value)) < 40 else ""
    raise ArgumentTypeError(f"{what} is {type_}: {wanted} is wanted, but {_kind(value)}{shown} is given")


def _kind(value: Any) -> str:
    type_ = type(value)
    return type_.__name__ if type_.__module__ == "builtins" else f"{type_.__module__}.{type_.__qualname__}"


_BOOL = Scalar("bool", "bool", 8)
