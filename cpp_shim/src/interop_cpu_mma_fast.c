/* The CPU device: mma with AVX2 where the machine has it, chosen at run time. The same bits as the portable code in
 * interop_cpu_mma.c: each accumulator is the same chain of fused multiply-additions, and integers are exact.
 *
 * A block of 8 or 16 rows by 8 columns has a vector for each row. Its columns stand in the order 0 2 4 6 1 3 5 7,
 * which is how the accumulator's two registers have them: c0 of four lanes, then c1. Per step along the inner
 * dimension one element of A is broadcast to a row's vector.
 */
#include "interop_cpu_matrix.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__)) && !defined(INTEROP_CPU_PORTABLE)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define AVX2_INLINE AVX2 static inline __attribute__((always_inline))

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)

enum { STEPS = 16 }; /* most steps along one block of 16 bytes: nibbles in pairs */

/* Words of A, broadcast one by one, and vectors of B, for each block along the inner dimension. */
typedef struct operands {
    _Alignas(32) uint32_t a[4][16][STEPS];
    _Alignas(32) uint32_t b[4][STEPS][8];
} operands;

/* ---- A: a row has 16 bytes, four words ---- */

AVX2_INLINE void widen_row(uint32_t kind, bool is_signed, const uint32_t *row, uint32_t *out)
{
    const __m128i words = _mm_loadu_si128((const __m128i *)row);
    switch (kind) {
    case INTEROP_CPU_KIND_F16:
        _mm256_store_ps((float *)out, _mm256_cvtph_ps(words));
        break;
    case INTEROP_CPU_KIND_BF16:
        _mm256_store_si256((__m256i *)out, _mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
        break;
    case INTEROP_CPU_KIND_TF32:
        _mm_store_si128((__m128i *)out, _mm_and_si128(words, _mm_set1_epi32(-8192)));
        break;
    case INTEROP_CPU_KIND_INT8: { /* pairs of 16 bits: bytes 0 and 2, then 1 and 3 */
        const __m128i up = _mm_slli_epi16(words, 8);
        _mm_store_si128((__m128i *)out, is_signed ? _mm_srai_epi16(up, 8) : _mm_srli_epi16(up, 8));
        _mm_store_si128((__m128i *)out + 1, is_signed ? _mm_srai_epi16(words, 8) : _mm_srli_epi16(words, 8));
        break;
    }
    default: /* nibbles 0 and 4, 1 and 5, ... */
        for (int i = 0; i < 4; i++) {
            const __m128i up = _mm_sll_epi16(words, _mm_cvtsi32_si128(12 - 4 * i));
            _mm_store_si128((__m128i *)out + i, is_signed ? _mm_srai_epi16(up, 12) : _mm_srli_epi16(up, 12));
        }
        break;
    }
}

AVX2_INLINE void widen_a(uint32_t kind, uint32_t rows, uint32_t depth, const interop_cpu_block_product *p, operands *o)
{
    for (uint32_t block = 0; block < depth; block++)
        for (uint32_t half = 0; half < rows; half++) {
            const uint32_t *words = p->a[half + block * rows].at;
#define WIDEN(r) widen_row(kind, p->a_signed, words + 4 * r, o->a[block][8 * half + r]);
            EACH_ROW(WIDEN)
#undef WIDEN
        }
}

/* ---- B: a column has 16 bytes; word t of all columns becomes a vector ---- */

AVX2_INLINE void widen_word(uint32_t kind, bool is_signed, __m256i word, uint32_t t, uint32_t (*out)[8])
{
    switch (kind) {
    case INTEROP_CPU_KIND_F16: {
        const __m256i apart = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8, 9,
                                               12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        const __m256i halves = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(word, apart), 0xD8);
        _mm256_store_ps((float *)out[2 * t], _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
        _mm256_store_ps((float *)out[2 * t + 1], _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
        break;
    }
    case INTEROP_CPU_KIND_BF16:
        _mm256_store_si256((__m256i *)out[2 * t], _mm256_slli_epi32(word, 16));
        _mm256_store_si256((__m256i *)out[2 * t + 1], _mm256_and_si256(word, _mm256_set1_epi32(-65536)));
        break;
    case INTEROP_CPU_KIND_TF32:
        _mm256_store_si256((__m256i *)out[t], _mm256_and_si256(word, _mm256_set1_epi32(-8192)));
        break;
    case INTEROP_CPU_KIND_INT8: {
        const __m256i up = _mm256_slli_epi16(word, 8);
        _mm256_store_si256((__m256i *)out[t], is_signed ? _mm256_srai_epi16(up, 8) : _mm256_srli_epi16(up, 8));
        _mm256_store_si256((__m256i *)out[4 + t], is_signed ? _mm256_srai_epi16(word, 8) : _mm256_srli_epi16(word, 8));
        break;
    }
    default:
        for (int i = 0; i < 4; i++) {
            const __m256i up = _mm256_sll_epi16(word, _mm_cvtsi32_si128(12 - 4 * i));
            _mm256_store_si256((__m256i *)out[4 * i + (int)t],
                               is_signed ? _mm256_srai_epi16(up, 12) : _mm256_srli_epi16(up, 12));
        }
        break;
    }
}

AVX2_INLINE void widen_b(uint32_t kind, uint32_t depth, const interop_cpu_block_product *p, operands *o)
{
    for (uint32_t block = 0; block < depth; block++) {
        const __m256i *columns = (const __m256i *)(const void *)p->b[block].at;
        /* Two columns each; transposed within halves, these give columns 0 2 4 6 and 1 3 5 7 of one word. */
        const __m256i c01 = _mm256_loadu_si256(columns), c23 = _mm256_loadu_si256(columns + 1);
        const __m256i c45 = _mm256_loadu_si256(columns + 2), c67 = _mm256_loadu_si256(columns + 3);
        const __m256i low = _mm256_unpacklo_epi32(c01, c23), low2 = _mm256_unpacklo_epi32(c45, c67);
        const __m256i high = _mm256_unpackhi_epi32(c01, c23), high2 = _mm256_unpackhi_epi32(c45, c67);
        widen_word(kind, p->b_signed, _mm256_unpacklo_epi64(low, low2), 0, o->b[block]);
        widen_word(kind, p->b_signed, _mm256_unpackhi_epi64(low, low2), 1, o->b[block]);
        widen_word(kind, p->b_signed, _mm256_unpacklo_epi64(high, high2), 2, o->b[block]);
        widen_word(kind, p->b_signed, _mm256_unpackhi_epi64(high, high2), 3, o->b[block]);
    }
}

/* ---- eight rows at a time ---- */

AVX2_INLINE void multiply_floats(const operands *o, uint32_t depth, uint32_t steps, uint32_t first,
                                 const interop_cpu_lanes *from, interop_cpu_lanes *sum)
{
    const float *c0 = (const float *)(const void *)from[0].at, *c1 = (const float *)(const void *)from[1].at;
    float *d0 = (float *)(void *)sum[0].at, *d1 = (float *)(void *)sum[1].at;
#define LOAD(r) __m256 s##r = _mm256_loadu2_m128(c1 + 4 * r, c0 + 4 * r);
    EACH_ROW(LOAD)
#undef LOAD
    for (uint32_t block = 0; block < depth; block++) {
        const float (*a)[STEPS] = (const float (*)[STEPS])(const void *)o->a[block][first];
        for (uint32_t step = 0; step < steps; step++) {
            const __m256 b = _mm256_load_ps((const float *)(const void *)o->b[block][step]);
#define STEP(r) s##r = _mm256_fmadd_ps(_mm256_broadcast_ss(&a[r][step]), b, s##r);
            EACH_ROW(STEP)
#undef STEP
        }
    }
    const __m256 quiet = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
#define STORE(r)                                                                                                       \
    s##r = _mm256_blendv_ps(s##r, quiet, _mm256_cmp_ps(s##r, s##r, _CMP_UNORD_Q));                                     \
    _mm256_storeu2_m128(d1 + 4 * r, d0 + 4 * r, s##r);
    EACH_ROW(STORE)
#undef STORE
}

AVX2_INLINE void multiply_integers(const operands *o, uint32_t depth, uint32_t steps, uint32_t first,
                                   interop_cpu_lanes *sum)
{
#define CLEAR(r) __m256i s##r = _mm256_setzero_si256();
    EACH_ROW(CLEAR)
#undef CLEAR
    for (uint32_t block = 0; block < depth; block++) {
        const uint32_t (*a)[STEPS] = &o->a[block][first];
        for (uint32_t step = 0; step < steps; step++) {
            const __m256i b = _mm256_load_si256((const __m256i *)(const void *)o->b[block][step]);
#define STEP(r) s##r = _mm256_add_epi32(s##r, _mm256_madd_epi16(_mm256_set1_epi32((int)a[r][step]), b));
            EACH_ROW(STEP)
#undef STEP
        }
    }
#define STORE(r)                                                                                                       \
    _mm256_storeu2_m128i((__m128i *)(void *)(sum[1].at + 4 * r), (__m128i *)(void *)(sum[0].at + 4 * r), s##r);
    EACH_ROW(STORE)
#undef STORE
}

AVX2_INLINE void multiply_sized(uint32_t kind, uint32_t steps, uint32_t rows, uint32_t depth,
                                const interop_cpu_block_product *p)
{
    operands o;
    widen_a(kind, rows, depth, p, &o);
    widen_b(kind, depth, p, &o);
    for (uint32_t half = 0; half < rows; half++)
        if (kind == INTEROP_CPU_KIND_INT8 || kind == INTEROP_CPU_KIND_INT4)
            multiply_integers(&o, depth, steps, 8 * half, p->sum + 2 * half);
        else
            multiply_floats(&o, depth, steps, 8 * half, p->from + 2 * half, p->sum + 2 * half);
}

/* The usual sizes are constants to the compiler. */
AVX2_INLINE void multiply_kind(uint32_t kind, uint32_t steps, const interop_cpu_block_product *p)
{
    if (p->rows == 2 && p->depth == 2)
        multiply_sized(kind, steps, 2, 2, p);
    else
        multiply_sized(kind, steps, p->rows, p->depth, p);
}

AVX2 static void multiply_f16(const interop_cpu_block_product *p) { multiply_kind(INTEROP_CPU_KIND_F16, 8, p); }
AVX2 static void multiply_bf16(const interop_cpu_block_product *p) { multiply_kind(INTEROP_CPU_KIND_BF16, 8, p); }
AVX2 static void multiply_tf32(const interop_cpu_block_product *p) { multiply_kind(INTEROP_CPU_KIND_TF32, 4, p); }
AVX2 static void multiply_int8(const interop_cpu_block_product *p) { multiply_kind(INTEROP_CPU_KIND_INT8, 8, p); }
AVX2 static void multiply_int4(const interop_cpu_block_product *p) { multiply_kind(INTEROP_CPU_KIND_INT4, 16, p); }

__attribute__((target("avx2,popcnt"))) static void multiply_bits(const interop_cpu_block_product *p)
{
    for (uint32_t row = 0; row < 8 * p->rows; row++)
        for (uint32_t column = 0; column < 8; column++) {
            uint64_t sum = 0;
            for (uint32_t depth = 0; depth < p->depth; depth++) {
                uint64_t a[2], b[2];
                memcpy(a, p->a[row / 8 + depth * p->rows].at + row % 8 * 4, sizeof a);
                memcpy(b, p->b[depth].at + column * 4, sizeof b);
                for (int i = 0; i < 2; i++)
                    sum += (uint64_t)_mm_popcnt_u64(p->conjunction ? a[i] & b[i] : a[i] ^ b[i]);
            }
            p->sum[row / 8 * 2 + column % 2].at[row % 8 * 4 + column / 2] = (uint32_t)sum;
        }
}

bool INTEROP_SYM(cpu_matrix_fast)(const interop_cpu_block_product *product)
{
    /* Every processor with AVX2 converts f16 and counts bits as well. */
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return false;
    switch (product->kind) {
    case INTEROP_CPU_KIND_F16:
        multiply_f16(product);
        return true;
    case INTEROP_CPU_KIND_BF16:
        multiply_bf16(product);
        return true;
    case INTEROP_CPU_KIND_TF32:
        multiply_tf32(product);
        return true;
    case INTEROP_CPU_KIND_INT8:
        multiply_int8(product);
        return true;
    case INTEROP_CPU_KIND_INT4:
        multiply_int4(product);
        return true;
    case INTEROP_CPU_KIND_B1:
        multiply_bits(product);
        return true;
    default:
        return false;
    }
}

#else

bool INTEROP_SYM(cpu_matrix_fast)(const interop_cpu_block_product *product)
{
    (void)product;
    return false;
}

#endif
