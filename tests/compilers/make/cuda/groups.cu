// The header of cooperative groups: tiles, partitions by label, reductions, scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

extern "C" __global__ void groups(const int *x, int *sums, int *scans, int *ranks, int *tops, int n)
{
    const cg::thread_block block = cg::this_thread_block();
    const int i = blockIdx.x * block.size() + block.thread_rank();
    const int v = i < n ? x[i] : 0;
    const cg::thread_block_tile<8> tile = cg::tiled_partition<8>(block);
    const int sum = cg::reduce(tile, v, cg::plus<int>()), scanned = cg::inclusive_scan(tile, v);
    const int top = cg::reduce(cg::tiled_partition<32>(block), v, cg::greater<int>());
    block.sync();
    if (i >= n)
        return;
    sums[i] = sum + tile.meta_group_rank();
    scans[i] = scanned;
    tops[i] = top;
    if (v % 3 == 0) {
        const cg::coalesced_group some = cg::coalesced_threads();
        ranks[i] = some.thread_rank() * 100 + some.size();
    } else {
        ranks[i] = -1;
    }
}
