"""CUDA C++ over arrays of numbers, as NVRTC, nvcc and clang translate it, against NumPy in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
from compilers_harness import RNG, Cuda, poisoned

UNIT = 2.0**-24  # half a unit in the last place of f32, relative


@pytest.mark.source("saxpy")
@pytest.mark.parametrize(("n", "grid", "block"), [(1, 1, 32), (4099, 5, 96), (1023, 9, 128)])
def test_saxpy(cuda: Cuda, n: int, grid: int, block: int) -> None:
    x, y = (RNG.standard_normal(n + 5, dtype=np.float32) for _ in range(2))
    a, before = np.float32(RNG.standard_normal()), y.copy()
    cuda.kernel()(grid, block, x, y, a, n)
    wanted = before[:n] + np.float64(a) * x[:n]
    # One rounding with a fused multiply-add, two without.
    assert (np.abs(y[:n] - wanted) <= UNIT * (np.abs(wanted) + np.abs(np.float64(a) * x[:n])) * 1.001).all()
    assert np.array_equal(y[n:], before[n:])


@pytest.mark.source("stencil")
def test_stencil(cuda: Cuda) -> None:
    h, w = 45, 75
    src, dst = RNG.standard_normal((h, w), dtype=np.float32), poisoned((h, w))
    centre, side = np.float32(-4.25), np.float32(1.125)
    cuda.kernel()((3, 6), (32, 8), src, dst, w, h, centre, side)
    p = np.pad(src.astype(np.float64), 1)
    sides = [p[:-2, 1:-1], p[1:-1, :-2], p[1:-1, 2:], p[2:, 1:-1]]
    wanted = centre * p[1:-1, 1:-1] + side * sum(sides)
    scale = np.abs(centre * p[1:-1, 1:-1]) + side * sum(np.abs(s) for s in sides)
    assert (np.abs(dst - wanted) <= 6 * UNIT * scale).all()  # five additions and a product


@pytest.mark.source("matmul")
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (35, 50, 41), (16, 33, 64)])
def test_matmul(cuda: Cuda, m: int, n: int, k: int) -> None:
    a, b = RNG.standard_normal((m, k), dtype=np.float32), RNG.standard_normal((k, n), dtype=np.float32)
    c = poisoned((m, n))
    cuda.kernel()((-(-n // 16), -(-m // 16)), (16, 16), a, b, c, m, n, k)
    bound = np.abs(a).astype(np.float64) @ np.abs(b) * UNIT * (k + 2)
    assert (np.abs(c - a.astype(np.float64) @ b) <= bound).all()


PART = np.dtype({"names": ["sum", "least", "largest"], "formats": [np.float64, np.float32, np.float32]})


@pytest.mark.source("reduction")
@pytest.mark.parametrize(("n", "grid", "block"), [(10007, 7, 256), (5, 3, 32), (3000, 1, 1024)])
def test_reduction_whose_last_block_adds_up(cuda: Cuda, n: int, grid: int, block: int) -> None:
    x = (RNG.standard_normal(n) * 100).astype(np.float32)
    parts, result = poisoned(grid, PART), poisoned(1, PART)
    kernel = cuda.kernel()
    for _ in range(2):  # its counter is a variable of the module, and is zero again at the end
        result.view(np.uint8).fill(0xA5)
        kernel(grid, block, x, parts, result, n, threads=2)
        assert result["least"][0] == x.min() and result["largest"][0] == x.max()
        np.testing.assert_allclose(result["sum"][0], math.fsum(x), rtol=0, atol=1e-16 * n * np.abs(x).sum())


@pytest.mark.source("histogram")
def test_histogram(cuda: Cuda) -> None:
    n = 20011
    x, counts = RNG.integers(0, 200, n, dtype=np.uint8), RNG.integers(0, 2**32, 256, dtype=np.uint32)
    wanted = counts + np.bincount(x, minlength=256).astype(np.uint32)
    cuda.kernel()(5, 192, x, counts, n, threads=2)
    assert np.array_equal(counts, wanted)


@pytest.mark.source("softmax")
def test_softmax_in_dynamic_shared_memory(cuda: Cuda) -> None:
    rows, columns = 5, 333
    src, dst = (RNG.standard_normal((rows, columns)) * 4).astype(np.float32), poisoned((rows, columns))
    cuda.kernel()(rows, 128, src, dst, columns, shared=4 * columns)
    x = src.astype(np.float64)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    # expf is good to 2 ulp; __expf to 2 ulp and 1.17 ulp for each unit of the argument, here up to about 40.
    np.testing.assert_allclose(dst, e / e.sum(axis=1, keepdims=True), rtol=1e-5 if cuda.fast else 2e-6, atol=1e-30)


@pytest.mark.source("scan")
def test_scan_and_votes(cuda: Cuda) -> None:
    n, block = 700, 736
    x = RNG.integers(-(1 << 61), 1 << 61, n)
    out, odd, facts = poisoned(n, np.int64), poisoned(block // 32, np.uint32), poisoned(4, np.int32)
    cuda.kernel()(1, block, x, out, odd, facts, n)
    wanted = np.cumsum(x)
    assert np.array_equal(out, wanted)
    bits = np.zeros(block, np.int64)
    bits[:n] = wanted & 1
    assert np.array_equal(odd, (bits.reshape(-1, 32) << np.arange(32)).sum(axis=1))
    assert facts.tolist() == [np.count_nonzero(wanted < 0), 1, int((wanted[1:] != x[0]).all()), 3]


BODY = np.dtype([("at", np.float32, 3), ("velocity", np.float32, 3), ("mass", np.float32)])


@pytest.mark.source("nbody")
def test_bodies_that_attract_each_other(cuda: Cuda) -> None:
    n, dt, softening = 150, np.float32(0.01), np.float32(0.05)
    bodies, after = np.zeros(n, BODY), poisoned(n, BODY)
    bodies["at"], bodies["velocity"] = RNG.standard_normal((n, 3)), RNG.standard_normal((n, 3))
    bodies["mass"] = RNG.uniform(0.5, 2, n)
    cuda.kernel()(3, 64, bodies, after, n, dt, softening)
    at, velocity = bodies["at"].astype(np.float64), bodies["velocity"].astype(np.float64)
    between = at[None] - at[:, None]
    strength = bodies["mass"][None] / ((between**2).sum(axis=2) + softening) ** 1.5
    pull = (strength[:, :, None] * between).sum(axis=1)
    velocity += np.float64(dt) * pull
    at += np.float64(dt) * velocity
    # Each of n terms is good to about ten roundings; they add up n deep.
    slack = np.float64(dt) * (strength[:, :, None] * np.abs(between)).sum(axis=1) * UNIT * (n + 20) + 4e-7
    assert (np.abs(after["velocity"] - velocity) <= slack).all() and (np.abs(after["at"] - at) <= slack).all()
    assert np.array_equal(after["mass"], bodies["mass"])


@pytest.mark.source("fft")
@pytest.mark.parametrize("log2n", [1, 8])
def test_fourier_transform(cuda: Cuda, log2n: int) -> None:
    n, batch = 1 << log2n, 3
    data = RNG.standard_normal((batch, n)) + 1j * RNG.standard_normal((batch, n))
    wanted = np.fft.fft(data, axis=1)
    cuda.kernel()(batch, n // 2, data, log2n, shared=16 * n)
    np.testing.assert_allclose(data, wanted, rtol=0, atol=1e-15 * log2n * np.sqrt(n) * 8)


@pytest.mark.source("spmv")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_matrix_times_vector(cuda: Cuda, dtype: type) -> None:
    n, columns = 37, 200
    dense = np.where(RNG.random((n, columns)) < 0.4, RNG.standard_normal((n, columns)), 0).astype(dtype)
    dense[5] = 0
    rows = np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(np.int64)
    where, values = np.nonzero(dense)[1].astype(np.int32), dense[dense != 0]
    x, y = RNG.standard_normal(columns).astype(dtype), poisoned(n, dtype)
    cuda.kernel("spmv_f32" if dtype == np.float32 else "spmv_f64")(10, 128, rows, where, values, x, y, n)
    wide = dense.astype(np.longdouble)
    bound = np.abs(wide) @ np.abs(x) * np.finfo(dtype).eps * 10
    assert (np.abs(y - wide @ x) <= bound).all()
