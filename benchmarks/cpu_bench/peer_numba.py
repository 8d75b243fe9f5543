"""Rows of Numba's CUDA simulator, which runs a Python thread for each thread of the kernel: tiny sizes only."""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ["NUMBA_ENABLE_CUDASIM"] = "1"

import numba
import numpy as np
from numba import cuda

VERSION = numba.__version__


@cuda.jit  # type: ignore[untyped-decorator]
def _saxpy(x, y, a):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@cuda.jit  # type: ignore[untyped-decorator]
def _stencil(src, dst):  # type: ignore[no-untyped-def]
    x, y = cuda.grid(2)
    height, width = src.shape
    if x < width and y < height:
        middle = src[y, x]
        left = src[y, x - 1] if x > 0 else middle
        right = src[y, x + 1] if x < width - 1 else middle
        above = src[y - 1, x] if y > 0 else middle
        below = src[y + 1, x] if y < height - 1 else middle
        dst[y, x] = 0.5 * middle + 0.125 * (left + right + above + below)


@cuda.jit  # type: ignore[untyped-decorator]
def _block_sum(x, out):  # type: ignore[no-untyped-def]
    s = cuda.shared.array(64, numba.float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            s[t] += s[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


def _expect(got: object, wanted: object) -> None:
    if not np.allclose(got, wanted, rtol=1e-5, atol=1e-6):
        raise SystemExit("Numba's simulator: wrong results")


def saxpy(n: int) -> Callable[[], None]:
    x, y = np.random.default_rng().standard_normal((2, n), dtype=np.float32)
    wanted = 2.0 * x.astype(np.float64) + y

    def run() -> None:
        _saxpy[-(-n // 64), 64](x, y, np.float32(2.0))

    run()
    _expect(y, wanted)
    return run


def stencil(width: int, height: int) -> Callable[[], None]:
    src = np.random.default_rng().standard_normal((height, width), dtype=np.float32)
    dst = np.full_like(src, np.nan)

    def run() -> None:
        _stencil[(-(-width // 8), -(-height // 8)), (8, 8)](src, dst)

    run()
    wide = np.pad(src.astype(np.float64), 1, "edge")
    around = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
    _expect(dst, 0.5 * src + 0.125 * around)
    return run


def block_sum(n: int) -> Callable[[], None]:
    x = np.random.default_rng().random(n, dtype=np.float32)
    out = np.zeros(1, np.float32)

    def run() -> None:
        out[0] = 0.0
        _block_sum[n // 64, 64](x, out)

    run()
    _expect(out[0], x.sum(dtype=np.float64))
    return run
