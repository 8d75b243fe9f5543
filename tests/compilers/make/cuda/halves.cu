// Arithmetic in f16 and bf16, single and in pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <class T>
__device__ void all(const T *x, const T *y, T *out, int i, int n)
{
    const T a = x[i], b = y[i];
    const T r[] = {__hadd(a, b), __hsub(a, b),     __hmul(a, b),  __hdiv(a, b),    __hfma(a, b, a), __hneg(a),
                   __habs(a),    __hmax(a, b),     __hmin(a, b),  hfloor(a),       hceil(a),        htrunc(a),
                   hrint(a),     hsqrt(__habs(a)), a < b ? a : b, __hadd_sat(a, b)};
    const int rows = sizeof r / sizeof *r;
    for (int k = 0; k < rows; k++)
        out[k * n + i] = r[k];
}

extern "C" __global__ void halves_f16(const __half *x, const __half *y, __half *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        all(x, y, out, i, n);
}

extern "C" __global__ void halves_bf16(const __nv_bfloat16 *x, const __nv_bfloat16 *y, __nv_bfloat16 *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        all(x, y, out, i, n);
}

extern "C" __global__ void pairs(const __half2 *x, const __half2 *y, __half2 *out, float2 *wide, __half *sum, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const __half2 a = x[i], b = y[i];
    out[i] = __hfma2(a, b, __hmax2(a, b));
    out[n + i] = __lows2half2(a, b);
    out[2 * n + i] = __h2div(a, b);
    out[3 * n + i] = __hgt2(a, b);
    wide[i] = __half22float2(__hadd2(a, b));
    atomicAdd(sum, __hbgt2(a, b) ? __float2half(1.0f) : __float2half(0.0f));
}
