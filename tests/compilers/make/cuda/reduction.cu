// Sum, least and largest of an array in one pass: each block leaves its part, the last to finish adds the parts up.
__device__ unsigned finished = 0;

struct Part {
    double sum;
    float least, largest;
};

__device__ Part join(Part a, Part b)
{
    return {a.sum + b.sum, a.least < b.least ? a.least : b.least, a.largest > b.largest ? a.largest : b.largest};
}

__device__ Part of_block(Part p)
{
    __shared__ Part parts[32];
    for (int step = 16; step > 0; step /= 2) {
        Part other = {__shfl_down_sync(0xffffffffu, p.sum, step), __shfl_down_sync(0xffffffffu, p.least, step),
                      __shfl_down_sync(0xffffffffu, p.largest, step)};
        p = join(p, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = p;
    __syncthreads();
    if (threadIdx.x == 0)
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            p = join(p, parts[w]);
    return p;
}

extern "C" __global__ void reduction(const float *x, Part *parts, Part *result, int n)
{
    __shared__ bool last;
    Part p = {0, 3.402823466e+38f, -3.402823466e+38f};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p = join(p, Part{x[i], x[i], x[i]});
    p = of_block(p);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = p;
        __threadfence();
        last = atomicInc(&finished, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    p = Part{0, 3.402823466e+38f, -3.402823466e+38f};
    for (unsigned b = threadIdx.x; b < gridDim.x; b += blockDim.x) {
        const volatile Part *q = parts + b;
        p = join(p, Part{q->sum, q->least, q->largest});
    }
    p = of_block(p);
    if (threadIdx.x == 0)
        *result = p;
}
