"""Floating-point arithmetic: every rounding mode against exact fractions, NaN, signed zeros, flushing, half formats."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from executor_harness import DTYPES, Case, evaluate, expect, floats, pairs, pointers, round_exact, run

BF16 = ml_dtypes.bfloat16
MODES = ["rn", "rz", "rm", "rp"]


def exact(f: Callable[..., Fraction], values: tuple[float, ...], t: str, mode: str) -> float | None:
    """The correctly rounded result; None where an operand is not finite or the exact result is zero."""
    if not all(map(math.isfinite, values)):
        return None
    try:
        result = f(*map(Fraction, values))
    except ZeroDivisionError:
        return None
    return None if result == 0 else round_exact(result, t, mode)


def check_exact(cases: list[tuple[Case, Callable[..., Fraction], str]], inputs: list[np.ndarray], t: str) -> None:
    """Compares with exact arithmetic where that is defined; the special values have tests of their own."""
    outputs = evaluate([case for case, _, _ in cases], [inputs[: len(case.ins)] for case, _, _ in cases])
    for (case, f, mode), got in zip(cases, outputs):
        rows = [tuple(map(float, row)) for row in zip(*inputs[: len(case.ins)])]
        wanted = [exact(f, row, t, mode) for row in rows]
        defined = np.array([w is not None for w in wanted])
        assert defined.sum() > 10
        reference = np.array([w for w in wanted if w is not None]).astype(got.dtype)
        expect(got[defined], reference, *(x[defined] for x in inputs[: len(case.ins)]), label=case.text)


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_arithmetic_rounds_as_it_says(t: str) -> None:
    cases: list[tuple[Case, Callable[..., Fraction], str]] = []
    for mode in MODES:
        cases += [
            (Case(f"add.{mode}.{t} %d, %a, %b;", t, (t, t)), lambda a, b: a + b, mode),
            (Case(f"sub.{mode}.{t} %d, %a, %b;", t, (t, t)), lambda a, b: a - b, mode),
            (Case(f"mul.{mode}.{t} %d, %a, %b;", t, (t, t)), lambda a, b: a * b, mode),
            (Case(f"div.{mode}.{t} %d, %a, %b;", t, (t, t)), lambda a, b: a / b, mode),
            (Case(f"fma.{mode}.{t} %d, %a, %b, %c;", t, (t, t, t)), lambda a, b, c: a * b + c, mode),
            (Case(f"mad.{mode}.{t} %d, %a, %b, %c;", t, (t, t, t)), lambda a, b, c: a * b + c, mode),
            (Case(f"rcp.{mode}.{t} %d, %a;", t, (t,)), lambda a: 1 / a, mode),
        ]
    cases += [
        (Case(f"add.{t} %d, %a, %b;", t, (t, t)), lambda a, b: a + b, "rn"),
        (Case(f"mul.{t} %d, %a, %b;", t, (t, t)), lambda a, b: a * b, "rn"),
    ]
    a, b = pairs(floats(t, 1, 8), floats(t, 2, 8))
    c = np.random.default_rng(3).permutation(np.resize(floats(t, 4), len(a)))
    # Sums that nearly cancel, and products whose rounding an addend of the last place decides.
    c[::3] = (-(a * b))[::3]
    check_exact(cases, [a, b, c], t)


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_square_roots_round_as_they_say(t: str) -> None:
    a = np.abs(floats(t, 5, 60))
    outputs = evaluate([Case(f"sqrt.{mode}.{t} %d, %a;", t, (t,)) for mode in MODES], [[a]] * 4)
    for mode, got in zip(MODES, outputs):
        for x, y in zip(map(float, a), map(float, got)):
            if not math.isfinite(x) or x == 0:
                assert y == x or (math.isnan(x) and math.isnan(y))
                continue
            down, up = float(np.nextafter(got.dtype.type(y), 0)), float(np.nextafter(got.dtype.type(y), np.inf))
            root = Fraction(x)
            if mode == "rn":
                assert (Fraction(down) + Fraction(y)) ** 2 / 4 <= root <= (Fraction(y) + Fraction(up)) ** 2 / 4
            elif mode == "rp":
                assert Fraction(down) ** 2 < root <= Fraction(y) ** 2
            else:
                assert Fraction(y) ** 2 <= root < Fraction(up) ** 2


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values(t: str) -> None:
    a, b = pairs(floats(t, 6, 6), floats(t, 7, 6))
    table: list[tuple[str, np.ndarray]] = [
        (f"add.{t} %d, %a, %b;", a + b), (f"sub.{t} %d, %a, %b;", a - b), (f"mul.{t} %d, %a, %b;", a * b),
        (f"div.rn.{t} %d, %a, %b;", a / b), (f"neg.{t} %d, %a;", -a), (f"abs.{t} %d, %a;", np.abs(a)),
        (f"copysign.{t} %d, %a, %b;", np.copysign(b, a)), (f"rcp.rn.{t} %d, %a;", np.array(1, a.dtype) / a),
        (f"sqrt.rn.{t} %d, %a;", np.sqrt(a)),
    ]  # fmt: skip
    low = np.where(
        np.isnan(a), b, np.where(np.isnan(b), a, np.where(a == b, np.where(np.signbit(a), a, b), np.minimum(a, b)))
    )
    high = np.where(
        np.isnan(a), b, np.where(np.isnan(b), a, np.where(a == b, np.where(np.signbit(a), b, a), np.maximum(a, b)))
    )
    nan = np.isnan(a) | np.isnan(b)
    table += [(f"min.{t} %d, %a, %b;", low), (f"max.{t} %d, %a, %b;", high)]
    if t == "f32":
        table += [
            ("min.NaN.f32 %d, %a, %b;", np.where(nan, np.float32(np.nan), low)),
            ("max.NaN.f32 %d, %a, %b;", np.where(nan, np.float32(np.nan), high)),
            ("add.sat.f32 %d, %a, %b;", np.where(a + b > 0, np.minimum(a + b, np.float32(1)), np.float32(0))),
        ]
    outputs = evaluate([Case(x, t, (t, t)) for x, _ in table], [[a, b]] * len(table))
    for (text, wanted), got in zip(table, outputs):
        expect(got, wanted.astype(a.dtype), a, b, label=text)


def flushed(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x).astype(np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_flushing_takes_subnormals_as_zero() -> None:
    a, b = pairs(floats("f32", 8, 10), floats("f32", 9, 10))
    x, y = flushed(a), flushed(b)
    table = [
        ("add.ftz.f32 %d, %a, %b;", x + y), ("mul.ftz.f32 %d, %a, %b;", x * y), ("div.rn.ftz.f32 %d, %a, %b;", x / y),
        ("neg.ftz.f32 %d, %a;", -x), ("abs.ftz.f32 %d, %a;", np.abs(x)), ("sqrt.rn.ftz.f32 %d, %a;", np.sqrt(x)),
        ("cvt.ftz.f32.f32 %d, %a;", x),
    ]  # fmt: skip
    outputs = evaluate([Case(text, "f32", ("f32", "f32")) for text, _ in table], [[a, b]] * len(table))
    for (text, wanted), got in zip(table, outputs):
        expect(got, flushed(wanted), a, b, label=text)
    (compared,) = evaluate([Case("setp.eq.ftz.f32 %d, %a, %b;", "pred", ("f32", "f32"))], [[a, b]])
    assert (compared == (x == y)).all()


@pytest.mark.parametrize("t", ["f16", "bf16", "f32", "f64"])
def test_comparisons(t: str) -> None:
    source = floats("f32" if t in ("f16", "bf16") else t, 10, 12)
    with np.errstate(over="ignore"):
        values = source.astype({"f16": np.float16, "bf16": BF16}.get(t, source.dtype))
    a, b = pairs(values, values)
    either = np.isnan(a) | np.isnan(b)
    ordered = {"eq": a == b, "ne": (a != b) & ~either, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    table = {**ordered, **{f"{k}u": v | either for k, v in ordered.items()}, "num": ~either, "nan": either}
    cases = [Case(f"setp.{name}.{t} %d, %a, %b;", "pred", (t, t)) for name in table]
    raw = [x.view(np.uint16) if t == "bf16" else x for x in (a, b)]
    for (name, wanted), got in zip(table.items(), evaluate(cases, [raw] * len(cases))):
        assert (got == wanted).all(), name


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_classes(t: str) -> None:
    a = floats(t, 11, 40)
    subnormal = (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)
    table = {
        "finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & ~subnormal, "subnormal": subnormal,
    }  # fmt: skip
    cases = [Case(f"testp.{name}.{t} %d, %a;", "pred", (t,)) for name in table]
    for (name, wanted), got in zip(table.items(), evaluate(cases, [[a]] * len(cases))):
        assert (got == wanted).all(), name


def ulps(got: np.ndarray, wanted: np.ndarray) -> float:
    """The largest distance in units of the last place of f32."""
    finite = np.isfinite(wanted.astype(np.float32)) & (np.abs(wanted) > 1e-44)
    unit = np.spacing(np.abs(wanted[finite]).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got[finite].astype(np.float64) - wanted[finite]) / unit))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_approximations_are_near_the_truth() -> None:
    rng = np.random.default_rng(12)
    a = np.concatenate([rng.uniform(-160, 140, 3000), rng.uniform(-4, 4, 3000), floats("f32", 1)]).astype(np.float32)
    x = a.astype(np.float64)
    table = {
        "ex2.approx.f32": (np.exp2(x), 1.0), "lg2.approx.f32": (np.log2(x), 1.0), "rcp.approx.f32": (1 / x, 1.0),
        "sqrt.approx.f32": (np.sqrt(x), 1.0), "rsqrt.approx.f32": (1 / np.sqrt(x), 1.5),
        "tanh.approx.f32": (np.tanh(x), 1.0),
    }  # fmt: skip
    outputs = evaluate([Case(f"{name} %d, %a;", "f32", ("f32",)) for name in table], [[a]] * len(table))
    for (name, (wanted, bound)), got in zip(table.items(), outputs):
        rounded = wanted.astype(np.float32)
        assert (np.isnan(got) == np.isnan(rounded)).all(), name
        infinite = np.isinf(rounded)
        assert (got[infinite] == rounded[infinite]).all(), name
        assert ulps(got, wanted) <= bound, (name, ulps(got, wanted))
    angles = np.concatenate([rng.uniform(-1000, 1000, 4000), rng.uniform(-3.2, 3.2, 4000), [0, 1e6, 1e9]]).astype(
        np.float32
    )
    sin, cos, bad = evaluate(
        [Case("sin.approx.f32 %d, %a;", "f32", ("f32",)), Case("cos.approx.f32 %d, %a;", "f32", ("f32",)),
         Case("mov.f32 %d, 0f7F800000; sin.approx.f32 %d, %d;", "f32", ("f32",))], [[angles]] * 3
    )  # fmt: skip
    assert np.abs(sin - np.sin(angles.astype(np.float64))).max() < 1e-7
    assert np.abs(cos - np.cos(angles.astype(np.float64))).max() < 1e-7
    assert np.isnan(bad).all()


def test_gross_reciprocals_of_doubles_keep_the_upper_half() -> None:
    a = np.abs(floats("f64", 13, 200))
    a = a[np.isfinite(a) & (a > 1e-300) & (a < 1e300)]
    reciprocal, root = evaluate(
        [Case("rcp.approx.ftz.f64 %d, %a;", "f64", ("f64",)), Case("rsqrt.approx.ftz.f64 %d, %a;", "f64", ("f64",))],
        [[a], [a]],
    )
    for got, wanted in ((reciprocal, 1 / a), (root, 1 / np.sqrt(a))):
        assert not (got.view(np.uint64) & 0xFFFFFFFF).any()
        assert np.abs(got / wanted - 1).max() < 2.0**-19


# ---- half formats ----


def half_inputs(t: str, seed: int) -> np.ndarray:
    """Bits at random: all exponents, subnormals, infinities and NaN included."""
    bits = np.random.default_rng(seed).integers(0, 1 << 16, 1500, dtype=np.uint16)
    bits[:8] = [
        0,
        0x8000,
        1,
        0x8001,
        0x3C00 if t == "f16" else 0x3F80,
        0x7BFF if t == "f16" else 0x7F7F,
        0x0400,
        0x0080,
    ]
    return bits


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_half_arithmetic_rounds_once(t: str) -> None:
    dtype = np.float16 if t == "f16" else BF16
    a, b, c = (half_inputs(t, seed) for seed in (1, 2, 3))
    b[::3] = a[::3] ^ np.uint16(0x8000 + 1)  # sums that nearly cancel
    values = [x.view(dtype).astype(np.float64) for x in (a, b, c)]
    raw = [x.view(DTYPES[t]) for x in (a, b, c)]
    cases: list[tuple[str, Callable[..., Fraction]]] = [
        (f"add.{t} %d, %a, %b;", lambda x, y, z: x + y),
        (f"sub.{t} %d, %a, %b;", lambda x, y, z: x - y),
        (f"mul.{t} %d, %a, %b;", lambda x, y, z: x * y),
        (f"fma.rn.{t} %d, %a, %b, %c;", lambda x, y, z: x * y + z),
    ]
    outputs = evaluate([Case(text, t, (t, t, t)) for text, _ in cases], [raw] * len(cases))
    for (text, f), got in zip(cases, outputs):
        got = got.view(dtype).astype(np.float64)
        rows = list(zip(*(map(float, v) for v in values)))
        wanted = [exact(lambda x, y, z, f=f: f(x, y, z), row, t, "rn") for row in rows]
        defined = np.array([w is not None for w in wanted])
        assert defined.sum() > 500
        expect(got[defined], np.array([w for w in wanted if w is not None]), *(v[defined] for v in values), label=text)
        not_finite = ~np.isfinite(values[0]) | ~np.isfinite(values[1])
        if "fma" not in text:
            special = f"{text[:3]}"
            reference = {"add": values[0] + values[1], "sub": values[0] - values[1], "mul": values[0] * values[1]}[
                special
            ]
            expect(got[not_finite], reference[not_finite], label=text)


@pytest.mark.parametrize("t", ["f16", "bf16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_half_minimum_absolute_and_packed(t: str) -> None:
    dtype = np.float16 if t == "f16" else BF16
    a, b = half_inputs(t, 4), half_inputs(t, 5)
    x, y = a.view(dtype).astype(np.float32), b.view(dtype).astype(np.float32)
    raw = [a.view(DTYPES[t]), b.view(DTYPES[t])]
    low, high, minus, plus = evaluate(
        [Case(f"{op}.{t} %d, %a, %b;", t, (t, t)) for op in ("min", "max")]
        + [Case(f"neg.{t} %d, %a;", t, (t, t)), Case(f"abs.{t} %d, %a;", t, (t, t))],
        [raw] * 4,
    )
    expect(low.view(dtype).astype(np.float32), np.fmin(x, y), x, y, label="min")
    expect(high.view(dtype).astype(np.float32), np.fmax(x, y), x, y, label="max")
    nan = np.isnan(x)  # of which the hardware has one
    assert (minus.view(np.uint16) == np.where(nan, 0x7FFF, a ^ 0x8000)).all()
    assert (plus.view(np.uint16) == np.where(nan, 0x7FFF, a & 0x7FFF)).all()
    # The packed forms do the same twice.
    both = [a.astype(np.uint32) | b.astype(np.uint32) << 16, b.astype(np.uint32) | a.astype(np.uint32) << 16]
    cases = [
        Case(f"add.{t}x2 %d, %a, %b;", f"{t}x2", (f"{t}x2",) * 2),
        Case(f"mul.{t}x2 %d, %a, %b;", f"{t}x2", (f"{t}x2",) * 2),
    ]
    scalar = evaluate([Case(f"add.{t} %d, %a, %b;", t, (t, t)), Case(f"mul.{t} %d, %a, %b;", t, (t, t))], [raw] * 2)
    for got, one in zip(evaluate(cases, [both] * 2), scalar):
        one = one.view(np.uint16)
        assert ((got & 0xFFFF) == one).all() and ((got >> 16) == one).all()


def test_packed_floats() -> None:
    a, b, c = (np.resize(np.random.default_rng(s).standard_normal(200).astype(np.float32), 200) for s in (1, 2, 3))
    packed = [x.view(np.uint64) for x in (a, b, c)]
    (got,) = evaluate([Case("add.rn.f32x2 %d, %a, %b;", "f32x2", ("f32x2",) * 3)], [packed])
    expect(got.view(np.float32), a + b, a, b)
    (got,) = evaluate([Case("fma.rn.f32x2 %d, %a, %b, %c;", "f32x2", ("f32x2",) * 3)], [packed])
    wanted = (a.astype(np.float64) * b + c).astype(np.float32)
    assert np.abs(got.view(np.float32) - wanted).max() <= np.spacing(np.abs(wanted).max())


def test_nothing_is_contracted() -> None:
    """A product and a sum are two roundings unless the PTX says fma."""
    a = np.full(64, 1 + 2.0**-12, np.float32)
    (got,) = evaluate([Case("mul.f32 %d, %a, %a; sub.f32 %d, %d, %b;", "f32", ("f32", "f32"))], [[a, a * a]])
    assert (got == 0).all()
    (got,) = evaluate([Case("neg.f32 %d, %b; fma.rn.f32 %d, %a, %a, %d;", "f32", ("f32", "f32"))], [[a, a * a]])
    assert (got == np.float32(2.0**-24)).all()


@pytest.mark.parametrize("operation", ["min", "max"])
@pytest.mark.parametrize("threads", [1, 32])
def test_a_number_known_as_one_wins_against_nan(operation: str, threads: int) -> None:
    """LLVM turns the operands round where it sees that one is no NaN."""
    nans = np.array([0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0000000000001, 0x7FFC123400000000] * 8, np.uint64)
    out = np.full(32, 5.0)
    run(f""".visible .entry k(.param .u64 x, .param .u64 out) {{ .reg .b64 %x, %o; .reg .b32 %t; .reg .f64 %a, %b;
        mov.u32 %t, %tid.x; ld.param.u64 %x, [x]; ld.param.u64 %o, [out]; mad.wide.u32 %x, %t, 8, %x;
        mad.wide.u32 %o, %t, 8, %o; ld.global.f64 %a, [%x]; cvt.rn.f64.s32 %b, %t; {operation}.f64 %a, %a, %b;
        st.global.f64 [%o], %a; ret; }}""", "k", pointers(nans, out), 1, threads)  # fmt: skip
    assert out[:threads].tolist() == list(range(threads))
