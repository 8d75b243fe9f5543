"""Mathematical functions, halves and integer intrinsics of CUDA's headers, as NVRTC translates them, against NumPy.

Tolerances are the errors that CUDA's programming guide states, in units of the last place, with room for NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from compilers_harness import RNG, Cuda, poisoned


def each(function: Callable[..., float], *arrays: np.ndarray) -> np.ndarray:
    return np.array([function(*values) for values in zip(*(a.tolist() for a in arrays))])


def references(x: np.ndarray, y: np.ndarray) -> list[tuple[str, np.ndarray, float]]:
    """Name, value in f64 and the error allowed in ulp of each row of ``maths.cu``."""
    positive = np.abs(x) + x.dtype.type(0.01)  # sums that the kernel rounds
    u, v, p, q = (w.astype(np.float64) for w in (x, y, positive, positive + x.dtype.type(1)))
    part, whole = np.modf(u)
    mantissa, exponent = np.frexp(u)
    return [
        ("sin", np.sin(u), 2), ("cos", np.cos(u), 2), ("tan", np.tan(u), 4), ("asin", np.arcsin(u / 8), 2),
        ("acos", np.arccos(u / 8), 2), ("atan", np.arctan(u), 2), ("atan2", np.arctan2(u, v), 3),
        ("sinh", np.sinh(u), 3), ("cosh", np.cosh(u), 2), ("tanh", np.tanh(u), 2), ("asinh", np.arcsinh(u), 3),
        ("acosh", np.arccosh(q), 4), ("atanh", np.arctanh(u / 8), 3), ("exp", np.exp(u), 2),
        ("exp2", np.exp2(u), 2), ("expm1", np.expm1(u), 2), ("exp10", 10.0**u, 2), ("log", np.log(p), 1),
        ("log2", np.log2(p), 1), ("log10", np.log10(p), 2), ("log1p", np.log1p(p), 1), ("sqrt", np.sqrt(p), 0.5),
        ("rsqrt", 1 / np.sqrt(p), 2), ("cbrt", np.cbrt(u), 1), ("hypot", np.hypot(u, v), 3), ("pow", p**v, 4),
        ("erf", each(math.erf, u), 2), ("erfc", each(math.erfc, u), 4), ("lgamma", each(math.lgamma, p), 6),
        ("tgamma", each(math.gamma, p), 5), ("normcdf", each(lambda x: math.erfc(-x / math.sqrt(2)) / 2, u), 5),
        ("floor", np.floor(u), 0), ("ceil", np.ceil(u), 0), ("trunc", np.trunc(u), 0), ("rint", np.rint(u), 0),
        ("round", np.trunc(u + np.copysign(0.5, u)), 0), ("fmod", np.fmod(u, v), 0),
        ("remainder", each(math.remainder, u, v), 0), ("fdim", np.maximum(u - v, 0), 0.5),
        ("fma", each(lambda a, b, c: float(Fraction(a) * Fraction(b) + Fraction(c)), u, v, p), 0.5),
        ("copysign", np.copysign(u, v), 0), ("ldexp", u * 32, 0), ("frexp", mantissa * 8 + exponent, 1),
        ("modf", part + 2 * whole, 0.5), ("div", u / v, 0.5), ("rcp", 1 / v, 0.5), ("j0", np.full_like(u, np.nan), 0),
        ("sinpi", np.sin(np.pi * np.fmod(u, 2)), 2),
    ]  # fmt: skip


# Where the result passes through zero away from the argument 0, the stated error is an absolute one.
_ABSOLUTE = {"sin", "cos", "tan", "log", "log2", "log10", "lgamma", "sinpi", "atanh", "expm1", "acos", "frexp"}
# What approximate mathematics replaces: sums of approximate exponentials and logarithms, for arguments up to 8 in size.
_COARSE = {"sin", "cos", "tan", "exp", "exp10", "log", "log2", "log10", "pow", "sinh", "cosh", "tanh", "asinh", "acosh",
           "atanh", "expm1", "exp2", "erfc", "lgamma", "tgamma", "normcdf", "div", "rcp", "sqrt", "rsqrt", "hypot",
           "cbrt", "fmod", "remainder", "atan", "atan2", "asin", "acos", "erf", "log1p", "fdim", "fma", "sinpi", "j0",
           "modf", "frexp"}  # fmt: skip


@pytest.mark.source("maths")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mathematical_functions(cuda: Cuda, dtype: type) -> None:
    n = 200
    x, y = RNG.uniform(-7.5, 7.5, n).astype(dtype), RNG.uniform(0.3, 6, n).astype(dtype)
    y[::2] *= -1
    x[:4] = 0.5, -1.5, 2.5, 1e-5
    out = poisoned((48, n), dtype)
    cuda.kernel("maths_f32" if dtype == np.float32 else "maths_f64")(2, 128, x, y, out, n)
    eps = float(np.finfo(dtype).eps)
    for k, (name, wanted, ulp) in enumerate(references(x, y)):
        if name == "j0":
            continue  # checked by its differential equation, below
        if dtype == np.float64:  # the reference is rounded itself, and not always correctly
            ulp += 60 if name == "normcdf" else 2 if ulp else 0
        coarse = cuda.fast and dtype == np.float32 and name in _COARSE
        with np.errstate(over="ignore", invalid="ignore"):
            allowed = (1e-4 if coarse else ulp * eps) * np.maximum(np.abs(wanted), 1 if name in _ABSOLUTE else 0)
            if coarse:
                allowed += 1e-5
            wrong = ~(np.abs(out[k] - wanted) <= allowed + (1e-37 if dtype == np.float32 else 1e-300))
        assert not wrong.any(), (name, [(x[j], y[j], out[k][j], wanted[j]) for j in np.flatnonzero(wrong)[:4]])


@pytest.mark.source("maths")
def test_bessel_function(cuda: Cuda) -> None:
    """J0(x) is the mean of cos(x sin t) over a period; the trapezoidal rule is exact here to rounding."""
    n = 64
    x, y, out = RNG.uniform(-7.5, 7.5, n), np.ones(n), poisoned((48, n), np.float64)
    cuda.kernel("maths_f64")(1, 64, x, y, out, n)
    t = np.arange(64) * (2 * np.pi / 64)
    np.testing.assert_allclose(out[46], np.cos(x[:, None] * np.sin(t)).mean(axis=1), rtol=0, atol=4e-15)


def to_bf16(x: np.ndarray) -> np.ndarray:
    """f64 to bits of bf16, ties to even. Rounding to f32 on the way does no harm where f32 holds the value."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def half_rows(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The rows of ``halves.cu`` in f64; sums and products of two halves are exact there."""
    return [
        a + b, a - b, a * b, a / b, a * b + a, -a, np.abs(a), np.maximum(a, b), np.minimum(a, b), np.floor(a),
        np.ceil(a), np.trunc(a), np.rint(a), np.sqrt(np.abs(a)), np.where(a < b, a, b), np.clip(a + b, 0, 1),
    ]  # fmt: skip


