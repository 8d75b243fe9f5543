// C (m by n) = A (m by k) B (k by n), tiles of 16 by 16 in shared memory.
#define TILE 16
extern "C" __global__ void matmul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float as[TILE][TILE], bs[TILE][TILE + 1];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;
    for (int start = 0; start < k; start += TILE) {
        const int ka = start + threadIdx.x, kb = start + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = kb < k && column < n ? b[kb * n + column] : 0.0f;
        __syncthreads();
        for (int j = 0; j < TILE; j++)
            sum += as[threadIdx.y][j] * bs[j][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n)
        c[row * n + column] = sum;
}
