// C = A B + C by the header's warp matrices: f16 with f32 sums, and bytes with integer sums. A warp makes 16 by 16.
#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void wmma_f16(const __half *a, const __half *b, float *c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    float *at = c + (long long)blockIdx.y * 16 * n + blockIdx.x * 16;
    wmma::load_matrix_sync(fc, at, n, wmma::mem_row_major);
    for (int s = 0; s < k; s += 16) {
        wmma::load_matrix_sync(fa, a + (long long)blockIdx.y * 16 * k + s, k);
        wmma::load_matrix_sync(fb, b + (long long)blockIdx.x * 16 * k + s, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int e = 0; e < fc.num_elements; e++)
        fc.x[e] *= 0.5f;
    wmma::store_matrix_sync(at, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_s8(const signed char *a, const signed char *b, int *c, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
    wmma::fill_fragment(fc, 1);
    for (int s = 0; s < k; s += 16) {
        wmma::load_matrix_sync(fa, a + (long long)blockIdx.y * 16 * k + s, k);
        wmma::load_matrix_sync(fb, b + (long long)s * n + blockIdx.x * 16, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c + (long long)blockIdx.y * 16 * n + blockIdx.x * 16, fc, n, wmma::mem_row_major);
}
