// The kernels of the export tests. Slices are (pointer, length) pairs, tensors (pointer, extents, strides).

typedef unsigned long long u64;
typedef long long i64;

extern "C" __global__ void saxpy(const float *x, u64 x_length, float *y, u64 y_length, float a)
{
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < y_length)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void scale(float *y, float a, u64 n)
{
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (i < n)
        y[i] *= a;
}

extern "C" __global__ void transpose(const int *src, i64 rows, i64 columns, i64 row_stride, i64 column_stride, int *dst,
                                     i64 dst_rows, i64 dst_columns, i64 dst_row_stride, i64 dst_column_stride)
{
    __shared__ int tile[16][17];
    const i64 row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    if (row < rows && column < columns)
        tile[threadIdx.y][threadIdx.x] = src[row * row_stride + column * column_stride];
    __syncthreads();
    const i64 to_row = blockIdx.x * 16 + threadIdx.y, to_column = blockIdx.y * 16 + threadIdx.x;
    if (to_row < dst_rows && to_column < dst_columns)
        dst[to_row * dst_row_stride + to_column * dst_column_stride] = tile[threadIdx.x][threadIdx.y];
}

struct Point {
    char tag;
    double where[2];
};

// One value of every width, written out as doubles.
extern "C" __global__ void widths(double *out, u64 out_length, bool flag, signed char small, unsigned short middle,
                                  int word, u64 large, unsigned short half_bits, float single, double whole,
                                  Point point)
{
    if (threadIdx.x == 0 && blockIdx.x == 0 && out_length >= 10) {
        out[0] = flag;
        out[1] = small;
        out[2] = middle;
        out[3] = word;
        out[4] = (double)large;
        out[5] = half_bits;
        out[6] = single;
        out[7] = whole;
        out[8] = point.tag;
        out[9] = point.where[1];
    }
}

// Sums each block's elements through dynamic shared memory; named and with parameters named as no C function may be.
extern "C" __global__ void block_sums(const double *in, u64 in_length, double *out, u64 out_length)
{
    extern __shared__ double partial[];
    const u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < in_length ? in[i] : 0.0;
    for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
        __syncthreads();
        if (threadIdx.x < width)
            partial[threadIdx.x] += partial[threadIdx.x + width];
    }
    if (threadIdx.x == 0 && blockIdx.x < out_length)
        out[blockIdx.x] = partial[0];
}
