// A radix-2 transform of complex doubles in shared memory, one block a transform of 2 * blockDim.x points.
extern "C" __global__ void fft(double2 *data, int log2n)
{
    extern __shared__ double2 z[];
    const int n = 1 << log2n, half = n / 2, t = threadIdx.x;
    data += (long long)blockIdx.x * n;
    for (int k = t; k < n; k += half)
        z[__brev(k) >> (32 - log2n)] = data[k];
    for (int span = 1; span < n; span *= 2) {
        __syncthreads();
        const int j = t % span, at = 2 * (t - j) + j;
        double sine, cosine;
        sincospi(-(double)j / span, &sine, &cosine);
        const double2 u = z[at], v = z[at + span];
        const double2 w = {v.x * cosine - v.y * sine, v.x * sine + v.y * cosine};
        z[at] = {u.x + w.x, u.y + w.y};
        z[at + span] = {u.x - w.x, u.y - w.y};
    }
    __syncthreads();
    for (int k = t; k < n; k += half)
        data[k] = z[k];
}
