// Connected components of a graph: each edge joins the trees of its ends; then each vertex takes the root's number.
__device__ int root(int *parent, int v)
{
    int p = atomicAdd(&parent[v], 0);
    while (p != v) {
        const int grand = atomicAdd(&parent[p], 0);
        atomicCAS(&parent[v], p, grand);
        v = p;
        p = grand;
    }
    return v;
}

extern "C" __global__ void join(int *parent, const int2 *edges, int n)
{
    for (int e = blockIdx.x * blockDim.x + threadIdx.x; e < n; e += gridDim.x * blockDim.x) {
        int a = edges[e].x, b = edges[e].y;
        for (;;) {
            a = root(parent, a);
            b = root(parent, b);
            if (a == b)
                break;
            if (a < b) {
                const int t = a;
                a = b;
                b = t;
            }
            if (atomicCAS(&parent[a], a, b) == a)
                break;
        }
    }
}

extern "C" __global__ void settle(int *parent, int n)
{
    for (int v = blockIdx.x * blockDim.x + threadIdx.x; v < n; v += gridDim.x * blockDim.x)
        parent[v] = root(parent, v);
}
