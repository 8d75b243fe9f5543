// Prefix sums of 64-bit integers in one block, and facts about them by votes.
__device__ long long within_warp(long long v)
{
    for (int step = 1; step < 32; step *= 2) {
        const long long u = __shfl_up_sync(0xffffffffu, v, step);
        if (threadIdx.x % 32 >= step)
            v += u;
    }
    return v;
}

extern "C" __global__ void scan(const long long *x, long long *out, unsigned *odd, int *facts, int n)
{
    __shared__ long long sums[32];
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5;
    long long v = within_warp(t < n ? x[t] : 0);
    if (lane == 31)
        sums[warp] = v;
    __syncthreads();
    if (warp == 0)
        sums[lane] = within_warp(lane < blockDim.x / 32 ? sums[lane] : 0);
    __syncthreads();
    if (warp > 0)
        v += sums[warp - 1];
    if (t < n)
        out[t] = v;
    const unsigned ballot = __ballot_sync(0xffffffffu, t < n && (v & 1));
    if (lane == 0)
        odd[warp] = ballot;
    const int negative = __syncthreads_count(t < n && v < 0), any = __syncthreads_or(t < n && v == x[0]);
    const int all = __syncthreads_and(t >= n || v != x[0] || t == 0);
    const int same = __all_sync(0xffffffffu, t < n) + 2 * __any_sync(0xffffffffu, t < n);
    if (t == 0) {
        facts[0] = negative;
        facts[1] = any;
        facts[2] = all;
        facts[3] = same;
    }
}
