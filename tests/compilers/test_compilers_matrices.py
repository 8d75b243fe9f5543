"""CUDA C++ that multiplies matrices by the warp, as NVRTC and nvcc translate it, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from compilers_harness import RNG, Cuda, poisoned


def short(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Random numbers that bf16 holds, and their bits."""
    bits = (RNG.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return (bits.astype(np.uint32) << 16).view(np.float32), bits


@pytest.mark.source("mma")
@pytest.mark.parametrize(("m", "n", "k"), [(32, 32, 32), (64, 96, 160)])
def test_product_by_ldmatrix_and_mma(cuda: Cuda, m: int, n: int, k: int) -> None:
    (a, a_bits), (b, b_bits), c = short((m, k)), short((n, k)), poisoned((m, n))
    cuda.kernel()((n // 32, m // 32), 128, a_bits, b_bits, c, m, n, k)
    # Products are exact in f32; sums may be truncated at each step.
    bound = np.abs(a).astype(np.float64) @ np.abs(b).T * 2.0**-23 * k
    assert (np.abs(c - a.astype(np.float64) @ b.T) <= bound).all()


@pytest.mark.source("wmma", nvrtc=False)  # its header includes one that no package of NVRTC has
def test_product_of_halves_by_the_header(cuda: Cuda) -> None:
    m, n, k = 32, 48, 80
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    c = RNG.standard_normal((m, n), dtype=np.float32)
    wanted = (c + a.astype(np.float64) @ b.T) / 2
    bound = (np.abs(c) + np.abs(a).astype(np.float64) @ np.abs(b).T) * 2.0**-23 * k
    cuda.kernel("wmma_f16")((n // 16, m // 16), 32, a, b, c, n, k)
    assert (np.abs(c - wanted) <= bound).all()


@pytest.mark.source("wmma", nvrtc=False)  # its header includes one that no package of NVRTC has
def test_product_of_bytes_by_the_header(cuda: Cuda) -> None:
    m, n, k = 32, 16, 64
    a, b = RNG.integers(-128, 128, (m, k), np.int8), RNG.integers(-128, 128, (k, n), np.int8)
    c = poisoned((m, n), np.int32)
    cuda.kernel("wmma_s8")((n // 16, m // 16), 32, a, b, c, n, k)
    assert np.array_equal(c, a.astype(np.int32) @ b.astype(np.int32) + 1)
