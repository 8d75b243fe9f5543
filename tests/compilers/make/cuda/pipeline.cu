// Sums of windows of an array, whose tiles are copied to shared memory while the one before is worked on.
#include <cuda_pipeline.h>

extern "C" __global__ void pipeline(const float4 *src, float *out, int tiles)
{
    __shared__ float4 stage[2][64];
    float sum = 0;
    src += (long long)blockIdx.x * tiles * 64;
    for (int k = 0; k <= tiles; k++) {
        if (k < tiles) {
            __pipeline_memcpy_async(&stage[k & 1][threadIdx.x], src + k * 64 + threadIdx.x, sizeof(float4));
            __pipeline_commit();
        }
        if (k > 0) {
            if (k < tiles)
                __pipeline_wait_prior(1);
            else
                __pipeline_wait_prior(0);
            __syncthreads();
            const float4 a = stage[k - 1 & 1][threadIdx.x], b = stage[k - 1 & 1][(threadIdx.x + 1) & 63];
            sum += a.x + 2 * a.y + 3 * a.z + 4 * a.w - b.x;
            __syncthreads();
        }
    }
    out[blockIdx.x * 64 + threadIdx.x] = sum;
}