@pytest.mark.source("halves")
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_halves(cuda: Cuda, kind: str) -> None:
    n = 300
    values = RNG.standard_normal((2, n)) * np.exp2(RNG.integers(-4, 5, (2, n)))
    if kind == "f16":
        x, y = values.astype(np.float16)
        a, b = x.astype(np.float64), y.astype(np.float64)
        out = poisoned((16, n), np.float16)
    else:
        x, y = to_bf16(values)
        a, b = from_bf16(x), from_bf16(y)
        out = poisoned((16, n), np.uint16)
    cuda.kernel(f"halves_{kind}")(3, 128, x, y, out, n)
    for k, wanted in enumerate(half_rows(a, b)):
        got = out[k].astype(np.float64) if kind == "f16" else from_bf16(out[k])
        exact = wanted.astype(np.float16).astype(np.float64) if kind == "f16" else from_bf16(to_bf16(wanted))
        # Quotients and roots go through approximate f32: they may round to the neighbour. A bf16 fused operation of f64
        # values is rounded twice by the reference.
        loose = {3, 13} | ({4} if kind == "bf16" else set())
        unit = 2.0**-10 if kind == "f16" else 2.0**-7
        with np.errstate(invalid="ignore"):  # quotients may be infinite
            equal = (got == exact) | (np.abs(got - exact) <= (np.abs(exact) * unit if k in loose else 0))
        assert equal.all(), (k, a[~equal][:3], b[~equal][:3], got[~equal][:3], exact[~equal][:3])


@pytest.mark.source("halves")
def test_pairs_of_halves(cuda: Cuda) -> None:
    n = 200
    x, y = (RNG.standard_normal((n, 2)).astype(np.float16) for _ in range(2))
    out, wide, total = poisoned((4, n, 2), np.float16), poisoned((n, 2)), np.zeros(2, np.float16)
    cuda.kernel("pairs")(2, 128, x, y, out, wide, total, n)
    a, b = x.astype(np.float64), y.astype(np.float64)
    assert np.array_equal(out[0], (a * b + np.maximum(a, b)).astype(np.float16))
    assert np.array_equal(out[1], np.stack([x[:, 0], y[:, 0]], axis=1))
    np.testing.assert_allclose(out[2], a / b, rtol=2.0**-10, atol=2.0**-24)
    assert np.array_equal(out[3], a > b)
    assert np.array_equal(wide, (a + b).astype(np.float16).astype(np.float32))
    assert total[0] == np.count_nonzero((a > b).all(axis=1)) and total[1] == 0


