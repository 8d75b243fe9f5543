// Products and sums of 256-bit numbers, eight words of 32 bits each; carries by 64-bit arithmetic and by carry flags.
__device__ void add256(unsigned *r, const unsigned *a, const unsigned *b, unsigned *carry)
{
    asm("add.cc.u32 %0, %9, %17;\n\taddc.cc.u32 %1, %10, %18;\n\taddc.cc.u32 %2, %11, %19;\n\t"
        "addc.cc.u32 %3, %12, %20;\n\taddc.cc.u32 %4, %13, %21;\n\taddc.cc.u32 %5, %14, %22;\n\t"
        "addc.cc.u32 %6, %15, %23;\n\taddc.cc.u32 %7, %16, %24;\n\taddc.u32 %8, 0, 0;"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7]), "=r"(*carry)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(b[0]), "r"(b[1]),
          "r"(b[2]), "r"(b[3]), "r"(b[4]), "r"(b[5]), "r"(b[6]), "r"(b[7]));
}

// r[0..8] += a[0..7] * w
__device__ void add_row(unsigned *r, const unsigned *a, unsigned w)
{
    asm("mad.lo.cc.u32 %0, %9, %17, %0;\n\tmadc.lo.cc.u32 %1, %10, %17, %1;\n\tmadc.lo.cc.u32 %2, %11, %17, %2;\n\t"
        "madc.lo.cc.u32 %3, %12, %17, %3;\n\tmadc.lo.cc.u32 %4, %13, %17, %4;\n\tmadc.lo.cc.u32 %5, %14, %17, %5;\n\t"
        "madc.lo.cc.u32 %6, %15, %17, %6;\n\tmadc.lo.cc.u32 %7, %16, %17, %7;\n\taddc.u32 %8, %8, 0;\n\t"
        "mad.hi.cc.u32 %1, %9, %17, %1;\n\tmadc.hi.cc.u32 %2, %10, %17, %2;\n\tmadc.hi.cc.u32 %3, %11, %17, %3;\n\t"
        "madc.hi.cc.u32 %4, %12, %17, %4;\n\tmadc.hi.cc.u32 %5, %13, %17, %5;\n\tmadc.hi.cc.u32 %6, %14, %17, %6;\n\t"
        "madc.hi.cc.u32 %7, %15, %17, %7;\n\tmadc.hi.u32 %8, %16, %17, %8;"
        : "+r"(r[0]), "+r"(r[1]), "+r"(r[2]), "+r"(r[3]), "+r"(r[4]), "+r"(r[5]), "+r"(r[6]), "+r"(r[7]), "+r"(r[8])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]), "r"(w));
}

extern "C" __global__ void bigint(const unsigned *a, const unsigned *b, unsigned *sums, unsigned *products,
                                  unsigned *again, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    a += 8 * i;
    b += 8 * i;
    add256(sums + 9 * i, a, b, sums + 9 * i + 8);
    unsigned r[17] = {};
    for (int j = 0; j < 8; j++)
        add_row(r + j, a, b[j]);
    unsigned q[16] = {};
    for (int j = 0; j < 8; j++) {
        unsigned long long carry = 0;
        for (int k = 0; k < 8; k++) {
            carry += (unsigned long long)a[k] * b[j] + q[j + k];
            q[j + k] = (unsigned)carry;
            carry >>= 32;
        }
        q[j + 8] = (unsigned)carry;
    }
    for (int k = 0; k < 16; k++) {
        products[16 * i + k] = r[k];
        again[16 * i + k] = q[k];
    }
}
