// Threads that are together at a place agree on one to act for all: active masks, matches, votes among some lanes.
extern "C" __global__ void warps(const int *keys, int *out, unsigned *groups, int *counter, int *sums, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    if (i >= n)
        return;
    const unsigned here = __ballot_sync(__activemask(), 1);
    const int key = keys[i];
    const unsigned group = __match_any_sync(here, key);
    groups[i] = group;
    const int leader = __ffs(group) - 1, rank = __popc(group & ((1u << lane) - 1));
    int base = 0;
    if (lane == leader)
        base = atomicAdd(&counter[key], __popc(group));
    base = __shfl_sync(group, base, leader);
    out[i] = base + rank;
    int all = 0;
    const unsigned alike = __match_all_sync(here, key, &all);
    if (all && alike == here && lane == __ffs(here) - 1)
        atomicAdd(&sums[0], 1);
    if (key % 2) {
        const unsigned odd = __ballot_sync(here & __ballot_sync(__activemask(), 1), key % 3 == 0);
        const int most = __reduce_max_sync(__activemask(), key), total = __reduce_add_sync(__activemask(), key);
        if (lane == __ffs(__activemask()) - 1) {
            atomicAdd(&sums[1], __popc(odd));
            atomicMax(&sums[2], most);
            atomicAdd(&sums[3], total);
        }
    }
    __syncwarp(here);
    atomicXor(&sums[4], i * 2654435761u);
}
