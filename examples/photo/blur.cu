// A 7 x 7 binomial blur, one 16 x 16 tile a block. Rows first, then columns, both in shared memory.

constexpr int TILE = 16;
constexpr int RADIUS = 3;
constexpr int SPAN = TILE + 2 * RADIUS;

__device__ int clamped(int i, int n) { return min(max(i, 0), n - 1); }

// Binomial weights 1 6 15 20 15 6 1, which sum to 64.
__device__ float weighted(float a, float b, float c, float d, float e, float f, float g)
{
    return ((a + g) + 6.0f * (b + f) + 15.0f * (c + e) + 20.0f * d) * (1.0f / 64.0f);
}

extern "C" __global__ void blur(const float *src, float *dst, int width, int height)
{
    __shared__ float pixels[SPAN][SPAN];
    __shared__ float rows[SPAN][TILE];
    const int x0 = blockIdx.x * TILE, y0 = blockIdx.y * TILE;
    const int thread = threadIdx.y * TILE + threadIdx.x;

    for (int k = thread; k < SPAN * SPAN; k += TILE * TILE) {
        const int y = clamped(y0 + k / SPAN - RADIUS, height), x = clamped(x0 + k % SPAN - RADIUS, width);
        pixels[k / SPAN][k % SPAN] = src[static_cast<long long>(y) * width + x];
    }
    __syncthreads();

    for (int k = thread; k < SPAN * TILE; k += TILE * TILE) {
        const float *p = &pixels[k / TILE][k % TILE];
        rows[k / TILE][k % TILE] = weighted(p[0], p[1], p[2], p[3], p[4], p[5], p[6]);
    }
    __syncthreads();

    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x < width && y < height) {
        const float *p = &rows[threadIdx.y][threadIdx.x];
        dst[static_cast<long long>(y) * width + x] =
            weighted(p[0], p[TILE], p[2 * TILE], p[3 * TILE], p[4 * TILE], p[5 * TILE], p[6 * TILE]);
    }
}
