"""The same PTX on a GPU and on the CPU device gives the same numbers, to the bit where nothing is approximate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.sample_kernels import (
    SAMPLES,
    block_sum,
    divisors,
    edges,
    grid_sum,
    mandelbrot,
    matmul,
    reverse_block,
    saxpy,
    smooth,
    tone,
    transpose,
)

import interop as io
from interop import simt

pytestmark = pytest.mark.gpu


def arguments(function: Callable[..., Any], random: np.random.Generator) -> tuple[list[Any], Any]:
    """Arguments for a sample kernel, the written array last among the arrays, and its launch configuration."""

    def floats(*shape: int) -> Any:
        return random.uniform(0.05, 2.0, shape).astype(np.float32)

    nan = float("nan")
    by_kernel: dict[Callable[..., Any], tuple[list[Any], Any]] = {
        saxpy: ([floats(70001), floats(70001), 2.5], None),
        edges: ([floats(301, 257), np.full((301, 257), nan, np.float32)], None),
        grid_sum: ([floats(100003), np.full(512, nan, np.float32)], (4, 128)),
        block_sum: ([floats(10000), np.full(10000, nan, np.float32)], None),
        mandelbrot: ([np.full((100, 130), -1, np.int32), -2.0, -1.0, 0.02, 200], None),
        tone: ([floats(9999), np.full(9999, nan, np.float32), 0.45], None),
        matmul: ([floats(70, 90), floats(90, 50), np.full((70, 50), nan, np.float32)], None),
        transpose: ([floats(200, 130), np.full((130, 200), nan, np.float32)], None),
        smooth: ([floats(5000), floats(5000)], (40, 128)),
        divisors: ([random.integers(1, 10**6, 3000).astype(np.uint32), np.zeros(3000, np.uint32), 5040], (3, 64)),
        reverse_block: ([floats(960), np.full(960, nan, np.float32)], (10, 96)),
    }
    return by_kernel[function]


KERNELS = [saxpy, edges, grid_sum, block_sum, mandelbrot, tone, matmul, transpose, smooth, divisors, reverse_block]


@pytest.mark.parametrize("function", KERNELS, ids=lambda f: f.__name__)
def test_gpu_and_cpu_device_agree(function: Callable[..., Any]) -> None:
    kernel = simt.kernel(**SAMPLES[function])(function)
    host, configuration = arguments(function, np.random.default_rng(11))
    device = [io.to_device(a, "cuda") if isinstance(a, np.ndarray) else a for a in host]
    launch = kernel if configuration is None else kernel[configuration]
    launch(*host)
    launch(*device)
    for mine, theirs in zip(host, device, strict=True):
        if not isinstance(mine, np.ndarray):
            continue
        copied = theirs.to_host()
        if function is tone:
            # ex2.approx and its like are not specified to the last bit.
            np.testing.assert_allclose(copied, mine, rtol=1e-5)
        else:
            np.testing.assert_array_equal(copied, mine)
