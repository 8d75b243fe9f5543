"""Real kernels, compiled by NVRTC with and without optimisation, against NumPy."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from executor_harness import cuda, pointers, run

from interop.executor import compile_kernel

LEVELS = [(), ("-G",)]
RNG = np.random.default_rng(7)

SAXPY = """extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }"""


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize(("n", "block"), [(1, 32), (1000, 256), (4099, 100), (12345, 1)])
def test_saxpy(options: tuple[str, ...], n: int, block: int) -> None:
    x, y = RNG.standard_normal(n, dtype=np.float32), RNG.standard_normal(n + 3, dtype=np.float32)
    wanted = y.copy()
    # The optimising compiler writes fma; without optimisation there is a product and a sum.
    product = x * np.float32(2.5) if options else np.float64(2.5) * x
    wanted[:n] = (product + wanted[:n]).astype(np.float32)
    kernel = compile_kernel(cuda(SAXPY, *options), "saxpy")
    kernel.launch(struct.pack("<QQfi", address(x), address(y), 2.5, n), -(-n // block) + 1, block)
    assert np.array_equal(y, wanted)


STENCIL = """extern "C" __global__ void blur(const float* src, float* dst, int w, int h) {
  __shared__ float tile[10][34];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  for (int j = threadIdx.y; j < 10; j += 8) for (int i = threadIdx.x; i < 34; i += 32) {
    int sx = min(max((int)(blockIdx.x * 32) + i - 1, 0), w - 1), sy = min(max((int)(blockIdx.y * 8) + j - 1, 0), h - 1);
    tile[j][i] = src[(long long)sy * w + sx]; }
  __syncthreads();
  if (x >= w || y >= h) return;
  float s = 0; for (int j = 0; j < 3; j++) for (int i = 0; i < 3; i++) s += tile[threadIdx.y + j][threadIdx.x + i];
  dst[(long long)y * w + x] = s / 9.0f; }"""


@pytest.mark.parametrize("options", LEVELS)
def test_stencil_in_shared_memory(options: tuple[str, ...]) -> None:
    h, w = 61, 103
    src, dst = RNG.random((h, w), dtype=np.float32), np.full((h, w), np.nan, np.float32)
    padded = np.pad(src, 1, mode="edge")
    total = np.zeros((h, w), np.float32)
    for j in range(3):
        for i in range(3):
            total = total + padded[j : j + h, i : i + w]
    kernel = compile_kernel(cuda(STENCIL, *options), "blur")
    assert kernel.static_shared == 10 * 34 * 4
    kernel.launch(struct.pack("<QQii", address(src), address(dst), w, h), (-(-w // 32), -(-h // 8)), (32, 8))
    assert np.array_equal(dst, total / np.float32(9))


REDUCE = """extern "C" __global__ void sum(const float* x, float* out, int n) {
  __shared__ float part[32];
  float v = 0; for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) { v = threadIdx.x < (blockDim.x >> 5) ? part[threadIdx.x] : 0;
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) atomicAdd(out, v); } }"""


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("block", [32, 256, 1024])
def test_reduction_with_shuffles(options: tuple[str, ...], block: int) -> None:
    x = RNG.integers(0, 100, 10007).astype(np.float32)  # sums of these are exact
    out = np.zeros(1, np.float32)
    kernel = compile_kernel(cuda(REDUCE, *options), "sum")
    kernel.launch(struct.pack("<QQi", address(x), address(out), len(x)), 7, block, threads=3)
    assert out[0] == x.sum(dtype=np.float64)


MATMUL = """extern "C" __global__ void matmul(const float* A, const float* B, float* C, int n) {
  __shared__ float sa[16][16], sb[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float acc = 0; for (int k = 0; k < n; k += 16) {
    sa[ty][tx] = row < n && k + tx < n ? A[row * n + k + tx] : 0;
    sb[ty][tx] = k + ty < n && col < n ? B[(k + ty) * n + col] : 0;
    __syncthreads(); for (int j = 0; j < 16; j++) acc = fmaf(sa[ty][j], sb[j][tx], acc); __syncthreads(); }
  if (row < n && col < n) C[row * n + col] = acc; }"""


@pytest.mark.parametrize("options", LEVELS)
def test_matmul_in_tiles(options: tuple[str, ...]) -> None:
    n = 75
    a, b = RNG.standard_normal((n, n), dtype=np.float32), RNG.standard_normal((n, n), dtype=np.float32)
    c = np.full((n, n), np.nan, np.float32)
    compile_kernel(cuda(MATMUL, *options), "matmul").launch(
        struct.pack("<QQQi", address(a), address(b), address(c), n), (5, 5), (16, 16)
    )
    assert np.abs(c - a.astype(np.float64) @ b).max() < 1e-4


HISTOGRAM = """extern "C" __global__ void histogram(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned h[256]; for (int b = threadIdx.x; b < 256; b += blockDim.x) h[b] = 0; __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[x[i]], 1u);
  __syncthreads(); for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&out[b], h[b]); }"""


@pytest.mark.parametrize("options", LEVELS)
def test_histogram(options: tuple[str, ...]) -> None:
    x, out = RNG.integers(0, 256, 50021, dtype=np.uint8), np.zeros(256, np.uint32)
    compile_kernel(cuda(HISTOGRAM, *options), "histogram").launch(
        struct.pack("<QQi", address(x), address(out), len(x)), 13, 192, threads=4
    )
    assert np.array_equal(out, np.bincount(x, minlength=256))


MANDELBROT = """extern "C" __global__ void mandelbrot(int* out, int w, int h, int most) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  double cr = -2.0 + 3.0 * x / w, ci = -1.5 + 3.0 * y / h, zr = 0, zi = 0; int k = 0;
  while (k < most && __dadd_rn(__dmul_rn(zr, zr), __dmul_rn(zi, zi)) < 4.0) {
    double t = __dadd_rn(__dsub_rn(__dmul_rn(zr, zr), __dmul_rn(zi, zi)), cr);
    zi = __dadd_rn(__dmul_rn(__dmul_rn(2, zr), zi), ci); zr = t; k++; }
  out[y * w + x] = k; }"""


@pytest.mark.parametrize("options", LEVELS)
def test_mandelbrot(options: tuple[str, ...]) -> None:
    w, h, most = 90, 64, 60
    out = np.full((h, w), -1, np.int32)
    compile_kernel(cuda(MANDELBROT, "--fmad=false", *options), "mandelbrot").launch(
        struct.pack("<Qiii", address(out), w, h, most), (6, 8), (16, 8)
    )
    cr, ci = np.meshgrid(-2.0 + 3.0 * np.arange(w) / w, -1.5 + 3.0 * np.arange(h) / h)
    zr, zi, k = np.zeros_like(cr), np.zeros_like(cr), np.zeros(cr.shape, np.int32)
    for _ in range(most):
        inside = zr * zr + zi * zi < 4
        zr, zi = np.where(inside, zr * zr - zi * zi + cr, zr), np.where(inside, 2 * zr * zi + ci, zi)
        k += inside
    assert np.array_equal(out, k)


TRANSPOSE = """extern "C" __global__ void transpose(const double* src, double* dst, int w, int h) {
  __shared__ double t[32][33]; int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (x < w && y + j < h) t[threadIdx.y + j][threadIdx.x] = src[(y + j) * w + x];
  __syncthreads(); x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (x < h && y + j < w) dst[(y + j) * h + x] = t[threadIdx.x][threadIdx.y + j]; }"""


@pytest.mark.parametrize("options", LEVELS)
def test_transpose(options: tuple[str, ...]) -> None:
    src, dst = RNG.random((45, 70)), np.full((70, 45), np.nan)
    compile_kernel(cuda(TRANSPOSE, *options), "transpose").launch(
        struct.pack("<QQii", address(src), address(dst), 70, 45), (3, 2), (32, 8)
    )
    assert np.array_equal(dst, src.T)


STRUCTS = """struct Small { char a, b, c; }; struct Mixed { float f; float3 v; double d; short s; };
__device__ Small turn(Small s) { Small r = {s.c, s.a, s.b}; return r; }
extern "C" __global__ void structs(float f, Mixed m, Small s, double* out) {
  Small r = turn(s); double values[8] = {f, m.f, m.v.x, m.v.z, m.d, (double)m.s, (double)r.a, (double)r.c};
  out[threadIdx.x] = values[threadIdx.x]; }"""


@pytest.mark.parametrize("options", LEVELS)
def test_structs_by_value(options: tuple[str, ...]) -> None:
    out = np.full(8, np.nan)
    params = struct.pack("<f4x f3f d h6x 3b5x Q", 1.5, 2, 3, 4, 5, 6.25, -7, 1, 2, -3, address(out))
    compile_kernel(cuda(STRUCTS, *options), "structs").launch(params, 1, 8)
    assert out.tolist() == [1.5, 2, 3, 5, 6.25, -7, -3, 2]


HALVES = """#include <cuda_fp16.h>
extern "C" __global__ void halves(const __half* x, const __half* y, __half* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;
  out[i] = x[i] + y[i]; out[n + i] = __hmul(x[i], y[i]); out[2 * n + i] = __hfma(x[i], y[i], x[i]);
  out[3 * n + i] = __hmax(x[i], y[i]);
  out[4 * n + i] = __float2half(__half2float(x[i]) * 2.0f); out[5 * n + i] = x[i] < y[i] ? x[i] : y[i];
  __half2 p = __hadd2(__halves2half2(x[i], y[i]), __halves2half2(y[i], y[i])); out[6 * n + i] = __low2half(p);
  out[7 * n + i] = __high2half(p);
  out[8 * n + i] = x[i] / y[i]; out[9 * n + i] = hsqrt(__habs(x[i]));
  out[10 * n + i] = __int2half_rn(__half2int_rz(x[i])); }"""


@pytest.mark.parametrize("options", LEVELS)
def test_half_precision(options: tuple[str, ...]) -> None:
    n = 500
    x, y = RNG.standard_normal(n).astype(np.float16) * np.float16(8), RNG.standard_normal(n).astype(np.float16)
    out = np.full((11, n), np.nan, np.float16)
    compile_kernel(cuda(HALVES, *options), "halves").launch(
        struct.pack("<QQQi", address(x), address(y), address(out), n), 4, 128
    )
    fused = (x.astype(np.float64) * y + x).astype(np.float16)
    wanted = [x + y, x * y, fused, np.maximum(x, y), x * np.float16(2), np.minimum(x, y), x + y, y + y, x / y,
              np.sqrt(np.abs(x)), np.trunc(x)]  # fmt: skip
    for k, row in enumerate(wanted[:8]):
        assert np.array_equal(out[k], row), k
    assert (
        np.array_equal(out[8], wanted[8]) and np.array_equal(out[9], wanted[9]) and np.array_equal(out[10], wanted[10])
    )


MATHS = """extern "C" __global__ void maths(const float* x, float* f, const double* z, double* d, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; float v = x[i]; double w = z[i];
  f[i] = sinf(v); f[n + i] = expf(v); f[2 * n + i] = logf(fabsf(v)); f[3 * n + i] = powf(fabsf(v), 1.7f);
  f[4 * n + i] = tanhf(v); f[5 * n + i] = atan2f(v, 2.0f);
  f[6 * n + i] = __expf(v); f[7 * n + i] = rsqrtf(fabsf(v)); f[8 * n + i] = erff(v); f[9 * n + i] = cbrtf(v);
  f[10 * n + i] = fmodf(v, 0.7f); f[11 * n + i] = roundf(v);
  d[i] = sin(w); d[n + i] = exp(w); d[2 * n + i] = log(fabs(w)); d[3 * n + i] = pow(fabs(w), 1.7);
  d[4 * n + i] = tgamma(fabs(w) + 1); d[5 * n + i] = w / 3.0; d[6 * n + i] = sqrt(fabs(w));
  d[7 * n + i] = fmod(w, 0.7); }"""


@pytest.mark.parametrize("options", LEVELS)
def test_mathematics_of_the_cuda_headers(options: tuple[str, ...]) -> None:
    n = 400
    x = np.concatenate([RNG.uniform(-5, 5, n - 3), [1e5, -3e4, 0.001]]).astype(np.float32)
    z = np.concatenate([RNG.uniform(-5, 5, n - 3), [1e5, -70, 0.001]])
    z[np.abs(z) > 100] = 99.5
    f, d = np.full((12, n), np.nan, np.float32), np.full((8, n), np.nan)
    compile_kernel(cuda(MATHS, *options), "maths").launch(
        struct.pack("<QQQQi", address(x), address(f), address(z), address(d), n), 4, 100
    )
    v = x.astype(np.float64)
    with np.errstate(over="ignore"):
        wanted = [np.sin(v), np.exp(v), np.log(np.abs(v)), np.abs(v) ** np.float64(np.float32(1.7)),
                  np.tanh(v), np.arctan2(v, 2), np.exp(v),
                  1 / np.sqrt(np.abs(v)), np.array([math.erf(e) for e in v]), np.cbrt(v), np.fmod(x, np.float32(0.7)),
                  np.trunc(v + np.copysign(0.5, v))]  # fmt: skip
        for k, row in enumerate(wanted):
            near = np.isclose(f[k], row.astype(np.float32), rtol=2e-6 if k != 6 else 2e-5, atol=1e-6, equal_nan=True)
            assert near.all(), (k, x[~near][:4], f[k][~near][:4], row[~near][:4])
    wanted = [np.sin(z), np.exp(z), np.log(np.abs(z)), np.abs(z) ** 1.7, np.array([math.gamma(abs(e) + 1) for e in z]),
              z / 3,
              np.sqrt(np.abs(z)), np.fmod(z, 0.7)]  # fmt: skip
    for k, row in enumerate(wanted):
        assert np.allclose(d[k], row, rtol=1e-14 if k != 4 else 1e-12, atol=1e-15), k


SCAN = """template <class T> __device__ T scan(T v) { int lane = threadIdx.x & 31;
  for (int o = 1; o < 32; o *= 2) { T u = __shfl_up_sync(0xffffffffu, v, o); if (lane >= o) v += u; } return v; }
