// y = A x for a sparse matrix in compressed rows, a warp a row.
template <class T>
__device__ void spmv(const long long *rows, const int *columns, const T *values, const T *x, T *y, int n)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= n)
        return;
    T sum = 0;
    for (long long k = rows[row] + lane; k < rows[row + 1]; k += 32)
        sum += values[k] * x[columns[k]];
    for (int step = 16; step > 0; step >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0)
        y[row] = sum;
}

extern "C" __global__ void spmv_f32(const long long *r, const int *c, const float *v, const float *x, float *y, int n)
{
    spmv(r, c, v, x, y, n);
}

extern "C" __global__ void spmv_f64(const long long *r, const int *c, const double *v, const double *x, double *y,
                                    int n)
{
    spmv(r, c, v, x, y, n);
}
