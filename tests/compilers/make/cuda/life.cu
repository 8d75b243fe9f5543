// The game of life on a torus of 32 w by h cells, 32 cells in a word, neighbours counted in bit planes.
__device__ void count(unsigned x, unsigned &ones, unsigned &twos, unsigned &fours)
{
    const unsigned carry = ones & x;
    ones ^= x;
    const unsigned more = twos & carry;
    twos ^= carry;
    fours |= more;
}

extern "C" __global__ void life(const unsigned *src, unsigned *dst, unsigned *living, int w, int h)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h)
        return;
    const int left = (x + w - 1) % w, right = (x + 1) % w;
    unsigned ones = 0, twos = 0, fours = 0;
    for (int d = -1; d <= 1; d++) {
        const unsigned *line = src + (y + d + h) % h * w;
        count(__funnelshift_l(line[left], line[x], 1), ones, twos, fours);
        count(__funnelshift_r(line[x], line[right], 1), ones, twos, fours);
        if (d != 0)
            count(line[x], ones, twos, fours);
    }
    const unsigned next = twos & ~fours & (ones | src[y * w + x]);
    dst[y * w + x] = next;
    atomicAdd(living, __popc(next));
}
