"""Real kernels that several tests compile, assemble and run. ``SAMPLES`` has each with its contract."""

# Kernel bodies are compiled, not run: what a linter says about unused results does not apply.
# mypy: ignore-errors

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import interop as io
from interop import simt
from interop.language import device

TILE = io.Const("TILE", 16)
FILTER = ((-1, 0.25), (0, 0.5), (1, 0.25))


def saxpy(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], a: io.f32):
    """y <- a*x + y."""
    i = simt.global_index()
    if i < len(y):
        y[i] = a * x[i] + y[i]


@device
def square_if_positive(x):
    if x < 0.0:
        return 0.0
    return x * x


def edges(src: io.Tensor[io.f32, 2], dst: io.DisjointTensor[io.f32, 2]):
    """Length of the gradient, from a tile in shared memory; borders repeat."""
    tile = simt.shared(io.f32, (10, 34))
    p = simt.global_index(2)
    row, col = p
    tx, ty = simt.thread_index.x, simt.thread_index.y
    height, width = src.shape
    for r in range(ty, 10, 8):
        for c in range(tx, 34, 32):
            y = min(max(simt.block_index.y * 8 + r - 1, 0), height - 1)
            x = min(max(simt.block_index.x * 32 + c - 1, 0), width - 1)
            tile[r, c] = src[y, x]
    simt.barrier()
    if row < dst.shape[0] and col < dst.shape[1]:
        gx = tile[ty + 1, tx + 2] - tile[ty + 1, tx]
        gy = tile[ty + 2, tx + 1] - tile[ty, tx + 1]
        dst[p] = io.sqrt(gx**2 + gy**2) + square_if_positive(gx)


def grid_sum(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    """Each thread's share of a grid-stride sum."""
    total = 0.0
    for i in simt.grid_stride(len(x)):
        total += x[i]
    j = simt.global_index()
    if j < len(y):
        y[j] = total


def block_sum(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    """Every element of y becomes the sum of its block's part of x."""
    part = simt.shared(io.f32, 256)
    t = simt.thread_index.x
    i = simt.global_index()
    part[t] = x[i] if i < len(x) else 0.0
    simt.barrier()
    n = 128
    while n > 0:
        if t < n:
            part[t] += part[t + n]
        simt.barrier()
        n >>= 1
    if i < len(y):
        y[i] = part[0]


def mandelbrot(out: io.DisjointTensor[io.i32, 2], x0: io.f32, y0: io.f32, step: io.f32, limit: io.i32):
    p = simt.global_index(2)
    row, col = p
    if row >= out.shape[0] or col >= out.shape[1]:
        return
    cr = x0 + io.f32(col) * step
    ci = y0 + io.f32(row) * step
    zr = 0.0
    zi = 0.0
    n = 0
    while zr * zr + zi * zi < 4.0 and n < limit:
        zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
        n += 1
    out[p] = n


def tone(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32], gamma: io.f32):
    """A tone curve through libdevice."""
    i = simt.global_index()
    if i < len(y):
        y[i] = io.pow(x[i], gamma) * math.exp(-x[i]) + io.tanh(x[i])


def matmul(a: io.Tensor[io.f32, 2], b: io.Tensor[io.f32, 2], c: io.DisjointTensor[io.f32, 2]):
    p = simt.global_index(2)
    row, col = p
    if row < c.shape[0] and col < c.shape[1]:
        acc = 0.0
        for k in range(a.shape[1]):
            acc += a[row, k] * b[k, col]
        c[p] = acc


def transpose(src: io.Tensor[io.f32, 2], dst: io.DisjointTensor[io.f32, 2]):
    tile = simt.shared(io.f32, (TILE, TILE + 1))
    p = simt.global_index(2)
    row, col = p
    tx, ty = simt.thread_index.x, simt.thread_index.y
    r = simt.block_index.x * TILE + ty
    c = simt.block_index.y * TILE + tx
    if r < src.shape[0] and c < src.shape[1]:
        tile[ty, tx] = src[r, c]
    simt.barrier()
    if row < dst.shape[0] and col < dst.shape[1]:
        dst[p] = tile[tx, ty]


def smooth(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    """A filter from a captured tuple; the loop over it is unrolled."""
    i = simt.global_index()
    if 0 < i < len(y) - 1:
        total = 0.0
        for offset, weight in FILTER:
            total += weight * x[i + offset]
        y[i] = total


@device
def gcd(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def divisors(x: io.Slice[io.u32], y: io.DisjointSlice[io.u32], n: io.u32):
    for i in simt.grid_stride(len(y)):
        y[i] = gcd(x[i], n)


def raw_copy(source: io.In[io.f32], target: io.Out[io.f32], counter: io.InOut[io.i8], n: io.i64):
    i = simt.global_index()
    if i < n:
        with io.unsafe("the caller promises n elements everywhere"):
            target[i] = source[i]
            counter[i] += 1


def halves(x: io.Slice[io.f16], flags: io.Slice[io.bool_], y: io.DisjointSlice[io.bf16], z: io.DisjointSlice[io.bool_]):
    for i in simt.grid_stride(len(y)):
        wide = io.f32(x[i]) * 2.0 + 1.0
        y[i] = io.bf16(wide) if flags[i] else io.bf16(x[i])
        z[i] = x[i] > 0.5 or not flags[i]


def reverse_block(x: io.Slice[io.f32], y: io.DisjointSlice[io.f32]):
    """Reverses each block's part through dynamic shared memory."""
    part = simt.shared(io.f32, simt.block_dim.x)
    t = simt.thread_index.x
    i = simt.global_index()
    part[t] = x[i] if i < len(x) else 0.0
    simt.barrier()
    if i < len(y):
        y[i] = part[simt.block_dim.x - 1 - t]


_GRID_2D = "(ceil_div(dim({0}, 1), block.x), ceil_div(dim({0}, 0), block.y))"
_SAME = ["dim(src, 0) == dim(dst, 0)", "dim(src, 1) == dim(dst, 1)"]
_TURNED = ["dim(src, 0) == dim(dst, 1)", "dim(src, 1) == dim(dst, 0)"]
_PRODUCT = ["dim(a, 0) >= dim(c, 0)", "dim(b, 1) >= dim(c, 1)", "dim(a, 1) == dim(b, 0)"]
_ENOUGH = ["len(x) >= len(y)"]
_GRID_1D = "ceil_div(len(y), block.x)"

SAMPLES: dict[Callable[..., Any], dict[str, Any]] = {
    saxpy: {"block": 256, "grid": _GRID_1D, "requires": _ENOUGH},
    edges: {"block": (32, 8), "grid": _GRID_2D.format("dst"), "requires": _SAME},
    grid_sum: {},
    block_sum: {"block": 256, "grid": _GRID_1D},
    mandelbrot: {"block": (32, 8), "grid": _GRID_2D.format("out")},
    tone: {"block": 128, "grid": _GRID_1D, "requires": _ENOUGH},
    matmul: {"block": (16, 16), "grid": _GRID_2D.format("c"), "requires": _PRODUCT},
    transpose: {"block": (TILE, TILE), "grid": _GRID_2D.format("dst"), "requires": _TURNED},
    smooth: {"grid": _GRID_1D, "requires": _ENOUGH},
    divisors: {"requires": _ENOUGH},
    raw_copy: {},
    halves: {"requires": [*_ENOUGH, "len(flags) >= len(y)", "len(z) >= len(y)"]},
    reverse_block: {"block": io.up_to(512), "grid": _GRID_1D, "shared": "4 * block.x"},
}
