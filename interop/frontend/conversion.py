"""Which numbers convert to which without being asked, and which literals fit where."""

from __future__ import annotations

import math

from abi import Scalar

from ..ir.rounding import round_to


def is_integer(type_: Scalar) -> bool:
    return type_.kind in ("int", "uint")


def widens(source: Scalar, target: Scalar) -> bool:
    """Whether every value of `source` is one of `target`, within a kind: the implicit conversions.

    >>> from abi import f32, i32, i64, u32
    >>> widens(u32, i64), widens(i32, u32), widens(i32, f32)
    (True, False, False)
    """
    if source == target:
        return True
    if source.kind == target.kind and source.kind != "bool":
        return source.bits < target.bits
    return source.kind == "uint" and target.kind == "int" and source.bits < target.bits


def common(left: Scalar, right: Scalar) -> Scalar | None:
    """The one of two types that the other widens to; None when there is none."""
    return right if widens(left, right) else left if widens(right, left) else None


def literal_fits(value: bool | int | float, type_: Scalar) -> bool:
    """Whether a literal can become a number of `type_`: integers in range, finite floats that stay finite."""
    if isinstance(value, bool) or type_.kind == "bool":
        return isinstance(value, bool) and type_.kind == "bool"
    if isinstance(value, int) and is_integer(type_):
        return type_.minimum <= value <= type_.maximum
    if type_.kind != "float":
        return False
    try:
        number = float(value)
    except OverflowError:
        return False
    return not math.isfinite(number) or math.isfinite(round_to(number, type_))


def wrap(value: int, type_: Scalar) -> int:
    """`value` modulo the width of an integer type."""
    value &= (1 << type_.bits) - 1
    return value - (1 << type_.bits) if type_.kind == "int" and value >> (type_.bits - 1) else value
