// A step of bodies that attract each other, bodies of a block in shared memory at a time.
struct Body {
    float3 at, velocity;
    float mass;
};

extern "C" __global__ void nbody(const Body *bodies, Body *after, int n, float dt, float softening)
{
    __shared__ float4 tile[64];
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    Body me = bodies[i < n ? i : n - 1];
    float3 pull = make_float3(0, 0, 0);
    for (int start = 0; start < n; start += blockDim.x) {
        const int j = start + threadIdx.x;
        tile[threadIdx.x] = j < n ? make_float4(bodies[j].at.x, bodies[j].at.y, bodies[j].at.z, bodies[j].mass)
                                  : make_float4(0, 0, 0, 0);
        __syncthreads();
        for (int k = 0; k < blockDim.x; k++) {
            const float4 other = tile[k];
            const float dx = other.x - me.at.x, dy = other.y - me.at.y, dz = other.z - me.at.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + softening);
            const float s = other.w * inverse * inverse * inverse;
            pull.x += s * dx;
            pull.y += s * dy;
            pull.z += s * dz;
        }
        __syncthreads();
    }
    me.velocity.x += dt * pull.x;
    me.velocity.y += dt * pull.y;
    me.velocity.z += dt * pull.z;
    me.at.x += dt * me.velocity.x;
    me.at.y += dt * me.velocity.y;
    me.at.z += dt * me.velocity.z;
    if (i < n)
        after[i] = me;
}
