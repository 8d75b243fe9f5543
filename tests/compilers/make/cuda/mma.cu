// C = A B for bf16 by mma.sync: tiles of A (m by k, row-major) and B (n by k, so column-major) come by cp.async into
// shared memory and by ldmatrix into registers; two stages. A block of four warps makes 32 by 32 of C. All extents are
// multiples of 32.
#define K 32

__device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// Rows of 64 bytes; the four 16-byte pieces of a row change places by row, so that eight rows hit different banks.
__device__ int piece(int row, int column) { return row * K + (column / 8 ^ row / 2 % 4) * 8 + column % 8; }

__device__ void fetch(unsigned short *tile, const unsigned short *from, int stride)
{
    const int row = threadIdx.x / 4, column = threadIdx.x % 4 * 8;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tile + piece(row, column))),
                 "l"(from + (long long)row * stride + column));
}

extern "C" __global__ void __launch_bounds__(128)
    mma(const unsigned short *a, const unsigned short *b, float *c, int m, int n, int k)
{
    __shared__ alignas(128) unsigned short as[2][32 * K], bs[2][32 * K];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / 2 * 16, column = warp % 2 * 16;
    a += (long long)blockIdx.y * 32 * k;
    b += (long long)blockIdx.x * 32 * k;
    float acc[2][4] = {};
    fetch(as[0], a, k);
    fetch(bs[0], b, k);
    asm volatile("cp.async.commit_group;");
    for (int start = 0; start < k; start += K) {
        const int stage = start / K & 1;
        if (start + K < k) {
            fetch(as[stage ^ 1], a + start + K, k);
            fetch(bs[stage ^ 1], b + start + K, k);
        }
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 1;");
        __syncthreads();
        for (int depth = 0; depth < K; depth += 16) {
            unsigned fa[4], fb[4];
            const unsigned at_a = shared_address(as[stage] + piece(row + lane % 16, depth + lane / 16 * 8));
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                         : "r"(at_a));
            const unsigned at_b =
                shared_address(bs[stage] + piece(column + lane % 8 + lane / 16 * 8, depth + lane / 8 % 2 * 8));
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(fb[0]), "=r"(fb[1]), "=r"(fb[2]), "=r"(fb[3])
                         : "r"(at_b));
            for (int half = 0; half < 2; half++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                             "{%8, %9}, {%0, %1, %2, %3};"
                             : "+f"(acc[half][0]), "+f"(acc[half][1]), "+f"(acc[half][2]), "+f"(acc[half][3])
                             : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[2 * half]),
                               "r"(fb[2 * half + 1]));
        }
        __syncthreads();
    }
    c += (long long)(blockIdx.y * 32 + row + lane / 4) * n + blockIdx.x * 32 + column + lane % 4 * 2;
    for (int half = 0; half < 2; half++) {
        *(float2 *)(c + half * 8) = make_float2(acc[half][0], acc[half][1]);
        *(float2 *)(c + half * 8 + 8ll * n) = make_float2(acc[half][2], acc[half][3]);
    }
}
