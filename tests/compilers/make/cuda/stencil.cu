// A five-point stencil; blocks of 32 by 8 load their points and the ring around them into shared memory.
#define WIDE 32
#define HIGH 8
extern "C" __global__ void stencil(const float *src, float *dst, int width, int height, float centre, float side)
{
    __shared__ float tile[HIGH + 2][WIDE + 2];
    const int x0 = blockIdx.x * WIDE, y0 = blockIdx.y * HIGH;
    for (int k = threadIdx.y * WIDE + threadIdx.x; k < (HIGH + 2) * (WIDE + 2); k += WIDE * HIGH) {
        const int row = k / (WIDE + 2), column = k % (WIDE + 2);
        const int x = x0 + column - 1, y = y0 + row - 1;
        tile[row][column] = x >= 0 && x < width && y >= 0 && y < height ? src[(long long)y * width + x] : 0.0f;
    }
    __syncthreads();
    const int x = x0 + threadIdx.x, y = y0 + threadIdx.y;
    if (x < width && y < height) {
        const float (*t)[WIDE + 2] = &tile[threadIdx.y];
        const float around = t[0][threadIdx.x + 1] + t[1][threadIdx.x] + t[1][threadIdx.x + 2] + t[2][threadIdx.x + 1];
        dst[(long long)y * width + x] = centre * t[1][threadIdx.x + 1] + side * around;
    }
}
