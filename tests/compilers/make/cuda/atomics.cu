// Every atomic operation of the language on a few contended places.
extern "C" __global__ void atomics(unsigned *u, int *s, unsigned long long *w, float *f, double *d, const unsigned *x,
                                   int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const unsigned v = x[i];
    atomicAdd(&u[0], v);
    atomicSub(&u[1], v);
    atomicMin(&u[2], v);
    atomicMax(&u[3], v);
    atomicAnd(&u[4], v | 0xff);
    atomicOr(&u[5], v & 0x0f0f0f0f);
    atomicXor(&u[6], v);
    atomicInc(&u[7], 100);
    atomicDec(&u[8], 77);
    if (atomicExch(&u[9], i + 1) == 0)
        atomicAdd(&u[10], 1);
    atomicMin(&s[0], (int)v);
    atomicMax(&s[1], (int)v);
    atomicAdd(&s[2], (int)v);
    atomicAdd(&w[0], (unsigned long long)v << 20);
    atomicMin(&w[1], (unsigned long long)v * v);
    atomicMax(&w[2], (unsigned long long)v * v);
    atomicXor(&w[3], (unsigned long long)v << 13);
    atomicMin((long long *)&w[4], (long long)(int)v * 12345);
    atomicMax((long long *)&w[5], (long long)(int)v * 12345);
    atomicOr(&w[6], 1ull << (v & 63));
    atomicAnd(&w[7], ~(1ull << (v >> 8 & 63)));
    atomicAdd(&f[0], (float)(v & 15));
    atomicAdd(&d[0], (double)v);
    unsigned long long *bits = (unsigned long long *)&d[1]; // the largest value by compare and swap
    unsigned long long old = *(volatile unsigned long long *)bits;
    while (__longlong_as_double(old) < (double)v) {
        const unsigned long long seen = atomicCAS(bits, old, __double_as_longlong((double)v));
        if (seen == old)
            break;
        old = seen;
    }
    atomicAdd_block(&u[11], 1);
    atomicAdd_system(&u[12], 2);
    unsigned short *halfword = (unsigned short *)&u[13];
    unsigned short have = *(volatile unsigned short *)halfword;
    for (;;) {
        const unsigned short seen = atomicCAS(halfword, have, (unsigned short)(have + 3));
        if (seen == have)
            break;
        have = seen;
    }
}
