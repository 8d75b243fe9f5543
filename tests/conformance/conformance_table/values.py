"""Operands' bits: corner values of every type, and noise that is the same on every machine."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence

Row = tuple[int, ...]


def noise(seed: int) -> Iterator[int]:
    """64-bit numbers without end (SplitMix64, so that no library's version changes them)."""
    state = seed * 0x9E3779B97F4A7C15 & (2**64 - 1)
    while True:
        state = state + 0x9E3779B97F4A7C15 & (2**64 - 1)
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & (2**64 - 1)
        z = (z ^ z >> 27) * 0x94D049BB133111EB & (2**64 - 1)
        yield z ^ z >> 31


def take(seed: int, count: int, bits: int = 64) -> list[int]:
    """`count` numbers of `bits` bits."""
    return [value >> (64 - bits) for value in itertools.islice(noise(seed), count)]


def f32(*values: float) -> list[int]:
    """The bits of numbers as f32."""
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in values]


def f64(*values: float) -> list[int]:
    """The bits of numbers as f64."""
    return [struct.unpack("<Q", struct.pack("<d", v))[0] for v in values]


def f16(*values: float) -> list[int]:
    """The bits of numbers as f16."""
    return [struct.unpack("<H", struct.pack("<e", v))[0] for v in values]


def bf16(*values: float) -> list[int]:
    """The bits of numbers that bf16 can hold."""
    return [bits >> 16 for bits in f32(*values)]


def packed(low: Sequence[int], high: Sequence[int]) -> list[int]:
    """Two 16-bit elements in 32 bits, pairwise."""
    return [a | b << 16 for a, b in zip(low, high)]


# ---- corners ----


def integer_corners(bits: int) -> list[int]:
    """Around zero, around both ends, alternating bits."""
    top = 1 << (bits - 1)
    return [0, 1, 2, 2 * top - 1, 2 * top - 2, top, top + 1, top - 1, (2 * top - 1) // 3, (2 * top - 1) // 3 * 2,
            (0x0123456789ABCDEF * 3) >> (64 - bits)]  # fmt: skip


# Significand digits and bias of each format.
_LAYOUT = {"f16": (10, 5), "bf16": (7, 8), "f32": (23, 8), "f64": (52, 11)}


def float_corners(type_: str) -> list[int]:
    """Zeros, subnormals, ends of the range, infinities, quiet and signalling NaN with payloads."""
    fraction, exponent = _LAYOUT[type_]
    sign, one = 1 << (fraction + exponent), ((1 << (exponent - 1)) - 1) << fraction
    infinity, ulp = ((1 << exponent) - 1) << fraction, 1 << fraction
    quiet = infinity | ulp >> 1
    return [
        0, sign, one, sign | one, infinity, sign | infinity, quiet, sign | quiet | 1, infinity | 1,
        1, sign | (ulp - 1), ulp, infinity - 1, sign | (infinity - 1), one + 1, one - 1 | sign,
    ]  # fmt: skip


def float_more(type_: str) -> list[int]:
    """Further numbers: halves and ties, payloads, a few of everyday size."""
    fraction, exponent = _LAYOUT[type_]
    sign, one = 1 << (fraction + exponent), ((1 << (exponent - 1)) - 1) << fraction
    infinity, ulp = ((1 << exponent) - 1) << fraction, 1 << fraction
    half, three_halves, two_and_half = one - ulp, one + ulp // 2, one + ulp + ulp // 4
    return [
        half, half + 1, half - 1, sign | half, three_halves, sign | three_halves, two_and_half, sign | two_and_half,
        infinity | ulp - 1, sign | infinity | ulp // 4, infinity | ulp // 2 | ulp // 8, ulp - 1, ulp + 1, 2, sign | 1,
        sign | ulp, ulp // 2, one + 5 * ulp + 3, one - 4 * ulp + 7,
    ]  # fmt: skip


