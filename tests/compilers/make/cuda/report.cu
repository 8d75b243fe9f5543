// Output, assertions and the heap of the device.
extern "C" __global__ void report(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        printf("%d: %s %5.2f %c %llx %u%%\n", i, i % 2 ? "odd" : "even", x[i], 'a' + i, 0x123456789abcull + i, i);
}

extern "C" __global__ void heap(long long *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    int *mine = (int *)malloc((i + 1) * sizeof(int));
    for (int k = 0; k <= i; k++)
        mine[k] = k * k;
    long long *sum = new long long(0);
    for (int k = 0; k <= i; k++)
        *sum += mine[k];
    free(mine);
    if (i < n)
        out[i] = *sum;
    delete sum;
}
