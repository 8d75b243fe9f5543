"""Rows that run a kernel of ``kernels.cu`` beside its peers."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .context import HERE, Context, array, close, filled, pack
from .measure import OURS, Row, Target, Variant, WrongResults, repeated

MILLIONS, GIGA, NANOSECONDS, MILLISECONDS = 1e-6, 1e-9, 1e9, 1e3


def saxpy(c: Context, n: int, symbol: str = "saxpy", grid: int = 0) -> Row:
    """y <- a*x + y, in place: each variant begins with the same y."""
    x = filled(c.rng.standard_normal(n, dtype=np.float32))
    start = c.rng.standard_normal(n, dtype=np.float32)
    y, product = filled(start), array(n)
    wanted = 2.0 * x.astype(np.float64) + start

    def verify() -> None:
        close(lambda: y, wanted, 1e-6, symbol)()
        y[:] = start

    def whole() -> None:
        np.multiply(x, np.float32(2.0), out=product)
        np.add(product, y, out=y)

    first = c.ours(symbol, [x, y, 2.0, n], [grid or -(-n // 256)], [256], n, verify, reset=lambda: np.copyto(y, start))
    variants = [*first, c.gcc("saxpy", [x, y, 2.0, n], n, verify), c.numpy(whole, n, verify)]
    if symbol == "saxpy":
        variants += [c.peer("warp", "saxpy", n, n=n), c.peer("numba", "saxpy", 1024, n=1024)]
    power = f"2^{n.bit_length() - 1}"
    target = Target("gcc", 1.0) if symbol == "saxpy" else None
    name = f"saxpy, {power}" if symbol == "saxpy" else f"saxpy, grid-stride, {power}"
    return Row(name, "M elements/s", MILLIONS, variants, target=target)


def stencil(c: Context) -> Row:
    """Five points, bounds-checked; a width that is no multiple of the block's."""
    width, height = 1021, 1023
    points = width * height
    source = filled(c.rng.standard_normal((height, width), dtype=np.float32))
    out = array((height, width))
    wide = np.pad(source.astype(np.float64), 1, "edge")
    wanted = 0.5 * source + 0.125 * (wide[1:-1, :-2] + wide[1:-1, 2:] + wide[:-2, 1:-1] + wide[2:, 1:-1])

    def verify() -> None:
        close(lambda: out, wanted, 1e-6, "stencil")()
        out[:] = np.nan

    half, eighth = np.float32(0.5), np.float32(0.125)

    def whole() -> None:
        p = np.pad(source, 1, "edge")
        around = p[1:-1, :-2] + p[1:-1, 2:]
        around += p[:-2, 1:-1]
        around += p[2:, 1:-1]
        around *= eighth
        np.multiply(source, half, out=out)
        np.add(out, around, out=out)

    grid = [-(-width // 32), -(-height // 8)]
    variants = [
        *c.ours("stencil", [source, out, width, height], grid, [32, 8], points, verify),
        c.gcc("stencil", [source, out, width, height], points, verify),
        c.numpy(whole, points, verify),
        c.peer("warp", "stencil", points, width=width, height=height),
        c.peer("numba", "stencil", 16 * 16, width=16, height=16),
    ]
    return Row("2-D stencil, 1021 x 1023", "M points/s", MILLIONS, variants, target=Target("gcc", 0.8))


def softmax(c: Context) -> Row:
    """Triton's PTX for rows of up to 1024; its last two parameters are scratch memory that it does not use."""
    rows, columns = 1024, 1000
    x = filled(c.rng.standard_normal((rows, columns), dtype=np.float32))
    out, shifted = array((rows, columns)), array((rows, columns))
    exact = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    verify = _poisoning(out, close(lambda: out, exact / exact.sum(axis=1, keepdims=True), 1e-5, "softmax"))

    def whole() -> None:
        np.subtract(x, x.max(axis=1, keepdims=True), out=shifted)
        np.exp(shifted, out=shifted)
        np.divide(shifted, shifted.sum(axis=1, keepdims=True), out=out)

    # Out, in, strides of both in elements, columns, and two pointers to scratch memory.
    params: list[object] = [out, x, columns, columns, columns, np.empty(0), np.empty(0)]
    work = rows * columns
    variants = [
        *c.ours("softmax", params, [rows], [128], work, verify, ptx=triton_softmax(), shared=16),
        c.gcc("softmax", [x, out, rows, columns], work, verify),
        c.numpy(whole, work, verify),
    ]
    name = "Triton's softmax, 1024 x 1000"
    return Row(name, "M elements/s", MILLIONS, variants, target=Target("NumPy", 1.2))


def triton_softmax() -> str:
    """PTX of a softmax by Triton, kept with the tests of its kernels."""
    return (HERE.parents[1] / "tests" / "compilers" / "data" / "triton" / "softmax.ptx").read_text()


def block_sum(c: Context) -> Row:
    """A grid-stride loop, shuffles, shared memory, an atomic addition a block."""
    n = 1 << 20
    x = filled(c.rng.random(n, dtype=np.float32))
    out = array(1)
    result = np.zeros(1, np.float64)
    exact = np.array([x.sum(dtype=np.float64)])

    def clear() -> None:
        out[0] = 0.0

    def keep(value: object) -> None:
        result[0] = value

    verify = _poisoning(out, close(lambda: out, exact, 1e-5, "block_sum"))
    kept = _poisoning(result, close(lambda: result, exact, 1e-5, "np.sum"))
    ours = c.ours("block_sum", [x, out, n], [64], [256], n, verify, before=clear)
    loop = c.gcc("sum", [x, n], n, lambda: None)
    if loop.batch is not None:
        total = c.loops.sum(ctypes.c_void_p(x.ctypes.data), n)
        # One float after another: the error grows with the count.
        loop.verify = close(lambda: [total], exact, 2e-2, "sum")
    variants = [
        *ours,
        loop,
        c.numpy(lambda: keep(np.sum(x)), n, kept),
        c.peer("warp", "block_sum", n, n=n),
        c.peer("numba", "block_sum", 128, n=128),
    ]
    return Row("block reduction, 2^20", "M elements/s", MILLIONS, variants, target=Target("NumPy", 1.0))


def matmul(c: Context) -> Row:
    """16 x 16 tiles in shared memory."""
    n = 256 if c.quick else 512
    a, b = (filled(c.rng.standard_normal((n, n), dtype=np.float32)) for _ in range(2))
    out = array((n, n))
    verify = _poisoning(out, close(lambda: out, a.astype(np.float64) @ b.astype(np.float64), 1e-5, "matmul"))
    work = 2.0 * n**3
    variants = [
        *c.ours("matmul_tiles", [a, b, out, n], [n // 16, n // 16], [16, 16], work, verify),
        c.gcc("matmul", [a, b, out, n], work, verify),
        c.numpy(lambda: np.matmul(a, b, out=out), work, verify),
    ]
    return Row(f"matmul, 16 x 16 shared tiles, {n}", "GFLOP/s", GIGA, variants, target=Target("gcc", 1.5))


def matmul_mma(c: Context) -> Row:
    """bf16 ``mma.sync`` with ``ldmatrix``, against the f32 product of BLAS on the same values."""
    n = 256 if c.quick else 512
    wide = [c.rng.standard_normal((n, n), dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000) for _ in range(2)]
    a, b = (filled((w >> np.uint32(16)).astype(np.uint16)) for w in wide)
    fa, fb = (filled(w.view(np.float32)) for w in wide)
    out = array((n, n))
    verify = _poisoning(out, close(lambda: out, fa.astype(np.float64) @ fb.astype(np.float64).T, 1e-5, "matmul_mma"))
    work = 2.0 * n**3
    variants = [
        *c.ours("matmul_mma", [a, b, out, n], [n // 64, n // 64], [128], work, verify),
        c.numpy(lambda: np.matmul(fa, fb.T, out=out), work, verify),
    ]
    return Row(f"bf16 mma.sync matmul, {n}", "GFLOP/s", GIGA, variants, target=Target("NumPy", 0.3))


def histogram(c: Context) -> Row:
    """256 bins in shared memory, atomic additions."""
    n = 1 << 20
    x = filled(c.rng.integers(0, 256, n, dtype=np.uint8))
    bins, result = array(256, np.uint32), array(256, np.int64)
    exact = np.array([np.count_nonzero(x == value) for value in range(256)])

    def clear() -> None:
        bins[:] = 0

    def count() -> None:
        result[:] = np.bincount(x, minlength=256)

    verify = _poisoning(bins, close(lambda: bins, exact, 0.0, "histogram"))
    loop = c.gcc("histogram", [x, bins, n], n, verify)
    if loop.batch is not None:
        inner = loop.batch

        def batch(times: int) -> float:
            clear()  # wraps round after 2^32 elements a bin, never within a run
            return inner(times)

        loop.batch = batch
    variants = [
        *c.ours("histogram", [x, bins, n], [32], [256], n, verify, before=clear),
        loop,
        c.numpy(count, n, close(lambda: result, exact, 0.0, "np.bincount")),
        c.peer("warp", "histogram", n, n=n),
    ]
    return Row("histogram, shared atomics, 2^20", "M elements/s", MILLIONS, variants, target=Target("NumPy", 1.0))


def barriers(c: Context) -> Row:
    """Nanoseconds for one thread to pass one barrier, with a load, an addition and a store for each two."""
    blocks, iterations = 16, 100
    start = c.rng.standard_normal(blocks * 256, dtype=np.float32)
    x = filled(start)
    wanted = np.roll(start.reshape(blocks, 256).astype(np.float64), -32 * iterations, axis=1).ravel() + iterations

    def restore() -> None:
        x[:] = start

    verify = close(lambda: x, wanted, 1e-5, "barriers")
    work = blocks * 256 * iterations * 2
    loop = c.gcc("barriers", [x, blocks, iterations], work, verify)
    restore()
    ours = c.ours("barriers", [x, iterations], [blocks], [256], work, verify, before=restore)
    variants = [*ours, _after(loop, restore)]
    return Row("a thread-barrier", "ns", NANOSECONDS, variants, rate=False, target=Target(most=0.4))


def shuffles(c: Context) -> Row:
    """Nanoseconds for one thread to take part in one shuffle, its addition included."""
    blocks, iterations = 16, 100
    start = c.rng.random(blocks * 256, dtype=np.float32)
    x = filled(start)
    wanted = np.repeat(start.reshape(-1, 32).astype(np.float64).mean(axis=1), 32)

    def restore() -> None:
        x[:] = start

    verify = close(lambda: x, wanted, 1e-4, "shuffles")
    work = blocks * 256 * iterations * 5
    variants = c.ours("shuffles", [x, iterations], [blocks], [256], work, verify, before=restore)
    return Row("a thread-shuffle", "ns", NANOSECONDS, variants, rate=False, target=Target(most=0.15))


def mandelbrot(c: Context) -> Row:
    """Lanes that leave a loop at different times."""
    size, limit = 512, 256
    out = array((size, size), np.int32)
    verify = _mandelbrot_check(out, limit)
    variants = [
        *c.ours("mandelbrot", [out, size, size, limit], [size // 32, size // 8], [32, 8], 1, verify),
        c.gcc("mandelbrot", [out, size, size, limit], 1, verify),
        c.peer("warp", "mandelbrot", 1, size=size, limit=limit),
    ]
    return Row(f"mandelbrot, {size} x {size}, {limit} iterations", "ms", MILLISECONDS, variants, rate=False)


def two_cores(c: Context) -> Row:
    """The same launch on one core and on two."""
    size, limit = 1024, 256
    out = array((size, size), np.int32)
    verify = _mandelbrot_check(out, limit)
    params, grid, block = [out, size, size, limit], [size // 32, size // 8], [32, 8]
    one, two = (c.ours("mandelbrot", params, grid, block, 1, verify)[0] for _ in range(2))
    one.name, two.name = "one core", OURS
    if len(c.pair) < 2:
        two.batch, two.note = None, "this process may use one core only"
    elif two.batch is not None:
        two.batch = _on_two_cores(c, params, grid, block)
    name, target = "two cores, mandelbrot 1024 x 1024", Target("one core", 1.7)
    return Row(name, "ms", MILLISECONDS, [two, one], rate=False, target=target)


def _on_two_cores(c: Context, params: list[Any], grid: list[int], block: list[int]) -> Callable[[int], float]:
    from interop.executor import compile_kernel

    kernel = compile_kernel(c.ptx, "mandelbrot", **c.options())
    buffer = pack(*params)
    both = repeated(lambda: kernel.run(buffer, [*grid, 1], [*block, 1], 0, 2))

    def batch(count: int) -> float:
        home = os.sched_getaffinity(0)
        os.sched_setaffinity(0, c.pair)
        try:
            return both(count)
        finally:
            os.sched_setaffinity(0, home)

    return batch


def _mandelbrot_check(out: Any, limit: int) -> Callable[[], None]:
    height, width = out.shape

    def verify() -> None:
        cx = -2.0 + 3.0 * np.arange(width) / width + 0.0j
        point = cx[None, :] + 1j * (-1.5 + 3.0 * np.arange(height) / height)[:, None]
        z, count = np.zeros_like(point), np.zeros(point.shape, np.int64)
        for _ in range(limit):
            inside = (z.real**2 + z.imag**2) < 4.0
            if not inside.any():
                break
            z[inside] = z[inside] ** 2 + point[inside]
            count[inside] += 1
        # Near the border the rounding of f32 decides; elsewhere counts are equal.
        different = float(np.mean(out != count))
        out[:] = -1
        if different > 0.02:
            raise WrongResults(f"mandelbrot: {100 * different:.1f} % of the points differ from the reference")

    return verify


def _poisoning(out: Any, check: Callable[[], None]) -> Callable[[], None]:
    """Checks, then poisons for the next variant."""

    def verify() -> None:
        check()
        out.reshape(-1).view(np.uint8)[:] = 0xA5

    return verify


def _after(variant: Variant, prepare: Callable[[], None]) -> Variant:
    """The variant with `prepare` in front of every execution, within the time, as the kernel has it."""
    inner = variant.batch
    if inner is not None:

        def batch(count: int) -> float:
            return repeated(lambda: (prepare(), inner(1)))(count)

        variant.batch = batch
    return variant
