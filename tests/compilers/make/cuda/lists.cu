// Threads put their elements into the bucket of each key, a linked list under a lock of its own. Threads of one warp
// compete for a lock: one that waits must not keep the holder from going on.
struct Bucket {
    int lock, length, head, checksum;
};

extern "C" __global__ void lists(Bucket *buckets, int *next, const int *keys, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    Bucket *b = buckets + keys[i];
    while (atomicCAS(&b->lock, 0, 1) != 0)
        ;
    __threadfence();
    volatile Bucket *held = b;
    next[i] = held->head;
    held->head = i;
    held->length = held->length + 1;
    held->checksum = held->checksum * 3 + keys[i];
    __threadfence();
    atomicExch(&b->lock, 0);
}
