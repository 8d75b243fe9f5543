"""Rows of Warp's CPU back end. Each function makes a call that does the row's work once, its results verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

VERSION = wp.__version__
wp.config.quiet = True


@wp.kernel
def _saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):  # type: ignore[valid-type,no-untyped-def]
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def _stencil(src: wp.array2d(dtype=float), dst: wp.array2d(dtype=float)):  # type: ignore[valid-type,no-untyped-def]
    y, x = wp.tid()
    height = src.shape[0]
    width = src.shape[1]
    middle = src[y, x]
    left = middle
    right = middle
    above = middle
    below = middle
    if x > 0:
        left = src[y, x - 1]
    if x < width - 1:
        right = src[y, x + 1]
    if y > 0:
        above = src[y - 1, x]
    if y < height - 1:
        below = src[y + 1, x]
    dst[y, x] = 0.5 * middle + 0.125 * (left + right + above + below)


@wp.kernel
def _sum(x: wp.array(dtype=float), out: wp.array(dtype=float)):  # type: ignore[valid-type,no-untyped-def]
    wp.atomic_add(out, 0, x[wp.tid()])


@wp.kernel
def _histogram(x: wp.array(dtype=wp.uint8), out: wp.array(dtype=wp.uint32)):  # type: ignore[valid-type,no-untyped-def]
    wp.atomic_add(out, int(x[wp.tid()]), wp.uint32(1))


@wp.kernel
def _mandelbrot(out: wp.array2d(dtype=int), limit: int):  # type: ignore[valid-type,no-untyped-def]
    py, px = wp.tid()
    cx = -2.0 + 3.0 * float(px) / float(out.shape[1])
    cy = -1.5 + 3.0 * float(py) / float(out.shape[0])
    # Spelled so, they are variables in Warp.
    x = float(0.0)  # noqa: UP018
    y = float(0.0)  # noqa: UP018
    k = int(0)  # noqa: UP018, RUF046
    while k < limit and x * x + y * y < 4.0:
        new = x * x - y * y + cx
        y = 2.0 * x * y + cy
        x = new
        k = k + 1
    out[py, px] = k


def _expect(got: Any, wanted: Any, tolerance: float) -> None:
    worst = float(np.max(np.abs(np.asarray(got, np.float64) - wanted))) / float(np.max(np.abs(wanted)))
    if not worst <= tolerance:
        raise SystemExit(f"Warp: wrong results: off by {worst:.3g} of the largest value")


def _array(values: Any) -> Any:
    return wp.array(values, device="cpu")


def saxpy(n: int) -> Callable[[], None]:
    rng = np.random.default_rng()
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    dx, dy = _array(x), _array(y)

    def run() -> None:
        wp.launch(_saxpy, n, [dx, dy, 2.0], device="cpu")

    run()
    _expect(dy.numpy(), 2.0 * x.astype(np.float64) + y, 1e-6)
    return run


def stencil(width: int, height: int) -> Callable[[], None]:
    source = np.random.default_rng().standard_normal((height, width), dtype=np.float32)
    src, dst = _array(source), wp.full((height, width), float("nan"), dtype=float, device="cpu")

    def run() -> None:
        wp.launch(_stencil, (height, width), [src, dst], device="cpu")

    run()
    wide = np.pad(source.astype(np.float64), 1, "edge")
    around = wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1]
    _expect(dst.numpy(), 0.5 * source + 0.125 * around, 1e-6)
    return run


def block_sum(n: int) -> Callable[[], None]:
    x = np.random.default_rng().random(n, dtype=np.float32)
    dx, out = _array(x), wp.zeros(1, dtype=float, device="cpu")

    def run() -> None:
        out.zero_()
        wp.launch(_sum, n, [dx, out], device="cpu")

    run()
    _expect(out.numpy(), np.array([x.sum(dtype=np.float64)]), 2e-2)  # one float after another
    return run


def histogram(n: int) -> Callable[[], None]:
    x = np.random.default_rng().integers(0, 256, n, dtype=np.uint8)
    dx, out = _array(x), wp.zeros(256, dtype=wp.uint32, device="cpu")

    def run() -> None:
        out.zero_()
        wp.launch(_histogram, n, [dx, out], device="cpu")

    run()
    _expect(out.numpy(), np.bincount(x, minlength=256), 0.0)
    return run


def mandelbrot(size: int, limit: int) -> Callable[[], None]:
    out = wp.full((size, size), -1, dtype=int, device="cpu")

    def run() -> None:
        wp.launch(_mandelbrot, (size, size), [out, limit], device="cpu")

    run()
    if not 1 <= out.numpy().min() <= out.numpy().max() == limit:
        raise SystemExit("Warp: wrong results")
    return run