def integral_corners(type_: str) -> list[int]:
    """Floating-point numbers at and beside the ends of the integer types, and ties."""
    values = []
    for bits in (8, 16, 32, 64):
        for edge in (2.0 ** (bits - 1), 2.0**bits):
            values += [edge, edge - 1, edge - 0.5, edge + 0.5, edge + 1, -edge, -edge - 0.5, -edge - 1, -edge + 0.5]
    values += [0.25, 0.75, -0.25, -0.75, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 1e6, -1e6, 123.456, -99.99, 65519.0]
    pack = {"f16": _f16_bounded, "bf16": bf16, "f32": f32, "f64": f64}[type_]
    return sorted(set(pack(*values)))


def _f16_bounded(*values: float) -> list[int]:
    return f16(*(v for v in values if abs(v) < 65520))


def everyday(type_: str, seed: int, count: int) -> list[int]:
    """Numbers between 2^-9 and 2^9 of both signs, all digits in use."""
    fraction, exponent = _LAYOUT[type_]
    bias = (1 << (exponent - 1)) - 1
    result = []
    for value in take(seed, count):
        sign, scale, digits = value >> 63, (value >> 32) % 18 - 9, value & ((1 << fraction) - 1)
        result.append(sign << (fraction + exponent) | (bias + scale) << fraction | digits)
    return result


_ELEMENT = {"f16x2": "f16", "bf16x2": "bf16", "tf32": "f32"}


def corners(type_: str) -> list[int]:
    """The corner values of a type."""
    from .case import BITS

    if type_ == "pred":
        return [0, 1]
    if type_ == "tf32":
        return [v & ~0x1FFF for v in float_corners("f32")]
    if type_ in ("f16x2", "bf16x2"):
        values = float_corners(_ELEMENT[type_])
        return packed(values, values[5:] + values[:5])
    if type_ in _LAYOUT:
        return float_corners(type_)
    if type_ in ("u16x2", "s16x2"):
        values = integer_corners(16)
        return packed(values, values[4:] + values[:4])
    return integer_corners(BITS[type_])


def more(type_: str, seed: int, count: int) -> list[int]:
    """Further values of a type: everyday numbers and plain noise."""
    from .case import BITS

    if type_ == "pred":
        return [v & 1 for v in take(seed, count)]
    if type_ in ("f16x2", "bf16x2"):
        element = _ELEMENT[type_]
        return packed(more(element, seed, count), more(element, seed + 1, count))
    if type_ == "tf32":
        return [v & ~0x1FFF for v in more("f32", seed, count)]
    if type_ in _LAYOUT:
        return everyday(type_, seed, count - count // 4) + take(seed + 7, count // 4, BITS[type_])
    return take(seed, count, BITS[type_])


def unary(type_: str) -> list[int]:
    """Every corner and more, for instructions of one operand."""
    values = corners(type_) + more(type_, 11, 24)
    if type_ in _LAYOUT:
        values += float_more(type_)
    if type_ in ("f16x2", "bf16x2"):
        some = float_more(_ELEMENT[type_])
        values += packed(some, some[3:] + some[:3])
    return values


def default_rows(types: Sequence[str]) -> list[Row]:
    """Rows for operands of these types: all corners, or all pairs of them, or a mixture for three and more."""
    if len(types) == 1:
        return [(v,) for v in unary(types[0])]
    if len(types) == 2:
        pairs = list(itertools.product(corners(types[0]), corners(types[1])))
        return pairs + list(zip(more(types[0], 21, 24), more(types[1], 22, 24)))
    return mixture(types, 128)


def mixture(types: Sequence[str], count: int, seed: int = 31) -> list[Row]:
    """Rows in which two operands of three are corners."""
    columns = []
    for position, type_ in enumerate(types):
        edge = corners(type_)
        plain = more(type_, seed + position, count)
        choice = take(seed + 100 + position, count)
        columns.append([plain[k] if c % 3 == 0 else edge[(c >> 8) % len(edge)] for k, c in enumerate(choice)])
    return list(zip(*columns))
