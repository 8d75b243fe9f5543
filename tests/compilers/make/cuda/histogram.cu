// How often each byte occurs: counted in shared memory, then added up.
extern "C" __global__ void histogram(const unsigned char *x, unsigned *counts, int n)
{
    __shared__ unsigned mine[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        mine[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        if (mine[b] != 0)
            atomicAdd(&counts[b], mine[b]);
}
