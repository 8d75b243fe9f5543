"""Conversions between all types, with all roundings, saturation and NaN; moves that pack and unpack."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from executor_harness import DTYPES, Case, evaluate, expect, floats, integers, round_exact

INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]
MODES = ["rn", "rz", "rm", "rp"]


def clamp(value: int, t: str) -> int:
    info = np.iinfo(DTYPES[t])
    return max(int(info.min), min(int(info.max), value))


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer(source: str) -> None:
    a = integers(source)
    cases = [Case(f"cvt.{target}.{source} %d, %a;", target, (source,)) for target in INTEGERS]
    for case, got in zip(cases, evaluate(cases, [[a]] * len(cases))):
        expect(got, a.astype(got.dtype), a, label=case.text)
    cases = [Case(f"cvt.sat.{target}.{source} %d, %a;", target, (source,)) for target in INTEGERS]
    for target, case, got in zip(INTEGERS, cases, evaluate(cases, [[a]] * len(cases))):
        expect(got, np.array([clamp(int(x), target) for x in a], got.dtype), a, label=case.text)


def rounded_integer(x: float, mode: str) -> int:
    if mode == "rni":
        return round(Fraction(x))
    return {"rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode](x)


@pytest.mark.parametrize("source", ["f32", "f64", "f16"])
def test_float_to_integer_rounds_and_clamps(source: str) -> None:
    with np.errstate(over="ignore"):
        a = floats("f64" if source == "f64" else "f32", 1, 60).astype(DTYPES[source])
    cases = [
        (m, t, Case(f"cvt.{m}.{t}.{source} %d, %a;", t, (source,)))
        for m in ("rni", "rzi", "rmi", "rpi")
        for t in INTEGERS
    ]
    for (mode, target, case), got in zip(cases, evaluate([c for _, _, c in cases], [[a]] * len(cases))):
        info = np.iinfo(got.dtype)
        # NaN as the manual has it: 0, or the top bit alone where 64 bits are involved.
        nan = -(1 << 63) >> (64 - 8 * got.dtype.itemsize) if source == "f64" or got.dtype.itemsize == 8 else 0
        nan = nan if info.min < 0 else -nan
        wanted = [
            nan if math.isnan(x) else (int(info.max) if x > 0 else int(info.min)) if math.isinf(x)
            else clamp(rounded_integer(x, mode), target) for x in map(float, a)
        ]  # fmt: skip
        expect(got, np.array(wanted, got.dtype), a, label=case.text)


@pytest.mark.parametrize("source", ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("target", ["f16", "bf16", "f32", "f64"])
def test_integer_to_float(source: str, target: str) -> None:
    a = integers(source, 3, 60)
    cases = [Case(f"cvt.{mode}.{target}.{source} %d, %a;", target, (source,)) for mode in MODES]
    for mode, got in zip(MODES, evaluate(cases, [[a]] * 4)):
        if target == "bf16":
            got = got.view(ml_dtypes.bfloat16).astype(np.float64)
        wanted = np.array([round_exact(Fraction(int(x)), target, mode) for x in a]).astype(got.dtype)
        expect(got, wanted, a, label=f"cvt.{mode}.{target}.{source}")


@pytest.mark.parametrize(
    ("source", "target"), [("f64", "f32"), ("f64", "f16"), ("f64", "bf16"), ("f32", "f16"), ("f32", "bf16")]
)
def test_float_to_narrower_float(source: str, target: str) -> None:
    rng = np.random.default_rng(4)
    a = np.concatenate([floats(source, 5, 300), rng.standard_normal(300) * np.exp2(rng.uniform(-30, 18, 300))])
    a = a.astype(DTYPES[source])
    halfway = (np.arange(1, 200).astype(np.float64) * 2 + 1) * 2.0**-25  # ties among f16's subnormals and beyond
    a = np.concatenate([a, halfway.astype(a.dtype), (1 + halfway).astype(a.dtype)])
    cases = [Case(f"cvt.{mode}.{target}.{source} %d, %a;", target, (source,)) for mode in MODES]
    for mode, got in zip(MODES, evaluate(cases, [[a]] * 4)):
        if target == "bf16":
            got = got.view(ml_dtypes.bfloat16).astype(np.float64)
        wanted = [
            x if not math.isfinite(x) else math.copysign(round_exact(Fraction(x), target, mode), x)
            for x in map(float, a)
        ]
        expect(got, np.array(wanted).astype(got.dtype), a, label=f"cvt.{mode}.{target}.{source}")


def test_halves_widen_exactly() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    f16, f64, bf16 = evaluate(
        [Case("cvt.f32.f16 %d, %a;", "f32", ("f16",)), Case("cvt.f64.f16 %d, %a;", "f64", ("f16",)),
         Case("cvt.f32.bf16 %d, %a;", "f32", ("bf16",))],
        [[bits.view(np.float16)], [bits.view(np.float16)], [bits]],
    )  # fmt: skip
    expect(f16, bits.view(np.float16).astype(np.float32), bits)
    expect(f64, bits.view(np.float16).astype(np.float64), bits)
    expect(bf16, bits.view(ml_dtypes.bfloat16).astype(np.float32), bits)
    # And every f16 survives the way back.
    (back,) = evaluate([Case("cvt.rn.f16.f32 %d, %a;", "f16", ("f32",))], [[f16]])
    numbers = ~np.isnan(f16)
    assert (back.view(np.uint16)[numbers] == bits[numbers]).all()
    assert (back.view(np.uint16)[~numbers] == 0x7FFF).all()


def test_packed_conversion_puts_a_high() -> None:
    a, b = floats("f32", 6, 50), np.roll(floats("f32", 6, 50), 7)
    with np.errstate(over="ignore"):
        high, low = a.astype(np.float16), b.astype(np.float16)
    (got,) = evaluate([Case("cvt.rn.f16x2.f32 %d, %a, %b;", "f16x2", ("f32", "f32"))], [[a, b]])
    expect((got >> 16).astype(np.uint16).view(np.float16), high, a)
    expect((got & 0xFFFF).astype(np.uint16).view(np.float16), low, b)
    (got,) = evaluate([Case("cvt.rn.relu.bf16x2.f32 %d, %a, %b;", "bf16x2", ("f32", "f32"))], [[a, b]])
    wanted = np.where(a > 0, a, np.where(np.isnan(a), a, np.float32(0))).astype(ml_dtypes.bfloat16)
    expect((got >> 16).astype(np.uint16).view(ml_dtypes.bfloat16).astype(np.float32), wanted.astype(np.float32), a)


@pytest.mark.parametrize("t", ["f32", "f64", "f16"])
def test_rounding_to_integral_floats(t: str) -> None:
    with np.errstate(over="ignore"):
        a = floats("f64" if t == "f64" else "f32", 7, 60).astype(DTYPES[t])
    table = {"rni": np.rint(a), "rzi": np.trunc(a), "rmi": np.floor(a), "rpi": np.ceil(a)}
    cases = [Case(f"cvt.{m}.{t}.{t} %d, %a;", t, (t,)) for m in table]
    for (mode, wanted), got in zip(table.items(), evaluate(cases, [[a]] * 4)):
        expect(got, wanted, a, label=mode)
    (got,) = evaluate([Case(f"cvt.sat.{t}.{t} %d, %a;", t, (t,))], [[a]])
    expect(got, np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0)), a)


def test_moves_pack_and_unpack() -> None:
    a, b = integers("u32", 8), integers("u32", 9)
    low = np.arange(len(a), dtype=np.uint16)
    table = [
        (Case("mov.b64 %d, {%a, %b};", "u64", ("u32", "u32")), [a, b], a.astype(np.uint64) | b.astype(np.uint64) << 32),
        (Case("{ .reg .b64 w; .reg .b32 x; mov.b64 w, {%a, %b}; mov.b64 {x, %d}, w; }", "u32", ("u32", "u32")),
         [a, b], b),
        (Case("{ .reg .b64 w; mov.b64 w, {%a, %b}; mov.b64 {%d, _}, w; }", "u32", ("u32", "u32")), [a, b], a),
        (Case("mov.b32 %d, {%a, %a};", "u32", ("u16",)), [low], low.astype(np.uint32) * 65537),
        (Case("{ .reg .b64 w; mov.b64 w, {%a, %b, %a, %b}; mov.b64 {_, _, %d, _}, w; }", "u16", ("u16", "u16")),
         [low, low[::-1].copy()], low),
        (Case("{ .reg .b128 w; .reg .b64 x; mov.b64 x, {%a, %b}; mov.b128 w, {x, x}; mov.b128 {_, x}, w;"
              " mov.b64 {_, %d}, x; }",
              "u32", ("u32", "u32")), [a, b], b),
        (Case("mov.b32 %d, %a;", "f32", ("u32",)), [a], a.view(np.float32)),
    ]  # fmt: skip
    for (case, _, wanted), got in zip(table, evaluate([c for c, _, _ in table[:3]], [i for _, i, _ in table[:3]])):
        expect(got, wanted, label=case.text)
    for case, inputs, wanted in table[3:]:
        (got,) = evaluate([case], [inputs])
        expect(got, wanted, label=case.text)
