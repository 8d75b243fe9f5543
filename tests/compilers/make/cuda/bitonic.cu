// Each block sorts as many (key, value) pairs as it has threads, a power of two, by key.
struct Pair {
    unsigned key;
    short value;
    unsigned char tag;
};

extern "C" __global__ void bitonic(Pair *data)
{
    extern __shared__ Pair pairs[];
    const unsigned t = threadIdx.x, n = blockDim.x;
    pairs[t] = data[blockIdx.x * n + t];
    for (unsigned size = 2; size <= n; size <<= 1)
        for (unsigned step = size >> 1; step > 0; step >>= 1) {
            __syncthreads();
            const unsigned other = t ^ step;
            if (other > t && (pairs[t].key > pairs[other].key) == ((t & size) == 0)) {
                const Pair p = pairs[t];
                pairs[t] = pairs[other];
                pairs[other] = p;
            }
        }
    __syncthreads();
    data[blockIdx.x * n + t] = pairs[t];
}
