// Ways to place queens on an n by n board, by recursion; each thread fixes the first two.
__device__ __noinline__ int place(int n, unsigned columns, unsigned up, unsigned down)
{
    const unsigned full = (1u << n) - 1;
    if (columns == full)
        return 1;
    int found = 0;
    for (unsigned open = full & ~(columns | up | down); open != 0; open &= open - 1) {
        const unsigned q = open & -open;
        found += place(n, columns | q, (up | q) << 1, (down | q) >> 1);
    }
    return found;
}

extern "C" __global__ void queens(unsigned long long *total, int *each, int n)
{
    const int a = threadIdx.x, b = threadIdx.y;
    int found = 0;
    if (a != b && a + 1 != b && b + 1 != a) {
        const unsigned p = 1u << a, q = 1u << b;
        found = place(n, p | q, (p << 1 | q) << 1, (p >> 1 | q) >> 1);
    }
    each[a * n + b] = found;
    atomicAdd(total, (unsigned long long)found);
}
