/* Plain types that every exported folder shares: devices, streams, slices, tensors, launch configurations.
 *
 * Only these and driver handles cross from one exported library to another; everything else has its folder's prefix.
 */
#ifndef INTEROP_TYPES_H
#define INTEROP_TYPES_H
#define INTEROP_TYPES_VERSION 1

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "status.h"

#ifdef __cplusplus
#define INTEROP_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define INTEROP_ALIGNAS(bytes) alignas(bytes)
#else
#define INTEROP_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define INTEROP_ALIGNAS(bytes) _Alignas(bytes)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's stream: a CUstream or a cudaStream_t passes as it is; NULL is the default stream. The CPU device runs
 * every call before it returns and takes no notice of it. */
typedef struct CUstream_st *interop_stream;

typedef enum interop_device_kind {
    INTEROP_DEVICE_BEST = 0, /* CUDA where the machine has a usable GPU, else the CPU */
    INTEROP_DEVICE_CPU = 1,
    INTEROP_DEVICE_CUDA = 2
} interop_device_kind;

typedef struct interop_device {
    interop_device_kind kind;
    int32_t ordinal; /* of the GPU, as the driver counts them */
} interop_device;

static inline interop_device interop_device_best(void)
{
    const interop_device device = {INTEROP_DEVICE_BEST, 0};
    return device;
}

static inline interop_device interop_device_cpu(void)
{
    const interop_device device = {INTEROP_DEVICE_CPU, 0};
    return device;
}

static inline interop_device interop_device_cuda(int32_t ordinal)
{
    const interop_device device = {INTEROP_DEVICE_CUDA, ordinal};
    return device;
}

typedef struct interop_dim3 {
    uint32_t x, y, z;
} interop_dim3;

/* An explicit launch configuration: {.grid = &(interop_dim3){.x = 4}, .block = &(interop_dim3){32, 8, 1}}. What is
 * NULL, or 0 for `shared_bytes`, follows from the kernel's contract. All of it is checked like the arguments.
 *
 * C fills up {.x = 4} with zeros, so zeros at the end count as ones: {.x = 4} is {4, 1, 1}, and {.x = 0} is {0, 1, 1}.
 * Where y or z are computed and may come out as zero, give all three and set `exact`: a zero is then a zero wherever it
 * stands. A grid with a zero runs nothing, a block with a zero is an error, as in Python. */
typedef struct interop_launch_config {
    const interop_dim3 *grid;
    const interop_dim3 *block;
    uint32_t shared_bytes; /* dynamic shared memory of a block; not less than the contract says */
    interop_stream stream;
    bool exact;
} interop_launch_config;

/* Half precision as its bits, since C has no portable type for it. */
typedef struct interop_f16 {
    uint16_t bits;
} interop_f16;

typedef struct interop_bf16 {
    uint16_t bits;
} interop_bf16;

INTEROP_STATIC_ASSERT(sizeof(bool) == 1 && sizeof(float) == 4 && sizeof(double) == 8 && sizeof(void *) == 8,
                      "exported kernels need the data model of 64-bit CUDA");
INTEROP_STATIC_ASSERT(sizeof(interop_f16) == 2 && sizeof(interop_bf16) == 2, "half precision takes two bytes");

/* Rounds to nearest, ties to even; what is too large becomes infinity. */
static inline interop_f16 interop_f16_from_float(float value)
{
    interop_f16 half;
    uint32_t bits, sign, rest, shift, kept;
    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) { /* NaN */
        half.bits = (uint16_t)(sign | 0x7e00u | (bits >> 13 & 0x3ffu));
    } else if (bits >= 0x477ff000u) { /* 65520 and above round to infinity */
        half.bits = (uint16_t)(sign | 0x7c00u);
    } else if (bits >= 0x38800000u) { /* normal: 2^-14 and above */
        half.bits = (uint16_t)(sign | ((bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13));
    } else if (bits > 0x33000000u) { /* subnormal: above 2^-25 */
        shift = 126u - (bits >> 23);
        kept = bits & 0x7fffffu;
        kept |= 0x800000u;
        rest = kept & ((1u << shift) - 1u);
        kept >>= shift;
        kept += rest > (1u << (shift - 1u)) || (rest == (1u << (shift - 1u)) && (kept & 1u));
        half.bits = (uint16_t)(sign | kept);
    } else {
        half.bits = (uint16_t)sign;
    }
    return half;
}

