// One row a block; the row stays in dynamic shared memory.
extern __shared__ float row[];

template <class Join>
__device__ float over_block(float v, float *scratch, Join join)
{
    for (int step = 16; step > 0; step >>= 1)
        v = join(v, __shfl_xor_sync(0xffffffffu, v, step));
    __syncthreads();
    if ((threadIdx.x & 31) == 0)
        scratch[threadIdx.x >> 5] = v;
    __syncthreads();
    v = scratch[0];
    for (int w = 1; w < blockDim.x >> 5; w++)
        v = join(v, scratch[w]);
    return v;
}

extern "C" __global__ void softmax(const float *src, float *dst, int columns)
{
    __shared__ float scratch[32];
    const long long base = (long long)blockIdx.x * columns;
    float top = -__int_as_float(0x7f800000);
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        row[c] = src[base + c];
        top = fmaxf(top, row[c]);
    }
    top = over_block(top, scratch, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += blockDim.x) {
        row[c] = expf(row[c] - top);
        sum += row[c];
    }
    sum = over_block(sum, scratch, [](float a, float b) { return a + b; });
    for (int c = threadIdx.x; c < columns; c += blockDim.x)
        dst[base + c] = row[c] / sum;
}
