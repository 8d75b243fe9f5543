"""Triton's kernels on the CPU device, against NumPy in float64 or exact integers.

Triton appends two pointers to each kernel's parameters, for scratch memory that these kernels do not have: null.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from compilers_harness import RNG, Made, Source, fresh, kept, poisoned


@pytest.fixture(scope="module", params=["kept", "fresh"])
def triton(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    if request.param == "kept":
        return kept("triton")
    return fresh("triton", "triton", tmp_path_factory.mktemp("triton"), "--line-info")


def get(triton: Source, name: str) -> Made:
    return triton.kernel(name, hidden=2)


def bf16(x: np.ndarray) -> np.ndarray:
    """The bits of `x`, which is exact in bf16."""
    bits = x.astype(np.float32).view(np.uint32)
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype(np.uint16)


def short(shape: tuple[int, ...], digits: int) -> np.ndarray:
    """Normal random numbers of `digits` binary digits: exact in a small format."""
    mantissa, exponent = np.frexp(RNG.standard_normal(shape))
    return np.ldexp(np.round(mantissa * 2**digits) / 2**digits, exponent).astype(np.float32)


@pytest.mark.parametrize(("rows", "columns", "pad"), [(1, 1, 0), (5, 781, 3), (3, 1024, 0), (2, 33, 7)])
def test_softmax(triton: Source, rows: int, columns: int, pad: int) -> None:
    src = (RNG.standard_normal((rows, columns + pad)) * 10).astype(np.float32)
    out = poisoned((rows, columns + 2))
    kernel = get(triton, "softmax")
    kernel(rows, kernel.threads, out, src, out.shape[1], src.shape[1], columns)
    x = src[:, :columns].astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    wanted = e / e.sum(axis=1, keepdims=True)
    # ex2.approx of an argument as large as 90, rounded to f32 first: an error of 90 x 2^-24 relative, and 2 ulp.
    np.testing.assert_allclose(out[:, :columns], wanted, rtol=1e-5, atol=1e-12)
    assert np.isnan(out[:, columns:]).all()


def test_softmax_of_aligned_rows(triton: Source) -> None:
    src, out = (RNG.standard_normal((7, 816)) * 3).astype(np.float32), poisoned((7, 816))
    kernel = get(triton, "softmax_aligned")
    kernel(7, kernel.threads, out, src, 816, 816, 803)
    x = src[:, :803].astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out[:, :803], e / e.sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-12)
    assert np.isnan(out[:, 803:]).all()


@pytest.mark.parametrize(("name", "dtype", "columns"), [
    ("layernorm", np.float32, 700), ("layernorm", np.float32, 1), ("layernorm_f16", np.float16, 1537),
])  # fmt: skip
def test_layernorm(triton: Source, name: str, dtype: type, columns: int) -> None:
    rows, eps = 4, 1e-5
    src = (RNG.standard_normal((rows, columns)) * 2 + 3).astype(dtype)
    weight, bias = (RNG.standard_normal(columns).astype(np.float32) for _ in range(2))
    out, mean, rstd = poisoned((rows, columns), dtype), poisoned(rows), poisoned(rows)
    kernel = get(triton, name)
    kernel(rows, kernel.threads, out, mean, rstd, src, weight, bias, columns, eps)
    x = src.astype(np.float64)
    m = x.mean(axis=1)
    r = 1 / np.sqrt(x.var(axis=1) + np.float64(np.float32(eps)))
    np.testing.assert_allclose(mean, m, rtol=2e-6)  # sums of a few hundred numbers of one sign
    np.testing.assert_allclose(rstd, r, rtol=5e-6)
    wanted = (x - m[:, None]) * r[:, None] * weight + bias
    scale = np.abs(x - m[:, None]) * r[:, None] * np.abs(weight) + np.abs(bias) + r[:, None]
    assert (np.abs(out - wanted) <= scale * (1e-5 if dtype == np.float32 else 1e-3)).all()


def run_matmul(kernel: Made, a: np.ndarray, b: np.ndarray, c: np.ndarray, n: int, tile: int = 32) -> None:
    """c[:, :n] = a @ b[:, :n]."""
    m, k = len(a), len(b)
    kernel((-(-m // tile), -(-n // tile)), kernel.threads, c, a, b, m, n, k, c.shape[1], a.shape[1], b.shape[1])


def check_product(c: np.ndarray, a: np.ndarray, b: np.ndarray, n: int, unit: float) -> None:
    """Each sum of k products within k/2 + 4 units of the sum of their magnitudes, the classical bound with slack."""
    a, b = a[:, : len(b)].astype(np.float64), b[:, :n].astype(np.float64)
    bound = (np.abs(a) @ np.abs(b)) * unit * (len(b) / 2 + 4) + 1e-30
    assert (np.abs(c[:, :n] - a @ b) <= bound).all()
    assert np.isnan(c[:, n:]).all()


def test_matmul_of_floats(triton: Source) -> None:
    m, n, k = 45, 37, 53
    a, b = RNG.standard_normal((m, k), dtype=np.float32), RNG.standard_normal((k, n), dtype=np.float32)
    c = poisoned((m, n + 3))
    run_matmul(get(triton, "matmul_f32"), a, b, c, n)
    check_product(c, a, b, n, 2.0**-24)


@pytest.mark.parametrize("name", ["matmul_f16", "matmul_bf16", "matmul_bf16_unaligned", "matmul_bf16_64"])
def test_matmul_of_halves(triton: Source, name: str) -> None:
    m, n, k = 75, 50, 93
    a, b = short((m, 96), 8), short((k, 64), 8)
    c = poisoned((m, 64), np.float16 if name == "matmul_f16" else np.float32)
    convert = (lambda x: x.astype(np.float16)) if name == "matmul_f16" else bf16
    run_matmul(get(triton, name), convert(a), convert(b), c, n, 64 if name.endswith("64") else 32)
    # f16 results are rounded once more, to 11 digits: 2^-11 of the value, which is less than the sum of magnitudes.
    check_product(c, a, b, n, 2.0**-23 + (2.0**-12 / (k / 2 + 4) * 2 if name == "matmul_f16" else 0))


def test_matmul_of_tf32(triton: Source) -> None:
    m, n, k = 40, 33, 61
    a, b, c = short((m, 64), 11), short((k, 48), 11), poisoned((m, 48))
    run_matmul(get(triton, "matmul_tf32"), a, b, c, n)
    check_product(c, a, b, n, 2.0**-23)


def test_matmul_of_bytes(triton: Source) -> None:
    m, n, k = 50, 41, 70
    a, b = RNG.integers(-128, 128, (m, 80), np.int8), RNG.integers(-128, 128, (k, 48), np.int8)
    c = poisoned((m, 48), np.int32)
    run_matmul(get(triton, "matmul_s8"), a, b, c, n)
    assert np.array_equal(c[:, :n], a[:, :k].astype(np.int32) @ b[:, :n].astype(np.int32))
    assert (c[:, n:] == poisoned(1, np.int32)).all()


@pytest.mark.parametrize(("name", "d", "block", "length", "causal"), [
    ("attention_f32", 16, 16, 45, True), ("attention_f16", 32, 32, 77, True), ("attention_bf16", 32, 32, 61, False),
])  # fmt: skip
def test_attention(triton: Source, name: str, d: int, block: int, length: int, causal: bool) -> None:
    heads, scale = 2, d**-0.5
    q, k, v = (short((heads, length, d), 8) for _ in range(3))
    kind = name[10:]
    out = poisoned((heads, length, d), np.float16 if kind == "f16" else np.float32)
    convert = {"f16": lambda x: x.astype(np.float16), "bf16": bf16, "f32": lambda x: x}[kind]
    kernel = get(triton, name)
    inputs = [convert(x) for x in (q, k, v)]  # alive during the launch
    kernel((-(-length // block), heads), kernel.threads, out, *inputs, length, scale)
    s = np.einsum("hid,hjd->hij", q.astype(np.float64), k.astype(np.float64)) * scale
    if causal:
        s = np.where(np.tri(length, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    # The probabilities are rounded to the format of v before the second product, which is linear in them.
    slack = {"f32": 1e-5, "f16": 2.0**-10, "bf16": 2.0**-8}[kind]
    assert (np.abs(out - p @ v) <= slack * (p @ np.abs(v).astype(np.float64)) + 1e-7).all()


def test_reduction(triton: Source) -> None:
    n, block = 3001, 512
    src = RNG.permutation(np.arange(-1500, n - 1500)).astype(np.float32)  # distinct; all sums are exact in f32
    blocks = -(-n // block)
    total, top, where = np.full(1, 5, np.float32), poisoned(blocks), poisoned(blocks, np.int32)
    kernel = get(triton, "reduction")
    kernel(blocks, kernel.threads, total, top, where, src, n, threads=2)
    assert total[0] == 5 + src.sum(dtype=np.float64)
    parts = [src[k : k + block] for k in range(0, n, block)]
    assert top.tolist() == [p.max() for p in parts]
    assert where.tolist() == [k * block + int(p.argmax()) for k, p in enumerate(parts)]


def test_atomics(triton: Source) -> None:
    n, keys = 1000, 23
    key = RNG.integers(1, keys, n, dtype=np.int32)
    value = RNG.integers(-(2**31), 2**31, n, dtype=np.int32)
    added, bits = (RNG.integers(-(2**31), 2**31, keys, dtype=np.int32) for _ in range(2))
    lowest, highest = np.full(keys, 2**31 - 1, np.int32), np.full(keys, -(2**31), np.int32)
    swapped = np.full(keys, -1, np.int32)
    swapped[::3] = 7
    wanted_added, wanted_bits = added.copy(), bits.copy()
    np.add.at(wanted_added, key, value)
    np.bitwise_or.at(wanted_bits, key, np.left_shift(1, value & 31).astype(np.int32))
    kernel = get(triton, "atomics")
    kernel(-(-n // 128), kernel.threads, added, lowest, highest, bits, swapped, key, value, n, threads=2)
    assert np.array_equal(added, wanted_added) and np.array_equal(bits, wanted_bits)
    for k in range(1, keys):
        mine = value[key == k]
        assert lowest[k] == mine.min(initial=2**31 - 1) and highest[k] == mine.max(initial=-(2**31))
        assert swapped[k] in mine if k % 3 and len(mine) else swapped[k] == (7 if k % 3 == 0 else -1)


def test_blocks_take_turns_under_a_lock(triton: Source) -> None:
    blocks = 19
    src = RNG.integers(-(1 << 60), 1 << 60, (blocks, 64))
    lock, count, sums = np.zeros(1, np.int32), np.full(1, 100, np.int32), np.arange(64)
    kernel = get(triton, "locked")
    kernel(blocks, kernel.threads, lock, count, sums, src, threads=2)
    assert np.array_equal(sums, np.arange(64) + src.sum(axis=0)) and lock[0] == 0


def test_scan(triton: Source) -> None:
    rows, columns = 3, 201
    src = RNG.integers(0, 2**31, (rows, columns), dtype=np.int32)
    out, last = poisoned((rows, columns), np.int32), poisoned((rows, columns), np.int32)
    kernel = get(triton, "scan")
    kernel(rows, kernel.threads, out, last, src, columns)
    assert np.array_equal(out, np.cumsum(src, axis=1, dtype=np.int64).astype(np.int32))
    assert np.array_equal(last, np.maximum.accumulate(src[:, ::-1], axis=1)[:, ::-1])


def test_sort(triton: Source) -> None:
    rows = 5
    src = RNG.integers(-(2**31), 2**31, (rows, 64), dtype=np.int32)
    out, counts = poisoned((rows, 64), np.int32), poisoned((rows, 32), np.int32)
    kernel = get(triton, "sort")
    kernel(rows, kernel.threads, out, counts, src)
    assert np.array_equal(out, np.sort(src, axis=1))
    assert np.array_equal(counts, [np.bincount(row & 31, minlength=32) for row in src])


def philox(counter: np.ndarray, seed: int) -> np.ndarray:
    """The first word of Philox 4x32 with ten rounds, in exact integers."""
    mask = np.uint64(0xFFFFFFFF)
    c = [counter.astype(np.uint64), *(np.zeros_like(counter, np.uint64) for _ in range(3))]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(key[0]), b & mask,
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(key[1]), a & mask]  # fmt: skip
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


def test_dropout(triton: Source) -> None:
    n, keep, seed = 999, 0.625, int(RNG.integers(0, 2**31))
    src, out = RNG.standard_normal(n, dtype=np.float32), poisoned(n)
    kernel = get(triton, "dropout")
    kernel(-(-n // 256), kernel.threads, out, src, n, keep, seed)
    word = philox(np.arange(n), seed).astype(np.uint32).view(np.int32)
    uniform = np.where(word < 0, -word - 1, word).astype(np.float32) * np.float32(4.6566127342e-10)
    np.testing.assert_allclose(out, np.where(uniform < keep, src / keep, 0.0), rtol=1e-6)
    assert 0.5 < np.count_nonzero(out) / n < 0.75


def test_maths(triton: Source) -> None:
    n = 500
    src, out = RNG.uniform(-20, 20, n).astype(np.float32), poisoned((10, n))
    src[:3] = 1e5, -3e4, 2.0**-20
    src[0] = 100.25  # exp2 of more is infinite
    src[1] = -100.25
    kernel = get(triton, "maths")
    kernel(-(-n // 128), kernel.threads, out, src, n)
    x = src.astype(np.float64)
    erf = np.array([math.erf(e) for e in x])
    wanted = [np.sin(x), np.cos(x), np.exp2(x), np.log(np.abs(x)), erf, 1 / np.sqrt(np.abs(x)), np.floor(x),
              np.sqrt(np.abs(x)), 1 / x, 1 / (1 + np.exp(-x))]  # fmt: skip
    for k, row in enumerate(wanted):
        # sin and cos are the hardware's, after a reduction: an absolute error. 2^x and the sigmoid use ex2.approx.
        rtol, atol = {0: (0, 2e-6), 1: (0, 2e-6), 2: (3e-7, 0), 3: (3e-7, 2e-7), 9: (1e-5, 1e-40)}.get(k, (3e-7, 0))
        np.testing.assert_allclose(out[k], row, rtol=rtol, atol=atol, err_msg=str(k))
    assert np.array_equal(out[7], np.sqrt(np.abs(src))) and np.array_equal(out[8], np.float32(1) / src)


def test_casts(triton: Source) -> None:
    n = 700
    with np.errstate(over="ignore"):
        corners = [0.0, -0.0, 65519, 65520, 1e-8, 2.0**-24, 2.0**-25, -1e30]
        spread = RNG.standard_normal(n - 8) * np.exp2(RNG.uniform(-24, 16, n - 8))
        src = np.concatenate([spread, corners]).astype(np.float32)
        halves = src.astype(np.float16)
    bits = src.view(np.uint32).astype(np.uint64)
    bfloats = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)  # ties to even
    out, middle, eights, back = (poisoned(n, d) for d in (np.uint16, np.uint16, np.uint8, np.float32))
    kernel = get(triton, "casts")
    kernel(-(-n // 128), kernel.threads, out, middle, eights, back, src, n)
    assert np.array_equal(out, halves.view(np.uint16)) and np.array_equal(middle, bfloats)
    small = np.abs(halves.astype(np.float64)) <= 57344  # what is larger rounds to infinity or the largest, by choice
    word = halves.view(np.uint16).astype(np.uint32)
    e5m2 = ((word + 0x7F + (word >> 8 & 1)) >> 8).astype(np.uint8)
    assert np.array_equal(eights[small], e5m2[small])
    wide = (e5m2.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    middle_wide = (bfloats.astype(np.uint32) << 16).view(np.float32)
    assert np.array_equal(back[small], (wide + middle_wide)[small])


def test_transpose(triton: Source) -> None:
    src, out = RNG.standard_normal((37, 55)), poisoned((55, 37), np.float64)
    kernel = get(triton, "transpose")
    kernel((3, 4), kernel.threads, out, src, 37, 55)
    assert np.array_equal(out, src.T)
