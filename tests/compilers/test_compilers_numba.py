"""Numba-CUDA's kernels on the CPU device, against NumPy.

An array is seven parameters or more: meminfo and parent, which kernels do not use, the number of elements, their size,
the address, then extents and strides in bytes. They are poisoned where a kernel has no business with them.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from compilers_harness import RNG, Source, fresh, kept, poisoned


@pytest.fixture(scope="module", params=["kept", "fresh", "fresh-debug"])
def numba(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Source:
    if request.param == "kept":
        return kept("numba")
    options = ["--debug"] if request.param == "fresh-debug" else ["--lineinfo"]
    return fresh("numba", "numba_cuda", tmp_path_factory.mktemp("numba"), *options)


def get(numba: Source, name: str) -> object:
    if not (numba.folder / f"{name}.ptx").exists():
        pytest.skip("this kernel is large, and is tested only where Numba is installed")
    return numba.kernel(name)


def run(numba: Source, name: str, grid: object, block: object, *values: object, **options: int) -> None:
    """Launches a kernel with arrays as Numba passes them."""
    packed: list[object] = []
    for value in values:
        if isinstance(value, np.ndarray):
            unused = 0xA5A5A5A5A5A5A5A5
            packed += [unused, unused, value.size, value.itemsize, value, *value.shape, *value.strides]
        else:
            packed.append(value)
    get(numba, name)(grid, block, *packed, **options)  # type: ignore[operator]


def test_saxpy_with_strides(numba: Source) -> None:
    n = 1001
    x, y = RNG.standard_normal(3 * n, dtype=np.float32)[::-3][:n], RNG.standard_normal(n, dtype=np.float32)
    a, before = np.float32(1.75), y.copy()
    run(numba, "saxpy", 3, 100, x, y, a)
    wanted = before + np.float64(a) * x
    assert (np.abs(y - wanted) <= 2.0**-24 * 1.001 * (np.abs(wanted) + np.abs(a * x))).all()


def test_matmul_in_shared_memory(numba: Source) -> None:
    m, n, k = 37, 21, 50
    a, b = RNG.standard_normal((m, k), dtype=np.float32), RNG.standard_normal((n, k), dtype=np.float32).T
    c = poisoned((m, n))
    run(numba, "matmul", (2, 3), (16, 16), a, b, c)
    bound = np.abs(a).astype(np.float64) @ np.abs(b) * 2.0**-24 * (k + 2)
    assert (np.abs(c - a.astype(np.float64) @ b) <= bound).all()


def test_reduction(numba: Source) -> None:
    x, out = RNG.standard_normal(3001), np.array([7.0, -np.inf])
    run(numba, "reduce", 5, 96, x, out, threads=2)
    assert out[1] == x.max()
    np.testing.assert_allclose(out[0], 7 + math.fsum(x), rtol=0, atol=1e-15 * np.abs(x).sum())


def test_histogram(numba: Source) -> None:
    x, counts = RNG.integers(0, 256, 5003, np.uint8), RNG.integers(0, 2**32, 256, np.uint32)
    wanted = counts + np.bincount(x, minlength=256).astype(np.uint32)
    run(numba, "histogram", 3, 96, x, counts, threads=2)
    assert np.array_equal(counts, wanted)


@pytest.mark.parametrize(("name", "dtype"), [("maths_f32", np.float32), ("maths_f64", np.float64)])
def test_mathematics(numba: Source, name: str, dtype: type) -> None:
    x = RNG.uniform(-6, 6, 300).astype(dtype)
    out = poisoned((12, 300), dtype)
    run(numba, name, 3, 128, x, out)
    # Numba computes some of it in f64, as Python does: the powers, quotients and remainders of a literal.
    v = x.astype(np.float64)
    wanted = [np.sin(v), np.exp(v / 4), np.log(np.abs(v)), np.arctan2(v, 2), np.abs(v) ** 1.3,
              [math.erf(e) for e in v], np.floor(v), v // 1.7, v % 1.7, [math.lgamma(abs(e) + 1) for e in v],
              np.hypot(v, 3), np.sqrt(np.abs(v))]  # fmt: skip
    eps = float(np.finfo(dtype).eps)
    for k, row in enumerate(wanted):
        # lgamma has zeros at 1 and 2, sin and log elsewhere: an absolute error there.
        np.testing.assert_allclose(out[k], row, rtol=8 * eps, atol=4 * eps, err_msg=str(k))


def test_integers_as_python_divides_them(numba: Source) -> None:
    a, b = (RNG.integers(-(2**31), 2**31, 200, np.int32) for _ in range(2))
    b[::3] = RNG.integers(1, 50, b[::3].size)
    b[1::3] = -RNG.integers(1, 50, b[1::3].size)
    b[b == 0] = 1
    out = poisoned((200, 6), np.int32)
    run(numba, "integers", 2, 128, a, b, out)
    reversed_ = [int(f"{int(v):032b}"[::-1], 2) for v in a.view(np.uint32)]
    zeros = [32 - int(v).bit_length() for v in b.view(np.uint32)]
    ones = [int(v).bit_count() for v in a.view(np.uint32)]
    wide = [a.astype(np.int64), b.astype(np.int64)]
    wanted = [wide[0] // wide[1], wide[0] % wide[1], a >> (b & 31), np.array(ones) + 100 * np.array(zeros),
              np.minimum(a, b) ^ np.array(reversed_, np.uint32).view(np.int32), np.abs(wide[0] - wide[1])]  # fmt: skip
    for k, row in enumerate(wanted):
        assert np.array_equal(out[:, k], np.asarray(row).astype(np.int64).astype(np.int32)), k


def test_mandelbrot(numba: Source) -> None:
    h, w, most = 33, 50, 40
    image = poisoned((h, w), np.int32)
    left, top, step = -2.0, -1.0, 0.0625  # such numbers are exact, so that only the iteration rounds
    run(numba, "mandelbrot", (4, 2), (16, 8), image, left, top, step, most)
    y, x = np.mgrid[:h, :w]
    c = left + step * x + 1j * (top + step * y)
    z, count, margin = np.zeros_like(c), np.zeros(c.shape, int), np.full(c.shape, np.inf)
    for _ in range(most):
        size = z.real**2 + z.imag**2
        inside = size < 4
        margin = np.minimum(margin, np.abs(size - 4) / np.maximum(np.abs(z), 1))
        count += inside
        z = np.where(inside, z * z + c, z)
    sure = margin > 1e-6  # rounding is amplified along the way, and may decide where |z| comes close to 2
    assert sure.mean() > 0.9 and np.array_equal(image[sure], count[sure])


def test_sort_in_local_memory(numba: Source) -> None:
    x = RNG.integers(-(2**62), 2**62, (45, 24))
    wanted = np.sort(x, axis=1)
    run(numba, "sort", 2, 32, x)
    assert np.array_equal(x, wanted)


def test_warp_functions(numba: Source) -> None:
    n = 128
    x, out = RNG.integers(-5, 6, n, np.int32), poisoned((n, 6), np.int32)
    x[:32] = 4
    run(numba, "warps", 2, 64, x, out)
    for first in range(0, n, 32):
        mine = x[first : first + 32]
        ballot = sum(1 << k for k in range(32) if mine[k] > 0)
        for lane in range(32):
            alike = sum(1 << k for k in range(32) if mine[k] == mine[lane])
            votes = int((mine > -3).all()) + 2 * int((mine > 2).any())
            counted = np.count_nonzero(x[first // 64 * 64 :][:64] > 0)
            together = np.count_nonzero(mine > 0) if mine[lane] > 0 else -1
            wanted = [ballot, alike, int(mine[lane ^ 5]), votes, counted, together]
            got = out[first + lane].astype(np.int64)
            assert [int(v) % 2**32 for v in got] == [int(v) % 2**32 for v in wanted]


def test_compare_and_swap(numba: Source) -> None:
    n = 500
    x, top, order = RNG.integers(1, 2**32, n, np.uint32), np.zeros(2, np.uint32), poisoned(n, np.int32)
    run(numba, "compare_and_swap", 5, 128, x, top, order, threads=2)
    assert top.tolist() == [x.max(), n] and np.array_equal(np.sort(order), np.arange(n))