static inline float interop_f16_to_float(interop_f16 half)
{
    uint32_t bits, sign = (half.bits & 0x8000u) << 16, exponent = half.bits >> 10 & 0x1fu;
    uint32_t fraction = half.bits & 0x3ffu;
    float value;
    if (exponent == 0x1fu) {
        bits = sign | 0x7f800000u | fraction << 13;
    } else if (exponent) {
        bits = sign | (exponent + 112u) << 23 | fraction << 13;
    } else { /* zero or subnormal: fraction * 2^-24 is exact */
        value = (float)fraction * 5.9604644775390625e-8f;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline interop_bf16 interop_bf16_from_float(float value)
{
    interop_bf16 half;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        half.bits = (uint16_t)(bits >> 16 | 0x40u);
    else
        half.bits = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    return half;
}

static inline float interop_bf16_to_float(interop_bf16 half)
{
    const uint32_t bits = (uint32_t)half.bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* interop_slice_f32 is {data, length}: a contiguous run of elements. interop_tensor2_f32 is {data, shape, strides}: a
 * strided array of rank 2, strides counted in elements. The kernel writes through those without `const` in the name. */
#define INTEROP_DECLARE_TENSOR(name, element, rank)                                                                    \
    typedef struct interop_tensor##rank##name {                                                                        \
        element *data;                                                                                                 \
        int64_t shape[rank];                                                                                           \
        int64_t strides[rank];                                                                                         \
    } interop_tensor##rank##name;                                                                                      \
    INTEROP_STATIC_ASSERT(sizeof(interop_tensor##rank##name) == 8 + 16 * rank, "a tensor has no padding")

#define INTEROP_DECLARE_ARRAYS(name, element)                                                                          \
    typedef struct interop_slice##name {                                                                               \
        element *data;                                                                                                 \
        uint64_t length;                                                                                               \
    } interop_slice##name;                                                                                             \
    INTEROP_STATIC_ASSERT(sizeof(interop_slice##name) == 16 && offsetof(interop_slice##name, length) == 8,             \
                          "a slice is two 8-byte values");                                                             \
    INTEROP_DECLARE_TENSOR(name, element, 1);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 2);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 3);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 4);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 5);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 6);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 7);                                                                          \
    INTEROP_DECLARE_TENSOR(name, element, 8)

/* Names get their underscore here: `bool` is a macro in C, which would be expanded on the way. */
#define INTEROP_DECLARE_ELEMENT(name, element)                                                                         \
    INTEROP_DECLARE_ARRAYS(_##name, element);                                                                          \
    INTEROP_DECLARE_ARRAYS(_const_##name, const element)

INTEROP_DECLARE_ELEMENT(bool, bool);
INTEROP_DECLARE_ELEMENT(i8, int8_t);
INTEROP_DECLARE_ELEMENT(i16, int16_t);
INTEROP_DECLARE_ELEMENT(i32, int32_t);
INTEROP_DECLARE_ELEMENT(i64, int64_t);
INTEROP_DECLARE_ELEMENT(u8, uint8_t);
INTEROP_DECLARE_ELEMENT(u16, uint16_t);
INTEROP_DECLARE_ELEMENT(u32, uint32_t);
INTEROP_DECLARE_ELEMENT(u64, uint64_t);
INTEROP_DECLARE_ELEMENT(f16, interop_f16);
INTEROP_DECLARE_ELEMENT(bf16, interop_bf16);
INTEROP_DECLARE_ELEMENT(f32, float);
INTEROP_DECLARE_ELEMENT(f64, double);

#undef INTEROP_DECLARE_ELEMENT
#undef INTEROP_DECLARE_ARRAYS
#undef INTEROP_DECLARE_TENSOR

#ifdef __cplusplus
}
#endif

#elif INTEROP_TYPES_VERSION != 1
#error "two exported folders come from different versions of interop: export both with the same one"
#endif
