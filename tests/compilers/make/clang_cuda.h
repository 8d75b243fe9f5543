// What the kernels in cuda/ need of CUDA's headers, from clang's builtin functions.
#pragma once

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __noinline__ __attribute__((noinline))

#define DEVICE static inline __attribute__((device, always_inline))
#define COORDINATE(axis, name)                                                                                         \
    __declspec(property(get = get_##axis)) unsigned axis;                                                              \
    static inline __attribute__((device, always_inline)) unsigned get_##axis()                                         \
    {                                                                                                                  \
        return __nvvm_read_ptx_sreg_##name##_##axis();                                                                 \
    }
#define INDEX(type, name)                                                                                              \
    struct type {                                                                                                      \
        COORDINATE(x, name) COORDINATE(y, name) COORDINATE(z, name)                                                    \
    };
INDEX(ThreadIndex, tid)
INDEX(BlockIndex, ctaid)
INDEX(BlockExtents, ntid)
INDEX(GridExtents, nctaid)
extern const __device__ __attribute__((weak)) ThreadIndex threadIdx;
extern const __device__ __attribute__((weak)) BlockIndex blockIdx;
extern const __device__ __attribute__((weak)) BlockExtents blockDim;
extern const __device__ __attribute__((weak)) GridExtents gridDim;

struct int2 {
    int x, y;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct float3 {
    float x, y, z;
};
struct alignas(16) double2 {
    double x, y;
};
DEVICE float3 make_float3(float x, float y, float z) { return {x, y, z}; }
DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

DEVICE int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
DEVICE int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
DEVICE int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
DEVICE void __threadfence() { __nvvm_membar_gl(); }
DEVICE unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
DEVICE int __all_sync(unsigned mask, int p) { return __nvvm_vote_all_sync(mask, p); }
DEVICE int __any_sync(unsigned mask, int p) { return __nvvm_vote_any_sync(mask, p); }

#define SHUFFLE(name, kind, clamp)                                                                                     \
    DEVICE int name(unsigned mask, int v, int by) { return __nvvm_shfl_sync_##kind##_i32(mask, v, by, clamp); }        \
    DEVICE float name(unsigned mask, float v, int by) { return __nvvm_shfl_sync_##kind##_f32(mask, v, by, clamp); }    \
    DEVICE long long name(unsigned mask, long long v, int by)                                                          \
    {                                                                                                                  \
        const unsigned low = name(mask, (int)v, by);                                                                   \
        return (long long)name(mask, (int)(v >> 32), by) << 32 | low;                                                  \
    }                                                                                                                  \
    DEVICE double name(unsigned mask, double v, int by)                                                                \
    {                                                                                                                  \
        return __builtin_bit_cast(double, name(mask, __builtin_bit_cast(long long, v), by));                           \
    }
SHUFFLE(__shfl_down_sync, down, 31)
SHUFFLE(__shfl_up_sync, up, 0)
SHUFFLE(__shfl_xor_sync, bfly, 31)

DEVICE int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }
DEVICE unsigned atomicAdd(unsigned *p, unsigned v) { return __nvvm_atom_add_gen_i((int *)p, v); }
DEVICE unsigned long long atomicAdd(unsigned long long *p, unsigned long long v)
{
    return __nvvm_atom_add_gen_ll((long long *)p, v);
}
DEVICE int atomicCAS(int *p, int old, int v) { return __nvvm_atom_cas_gen_i(p, old, v); }
DEVICE int atomicExch(int *p, int v) { return __nvvm_atom_xchg_gen_i(p, v); }
DEVICE unsigned atomicInc(unsigned *p, unsigned most) { return __nvvm_atom_inc_gen_ui(p, most); }

extern "C" inline __device__ void __cxa_pure_virtual() { __builtin_trap(); }

DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
DEVICE unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by)
{
    return ((unsigned long long)high << 32 | low) << (by & 31) >> 32;
}
DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by)
{
    return ((unsigned long long)high << 32 | low) >> (by & 31);
}
DEVICE float rsqrtf(float x) { return __nvvm_rsqrt_approx_f(x); }
