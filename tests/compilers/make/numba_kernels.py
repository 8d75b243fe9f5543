"""Kernels in Numba-CUDA, and the types that each is compiled for: see :data:`KERNELS`."""

from __future__ import annotations

import math

from numba import cuda, float32, float64, int32, int64, types, uint8, uint32


def saxpy(x, y, a):
    start, stride = cuda.grid(1), cuda.gridsize(1)
    for i in range(start, x.shape[0], stride):
        y[i] = a * x[i] + y[i]


def matmul(a, b, c):
    """Tiles of 16 by 16 in shared memory; any extents and strides."""
    ta, tb = cuda.shared.array((16, 16), float32), cuda.shared.array((16, 16), float32)
    column, row = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, a.shape[1], 16):
        ta[ty, tx] = 0
        tb[ty, tx] = 0
        if row < a.shape[0] and start + tx < a.shape[1]:
            ta[ty, tx] = a[row, start + tx]
        if start + ty < b.shape[0] and column < b.shape[1]:
            tb[ty, tx] = b[start + ty, column]
        cuda.syncthreads()
        for k in range(16):
            total += ta[ty, k] * tb[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


def reduce(x, out):
    """Sum and largest of an array: by shuffles in a warp, then by atomics."""
    total, top = 0.0, -math.inf
    for i in range(cuda.grid(1), x.shape[0], cuda.gridsize(1)):
        total += x[i]
        top = max(top, x[i])
    step = 16
    while step > 0:
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        top = max(top, cuda.shfl_down_sync(0xFFFFFFFF, top, step))
        step >>= 1
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, total)
        cuda.atomic.max(out, 1, top)


def histogram(x, counts):
    mine = cuda.shared.array(256, uint32)
    t = cuda.threadIdx.x
    for b in range(t, 256, cuda.blockDim.x):
        mine[b] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(mine, x[i], 1)
    cuda.syncthreads()
    for b in range(t, 256, cuda.blockDim.x):
        cuda.atomic.add(counts, b, mine[b])


def maths(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    v = x[i]
    out[0, i] = math.sin(v)
    out[1, i] = math.exp(v / 4)
    out[2, i] = math.log(abs(v))
    out[3, i] = math.atan2(v, 2.0)
    out[4, i] = abs(v) ** 1.3
    out[5, i] = math.erf(v)
    out[6, i] = math.floor(v)
    out[7, i] = v // 1.7
    out[8, i] = v % 1.7
    out[9, i] = math.lgamma(abs(v) + 1)
    out[10, i] = math.hypot(v, 3.0)
    out[11, i] = math.sqrt(abs(v))


def integers(a, b, out):
    """Division and remainder as Python has them, shifts, counts."""
    i = cuda.grid(1)
    if i < a.size:
        out[i, 0] = a[i] // b[i]
        out[i, 1] = a[i] % b[i]
        out[i, 2] = a[i] >> (b[i] & 31)
        out[i, 3] = cuda.popc(a[i]) + cuda.clz(b[i]) * 100
        out[i, 4] = min(a[i], b[i]) ^ cuda.brev(a[i])
        out[i, 5] = abs(a[i] - b[i])


def mandelbrot(image, left, top, step, most):
    x, first = cuda.grid(2)
    for y in range(first, image.shape[0], cuda.gridsize(2)[1]):
        if x < image.shape[1]:
            c = complex(left + x * step, top + y * step)
            z, count = 0j, 0
            while count < most and z.real * z.real + z.imag * z.imag < 4:
                z = z * z + c
                count += 1
            image[y, x] = count


def sort(x):
    """Rows are sorted by insertion, in local memory."""
    mine = cuda.local.array(24, int64)
    r = cuda.grid(1)
    if r < x.shape[0]:
        for k in range(x.shape[1]):
            v, j = x[r, k], k
            while j > 0 and mine[j - 1] > v:
                mine[j] = mine[j - 1]
                j -= 1
            mine[j] = v
        for k in range(x.shape[1]):
            x[r, k] = mine[k]


def warps(x, out):
    i = cuda.grid(1)
    v = x[i]
    active = cuda.activemask()
    out[i, 0] = cuda.ballot_sync(active, v > 0)
    out[i, 1] = cuda.match_any_sync(active, v)
    out[i, 2] = cuda.shfl_xor_sync(active, v, 5)
    out[i, 3] = cuda.all_sync(active, v > -3) + 2 * cuda.any_sync(active, v > 2)
    out[i, 4] = cuda.syncthreads_count(1 if v > 0 else 0)
    if v > 0:
        out[i, 5] = cuda.popc(cuda.activemask())
    else:
        out[i, 5] = -1


def compare_and_swap(x, top, order):
    i = cuda.grid(1)
    if i < x.size:
        old = top[0]
        while old < x[i]:
            seen = cuda.atomic.cas(top, 0, old, x[i])
            if seen == old:
                break
            old = seen
        order[cuda.atomic.inc(top, 1, 1 << 30)] = i


F1, F2, I1, S1 = float32[::1], float32[:, ::1], int32[::1], float32[:]

KERNELS = {
    "saxpy": (saxpy, (S1, F1, float32)),
    "matmul": (matmul, (F2, float32[:, :], F2)),
    "reduce": (reduce, (float64[::1], float64[::1])),
    "histogram": (histogram, (uint8[::1], uint32[::1])),
    "maths_f32": (maths, (F1, F2)),
    "maths_f64": (maths, (float64[::1], float64[:, ::1])),
    "integers": (integers, (I1, I1, int32[:, ::1])),
    "mandelbrot": (mandelbrot, (int32[:, ::1], float64, float64, float64, int32)),
    "sort": (sort, (int64[:, ::1],)),
    "warps": (warps, (I1, types.Array(int32, 2, "C"))),
    "compare_and_swap": (compare_and_swap, (uint32[::1], uint32[::1], I1)),
}
