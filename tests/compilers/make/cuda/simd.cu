// Integer intrinsics: bytes and halfwords in a word, bits, wide products, dot products, permutations.
// NVRTC 13.5 has no dot products of its own without optimisation ("unsupported operation").
#define DOT(name, instruction)                                                                                         \
    __device__ unsigned name(unsigned a, unsigned b, int c)                                                            \
    {                                                                                                                  \
        asm(instruction " %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));                                                \
        return c;                                                                                                      \
    }
DOT(dot4_signed, "dp4a.s32.s32")
DOT(dot4, "dp4a.u32.u32")
DOT(dot2_low_signed, "dp2a.lo.s32.s32")
DOT(dot2_high, "dp2a.hi.u32.u32")

extern "C" __global__ void simd(const unsigned *x, const unsigned *y, unsigned *out, unsigned long long *wide, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned a = x[i], b = y[i];
    const unsigned r[] = {__vadd4(a, b),
                          __vsub2(a, b),
                          __vabsdiffu4(a, b),
                          __vmaxs4(a, b),
                          __vminu2(a, b),
                          __vcmpgtu4(a, b),
                          __vavgu4(a, b),
                          __vaddss4(a, b),
                          __vabsdiffs2(a, b),
                          __vsadu4(a, b),
                          __byte_perm(a, b, a & 0x7777),
                          dot4_signed(a, b, 1000),
                          dot4(a, b, 7),
                          dot2_low_signed(a, b, -5),
                          dot2_high(a, b, 3),
                          __brev(a),
                          (unsigned)__clz(a),
                          (unsigned)__ffs(b),
                          (unsigned)__popc(a ^ b),
                          __umulhi(a, b),
                          (unsigned)__mulhi((int)a, (int)b),
                          __umul24(a, b),
                          (unsigned)__mul24((int)a, (int)b),
                          (unsigned)__sad((int)a, (int)b, 9u),
                          __usad(a, b, 1u),
                          (unsigned)__hadd((int)a, (int)b),
                          __urhadd(a, b),
                          __funnelshift_lc(a, b, b & 63),
                          __funnelshift_r(a, b, a)};
    const int rows = sizeof r / sizeof *r;
    for (int k = 0; k < rows; k++)
        out[k * n + i] = r[k];
    const unsigned long long u = (unsigned long long)a << 32 | b, v = (unsigned long long)b << 29 | a;
    wide[i] = __umul64hi(u, v);
    wide[n + i] = (unsigned long long)__mul64hi((long long)u, (long long)v);
    wide[2 * n + i] = __brevll(u);
    wide[3 * n + i] = __clzll(v) * 65536ull + __ffsll(u) * 256ull + __popcll(u ^ v);
    wide[4 * n + i] = u / (v | 1) + u % (v | 1);
    wide[5 * n + i] = (unsigned long long)((long long)u / ((long long)v | 1));
}
