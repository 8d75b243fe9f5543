"""The rule table for scalars: what fits, what is refused, and the bits that come out."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abi import SCALARS, ArgumentRangeError, ArgumentTypeError, Error
from interop.runtime.scalars import FORMATS, bf16_bits, converter

INTEGERS = [t for t in SCALARS.values() if t.kind in ("int", "uint")]
FLOATS = [t for t in SCALARS.values() if t.kind == "float"]
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def packed(name: str, value: object) -> bytes:
    return struct.pack("<" + FORMATS[name], converter(SCALARS[name])(value, "k: a"))


def test_every_scalar_type_has_a_format_of_its_size() -> None:
    assert {name: struct.calcsize(f) for name, f in FORMATS.items()} == {t.name: t.size for t in SCALARS.values()}


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_integers_take_exactly_their_range(type_) -> None:
    for value in (type_.minimum, type_.maximum, 0, 1):
        expected = value.to_bytes(type_.size, "little", signed=type_.kind == "int")
        assert packed(type_.name, value) == expected
    for value in (type_.minimum - 1, type_.maximum + 1, 2**64, -(2**70)):
        with pytest.raises(ArgumentRangeError, match=rf"k: a is {type_}, which holds .*{value} is given") as caught:
            packed(type_.name, value)
        assert isinstance(caught.value, OverflowError)


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
def test_integers_take_numpy_integers_and_bools(type_) -> None:
    for number in (np.int8(7), np.uint64(7), np.int32(7)):
        assert packed(type_.name, number) == packed(type_.name, 7)
    assert packed(type_.name, True) == packed(type_.name, np.bool_(True)) == packed(type_.name, 1)


@pytest.mark.parametrize("type_", [*INTEGERS, SCALARS["bool"]], ids=str)
@pytest.mark.parametrize(
    "value", [2.0, np.float32(1), "1", None, b"\1", 1j, Fraction(2), Decimal(2), [1], np.array(1), np.ones(3, int)]
)
def test_integers_refuse_everything_else(type_, value) -> None:
    with pytest.raises(ArgumentTypeError, match="k: a") as caught:
        packed(type_.name, value)
    assert isinstance(caught.value, TypeError)


def test_bool_is_one_byte_zero_or_one() -> None:
    assert [packed("bool", v) for v in (True, False, 1, 0, np.bool_(True), np.uint8(1))] == [
        b"\1", b"\0", b"\1", b"\0", b"\1", b"\1",
    ]  # fmt: skip
    for value in (2, -1, 255):
        with pytest.raises(ArgumentRangeError, match="0 or 1"):
            packed("bool", value)


@pytest.mark.parametrize("type_", FLOATS, ids=str)
def test_floats_take_numbers_of_every_kind(type_) -> None:
    kind = NUMPY[type_.name]
    for value in (0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, 3, True, np.float16(0.5), np.float64(0.1), np.int64(-7),
                  ml_dtypes.bfloat16(1.25), 0.1, 1e-30, 1e-45):  # fmt: skip
        assert packed(type_.name, value) == kind(float(value)).tobytes(), value
    assert math.isnan(np.frombuffer(packed(type_.name, math.nan), kind)[0])


@pytest.mark.parametrize("type_", FLOATS, ids=str)
@pytest.mark.parametrize("value", ["1", None, 1j, Fraction(1, 2), Decimal(1), [1.0], np.array(1.0), np.ones(2)])
def test_floats_refuse_everything_else(type_, value) -> None:
    with pytest.raises(ArgumentTypeError, match="k: a"):
        packed(type_.name, value)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_floats_refuse_exactly_what_rounds_to_infinity(name: str) -> None:
    info = ml_dtypes.finfo(NUMPY[name])
    largest = float(info.max)
    half_step = float(info.max) * float(info.eps) / 2 / (2 - float(info.eps))
    for sign in (1, -1):
        just_below = math.nextafter(largest + half_step, 0)
        assert packed(name, sign * just_below) == NUMPY[name](sign * largest).tobytes()
        with pytest.raises(ArgumentRangeError, match="too large"):
            packed(name, sign * (largest + half_step))
    with pytest.raises(ArgumentRangeError):
        packed(name, 10**400)


def test_f64_refuses_integers_beyond_it() -> None:
    with pytest.raises(ArgumentRangeError, match="bits"):
        packed("f64", 10**400)


@given(st.floats(allow_nan=False, width=64))
def test_bf16_rounds_once_to_nearest_even(value: float) -> None:
    try:
        bits = converter(SCALARS["bf16"])(value, "k: a")
    except Error:
        assert abs(value) > 3.39e38
        return
    got = float(np.uint16(bits).view(ml_dtypes.bfloat16))
    assert math.copysign(1, got) == math.copysign(1, value)
    if math.isinf(value):
        assert got == value
        return
    # The neighbours on the grid of bfloat16 are no nearer; on a tie the even one is taken.
    for other in (bits - 1, bits + 1):
        if not 0 <= other & 0x7FFF < 0x7F80:
            continue
        neighbour = float(np.uint16(other & 0xFFFF).view(ml_dtypes.bfloat16))
        mine, theirs = abs(Fraction(got) - Fraction(value)), abs(Fraction(neighbour) - Fraction(value))
        assert mine < theirs or (mine == theirs and (bits % 2 == 0 or got == neighbour))


def test_bf16_double_rounding_is_avoided() -> None:
    # Just above a tie between two bfloat16, by less than an f32 can tell: rounding twice would go down.
    value = 1 + 2**-8 + 2**-40
    assert bf16_bits(value) == 0x3F81
    assert bf16_bits(1 + 2**-8) == 0x3F80
    assert bf16_bits(1 + 2**-8 - 2**-40) == 0x3F80


def test_an_integer_of_unknown_sign_takes_both_readings() -> None:
    convert = converter(SCALARS["u32"], sign_known=False)
    assert convert(-1, "k: a") == 2**32 - 1
    assert convert(2**32 - 1, "k: a") == 2**32 - 1
    for value in (2**32, -(2**31) - 1):
        with pytest.raises(ArgumentRangeError):
            convert(value, "k: a")