def parts(x: np.ndarray, dtype: type) -> np.ndarray:
    return x.view(dtype).reshape(len(x), -1).astype(np.int64)


def packed(x: np.ndarray, dtype: type) -> np.ndarray:
    return np.ascontiguousarray(x.astype(dtype)).view(np.uint32).ravel()


def simd_rows(a: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    """The rows of ``simd.cu`` in exact integers."""
    u4, v4, s4, t4 = (parts(x, d) for d in (np.uint8, np.int8) for x in (a, b))
    u2, v2, s2, t2 = (parts(x, d) for d in (np.uint16, np.int16) for x in (a, b))
    A, B, S, T = a.astype(object), b.astype(object), a.view(np.int32).astype(object), b.view(np.int32).astype(object)
    choice = (a[:, None] >> np.arange(0, 16, 4)) & 7
    by = B % 64
    return [
        packed(u4 + v4, np.uint8), packed(u2 - v2, np.uint16), packed(np.abs(u4 - v4), np.uint8),
        packed(np.maximum(s4, t4), np.int8), packed(np.minimum(u2, v2), np.uint16),
        packed(np.where(u4 > v4, 255, 0), np.uint8), packed((u4 + v4 + 1) >> 1, np.uint8),
        packed(np.clip(s4 + t4, -128, 127), np.int8), packed(np.abs(s2 - t2), np.uint16), np.abs(u4 - v4).sum(axis=1),
        packed(np.take_along_axis(np.hstack([u4, v4]), choice.astype(np.int64), axis=1), np.uint8),
        (s4 * t4).sum(axis=1) + 1000, (u4 * v4).sum(axis=1) + 7, (s2 * t4[:, :2]).sum(axis=1) - 5,
        (u2 * v4[:, 2:]).sum(axis=1) + 3, np.array([int(f"{x:032b}"[::-1], 2) for x in A]),
        np.array([32 - x.bit_length() for x in A]), np.array([(x & -x).bit_length() for x in B]),
        np.array([(x ^ y).bit_count() for x, y in zip(A, B)]), A * B >> 32, S * T >> 32,
        (A % 2**24) * (B % 2**24), ((S % 2**24 ^ 2**23) - 2**23) * ((T % 2**24 ^ 2**23) - 2**23), abs(S - T) + 9,
        abs(A - B) + 1, (S + T) >> 1, (A + B + 1) >> 1,
        np.array([(y << 32 | x) << min(k, 32) >> 32 & 0xFFFFFFFF for x, y, k in zip(A, B, by)]),
        np.array([(y << 32 | x) >> x % 32 & 0xFFFFFFFF for x, y in zip(A, B)]),
    ]  # fmt: skip


@pytest.mark.source("simd")
def test_integer_intrinsics(cuda: Cuda) -> None:
    n = 150
    a, b = (RNG.integers(0, 2**32, n, np.uint32) for _ in range(2))
    a[:6], b[:6] = [0, 1, 2**32 - 1, 2**31, 0x7F80FF01, 0x80808080], [0, 2**32 - 1, 2**31, 2**31, 0x7F7F8080, 1]
    out, wide = poisoned((29, n), np.uint32), poisoned((6, n), np.uint64)
    cuda.kernel()(3, 64, a, b, out, wide, n)
    for k, row in enumerate(simd_rows(a, b)):
        wanted = [int(v) % 2**32 for v in row]
        assert out[k].tolist() == wanted, (k, [t for t in zip(a, b, out[k], wanted) if t[2] != t[3]][:4])
    for i in range(n):
        u, v = int(a[i]) << 32 | int(b[i]), (int(b[i]) << 29 | int(a[i])) % 2**64
        su, sv = (w - (w >> 63 << 64) for w in (u, v))
        odd = sv | 1
        quotient = abs(su) // abs(odd) * (1 if (su < 0) == (odd < 0) else -1)
        counts = (64 - v.bit_length()) * 65536 + (u & -u).bit_length() * 256 + (u ^ v).bit_count()
        wanted = [u * v >> 64, su * sv >> 64, int(f"{u:064b}"[::-1], 2), counts, u // (v | 1) + u % (v | 1), quotient]
        assert wide[:, i].tolist() == [w % 2**64 for w in wanted], (hex(u), hex(v))