extern "C" __global__ void prefix(const long long* x, long long* out, int n) {
  __shared__ long long warp[32]; int t = threadIdx.x, lane = t & 31, w = t >> 5; long long v = t < n ? x[t] : 0;
  v = scan(v);
  if (lane == 31) warp[w] = v; __syncthreads();
  if (w == 0) warp[lane] = scan(lane < (blockDim.x >> 5) ? warp[lane] : 0ll); __syncthreads();
  if (w) v += warp[w - 1]; if (t < n) out[t] = v;
  unsigned m = __ballot_sync(0xffffffffu, v & 1); if (t == 0) out[n] = __popc(m);
  if (__syncthreads_or(v < 0) && t == 0) out[n + 1] = 1; }"""


@pytest.mark.parametrize("options", LEVELS)
def test_scan_of_a_block(options: tuple[str, ...]) -> None:
    n = 700
    x = RNG.integers(-(1 << 40), 1 << 40, n)
    x[0] = -(1 << 62)
    out = np.zeros(n + 2, np.int64)
    compile_kernel(cuda(SCAN, *options), "prefix").launch(struct.pack("<QQi", address(x), address(out), n), 1, 704)
    wanted = np.cumsum(x)
    assert np.array_equal(out[:n], wanted)
    assert out[n] == np.count_nonzero(wanted[:32] & 1) and out[n + 1] == 1


@pytest.mark.parametrize("grid", [(37, 5, 3), (1, 1, 200), (1, 300, 2), (513, 1, 1)])
def test_every_block_of_a_grid_runs_once(grid: tuple[int, int, int]) -> None:
    text = """.visible .entry k(.param .u64 out) { .reg .b64 %o; .reg .b32 %r, %x, %y, %z, %nx, %ny;
    ld.param.u64 %o, [out];
    mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z; mov.u32 %nx, %nctaid.x; mov.u32 %ny, %nctaid.y;
    mad.lo.u32 %r, %z, %ny, %y; mad.lo.u32 %r, %r, %nx, %x; mad.wide.u32 %o, %r, 4, %o; red.global.add.u32 [%o], 1;
    ret; }"""
    out = np.zeros(int(np.prod(grid)) + 8, np.uint32)
    run(text, "k", pointers(out), grid, 2, threads=2)
    assert (out[:-8] == 2).all() and not out[-8:].any()
