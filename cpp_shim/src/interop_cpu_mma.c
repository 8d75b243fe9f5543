/* The CPU device: mma.sync. Products are exact. Sums of f16, bf16 and tf32 products are chains of fused
 * multiply-additions in f32, from the accumulator on in the order of the inner index: each step is rounded once, to
 * nearest even. An accumulator of 16 bits is widened before the chain and rounded once behind it. (Hardware adds
 * several products at a time and truncates; PTX leaves order and rounding open.) Sums of integers are exact and then
 * wrap or saturate; f64 is a chain of fma. NaN becomes 0x7FFFFFFF, or 0x7FFF in 16 bits, as on the hardware.
 */
#include <math.h>
#include <string.h>

#include "interop_cpu_matrix.h"

enum { WARP = INTEROP_CPU_WARP, MAX_DEPTH = 4, MAX_INNER = MAX_DEPTH * 4 * 8 };
static const uint32_t NAN32 = 0x7FFFFFFF;

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value == value ? bits : NAN32;
}

/* Exact. A multiplication puts the exponent right, for subnormals as well. */
static float half_to_float(uint32_t half)
{
    const uint32_t magnitude = half & 0x7FFF, sign = (half & 0x8000) << 16;
    if (magnitude > 0x7BFF)
        return float_of(sign | 0x7F800000 | magnitude << 13);
    const float scaled = float_of(magnitude << 13) * 0x1p112f;
    return sign ? -scaled : scaled;
}

static uint32_t float_to_half(float value) { return INTEROP_SYM(cpu_f64_to_half)((double)value, 0, 0); }

/* ---- one block, in portable C ---- */

/* Elements `word` of a row as numbers; returns how many. */
static uint32_t widen(uint32_t kind, uint32_t word, float *out)
{
    switch (kind) {
    case INTEROP_CPU_KIND_F16:
        out[0] = half_to_float(word & 0xFFFF);
        out[1] = half_to_float(word >> 16);
        return 2;
    case INTEROP_CPU_KIND_BF16:
        out[0] = float_of(word << 16);
        out[1] = float_of(word & 0xFFFF0000);
        return 2;
    default: /* tf32: the low 13 bits do not count */
        out[0] = float_of(word & 0xFFFFE000);
        return 1;
    }
}

static void float_block(const interop_cpu_block_product *p)
{
    float a[16][MAX_DEPTH * 8], b[8][MAX_DEPTH * 8];
    uint32_t inner = 0;
    for (uint32_t depth = 0; depth < p->depth; depth++)
        for (uint32_t n = 0; n < 4; n++) {
            uint32_t got = 0;
            for (uint32_t row = 0; row < 8 * p->rows; row++)
                got = widen(p->kind, p->a[row / 8 + depth * p->rows].at[row % 8 * 4 + n], &a[row][inner]);
            for (uint32_t column = 0; column < 8; column++)
                widen(p->kind, p->b[depth].at[column * 4 + n], &b[column][inner]);
            inner += got;
        }
    for (uint32_t row = 0; row < 8 * p->rows; row++)
        for (uint32_t column = 0; column < 8; column++) {
            const uint32_t r = row / 8 * 2 + column % 2, lane = row % 8 * 4 + column / 2;
            float sum = float_of(p->from[r].at[lane]);
            for (uint32_t k = 0; k < inner; k++)
                sum = fmaf(a[row][k], b[column][k], sum);
            p->sum[r].at[lane] = bits_of(sum);
        }
}

static int32_t element(uint32_t word, uint32_t index, uint32_t bits, bool is_signed)
{
    const uint32_t value = word >> index * bits & ((1u << bits) - 1);
    return is_signed && value >> (bits - 1) ? (int32_t)value - (1 << bits) : (int32_t)value;
}

/* Sums of products of 8 or 4 bits: they fit into 32 bits, for the accumulator is not part of them. */
static void integer_block(const interop_cpu_block_product *p)
{
    const uint32_t bits = p->kind == INTEROP_CPU_KIND_INT8 ? 8 : 4, each = 32 / bits;
    int16_t a[16][MAX_INNER], b[8][MAX_INNER];
    uint32_t inner = 0;
    for (uint32_t depth = 0; depth < p->depth; depth++)
        for (uint32_t n = 0; n < 4; n++)
            for (uint32_t i = 0; i < each; i++, inner++) {
                for (uint32_t row = 0; row < 8 * p->rows; row++)
                    a[row][inner] =
                        (int16_t)element(p->a[row / 8 + depth * p->rows].at[row % 8 * 4 + n], i, bits, p->a_signed);
                for (uint32_t column = 0; column < 8; column++)
                    b[column][inner] = (int16_t)element(p->b[depth].at[column * 4 + n], i, bits, p->b_signed);
            }
    for (uint32_t row = 0; row < 8 * p->rows; row++)
        for (uint32_t column = 0; column < 8; column++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < inner; k++)
                sum += a[row][k] * b[column][k];
            p->sum[row / 8 * 2 + column % 2].at[row % 8 * 4 + column / 2] = (uint32_t)sum;
        }
}

static uint32_t count_bits(uint32_t value)
{
    value -= value >> 1 & 0x55555555;
    value = (value & 0x33333333) + (value >> 2 & 0x33333333);
    return ((value + (value >> 4)) & 0x0F0F0F0F) * 0x01010101 >> 24;
}

static void bit_block(const interop_cpu_block_product *p)
{
    for (uint32_t row = 0; row < 8 * p->rows; row++)
        for (uint32_t column = 0; column < 8; column++) {
            uint32_t sum = 0;
            for (uint32_t k = 0; k < 4 * p->depth; k++) {
                const uint32_t a = p->a[row / 8 + k / 4 * p->rows].at[row % 8 * 4 + k % 4];
                const uint32_t b = p->b[k / 4].at[column * 4 + k % 4];
                sum += count_bits(p->conjunction ? a & b : a ^ b);
            }
            p->sum[row / 8 * 2 + column % 2].at[row % 8 * 4 + column / 2] = sum;
        }
}

/* ---- accumulators ---- */

/* Registers of f32 from an accumulator of 16 bits: `blocks` of 8 rows. */
static void widen_sum(interop_cpu_lanes *sum, const interop_cpu_lanes *c, uint32_t blocks)
{
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t lane = 0; lane < WARP; lane++)
            for (uint32_t i = 0; i < 2; i++) {
                const float value = half_to_float(c[block].at[lane] >> 16 * i & 0xFFFF);
                memcpy(&sum[2 * block + i].at[lane], &value, sizeof value);
            }
}

static void narrow_sum(interop_cpu_lanes *d, const interop_cpu_lanes *sum, uint32_t blocks)
{
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t lane = 0; lane < WARP; lane++)
            d[block].at[lane] = float_to_half(float_of(sum[2 * block].at[lane])) |
                                float_to_half(float_of(sum[2 * block + 1].at[lane])) << 16;
}

/* The accumulator and the exact sum: wrapped, or clamped to what 32 bits hold. */
static void add_integers(interop_cpu_lanes *d, const interop_cpu_lanes *c, const interop_cpu_lanes *sum,
                         uint32_t registers, bool saturate)
{
    for (uint32_t r = 0; r < registers; r++)
        for (uint32_t lane = 0; lane < WARP; lane++) {
            const uint32_t wrapped = c[r].at[lane] + sum[r].at[lane];
            if (saturate) {
                const int64_t total = (int64_t)(int32_t)c[r].at[lane] + (int32_t)sum[r].at[lane];
                d[r].at[lane] = total > INT32_MAX ? INT32_MAX : total < INT32_MIN ? UINT32_C(1) << 31 : wrapped;
            } else {
                d[r].at[lane] = wrapped;
            }
        }
}

/* ---- the other shapes ---- */

static double double_of(const interop_cpu_lanes *rows, uint32_t lane)
{
    const uint64_t bits = interop_cpu_wide(rows, lane);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* m8n8k4 of f64. */
static void double_block(interop_cpu_lanes *words)
{
    const interop_cpu_lanes *a = words + 4, *b = words + 6, *c = words + 8;
    for (uint32_t lane = 0; lane < WARP; lane++)
        for (uint32_t i = 0; i < 2; i++) {
            double sum = double_of(c + 2 * i, lane);
            for (uint32_t k = 0; k < 4; k++)
                sum = fma(double_of(a, lane / 4 * 4 + k), double_of(b, (lane % 4 * 2 + i) * 4 + k), sum);
            uint64_t bits;
            memcpy(&bits, &sum, sizeof bits);
            interop_cpu_set_wide(words + 2 * i, lane, bits);
        }
}

static float quad_element(const interop_cpu_lanes *registers, uint32_t lane, uint32_t index)
{
    return half_to_float(registers[index / 2].at[lane] >> index % 2 * 16 & 0xFFFF);
}

/* Row and column of accumulator `i` of m8n8k4 of f16 (PTX ISA 9.7.14.5.1). */
static uint32_t quad_row(uint32_t lane, uint32_t i, bool half)
{
    return (lane < 16 ? 0 : 4) + (half ? lane % 4 : (lane & 1) + (i & 2));
}

static uint32_t quad_column(uint32_t lane, uint32_t i, bool half) { return half ? i : (i & 4) + (lane & 2) + (i & 1); }

/* m8n8k4 of f16: lanes 4q ... 4q + 3 and 4q + 16 ... 4q + 19 have product q. */
static void quad_product(uint32_t code, uint32_t q, interop_cpu_lanes *d, const interop_cpu_lanes *a,
                         const interop_cpu_lanes *b, const interop_cpu_lanes *c)
{
    const bool half_in = code & INTEROP_CPU_C_HALF, half_out = code & INTEROP_CPU_D_HALF;
    float left[8][4], right[4][8], sum[8][8];
    for (uint32_t n = 0; n < 8; n++) {
        const uint32_t lane = 4 * q + n % 4 + (n < 4 ? 0 : 16), high = n < 4 ? 0 : 4;
        for (uint32_t i = 0; i < 4; i++) {
            if (code & INTEROP_CPU_A_COLUMNS)
                left[i + high][n % 4] = quad_element(a, lane, i);
            else
                left[n][i] = quad_element(a, lane, i);
            if (code & INTEROP_CPU_B_ROWS)
                right[n % 4][i + high] = quad_element(b, lane, i);
            else
                right[i][n] = quad_element(b, lane, i);
        }
        for (uint32_t i = 0; i < 8; i++)
            sum[quad_row(lane, i, half_in)][quad_column(lane, i, half_in)] =
                half_in ? quad_element(c, lane, i) : float_of(c[i].at[lane]);
    }
    for (uint32_t row = 0; row < 8; row++)
        for (uint32_t column = 0; column < 8; column++)
            for (uint32_t k = 0; k < 4; k++)
                sum[row][column] = fmaf(left[row][k], right[k][column], sum[row][column]);
    for (uint32_t n = 0; n < 8; n++) {
        const uint32_t lane = 4 * q + n % 4 + (n < 4 ? 0 : 16);
        for (uint32_t i = 0; i < 8; i++) {
            const float value = sum[quad_row(lane, i, half_out)][quad_column(lane, i, half_out)];
            if (!half_out)
                d[i].at[lane] = bits_of(value);
            else if (i % 2 == 0)
                d[i / 2].at[lane] = float_to_half(value);
            else
                d[i / 2].at[lane] |= float_to_half(value) << 16;
        }
    }
}

/* ---- everything together ---- */

static void multiply_block(uint32_t code, interop_cpu_block_product *p, interop_cpu_lanes *d,
                           const interop_cpu_lanes *c)
{
    interop_cpu_lanes sum[4];
    p->from = c;
    p->sum = sum;
    switch (p->kind) {
    case INTEROP_CPU_KIND_INT8:
    case INTEROP_CPU_KIND_INT4:
        if (!INTEROP_SYM(cpu_matrix_fast)(p))
            integer_block(p);
        add_integers(d, c, p->sum, 2 * p->rows, code & INTEROP_CPU_SATURATE);
        break;
    case INTEROP_CPU_KIND_B1:
        if (!INTEROP_SYM(cpu_matrix_fast)(p))
            bit_block(p);
        add_integers(d, c, p->sum, 2 * p->rows, false);
        break;
    default:
        if (code & INTEROP_CPU_C_HALF) {
            widen_sum(sum, c, p->rows);
            p->from = sum;
        }
        if (!(code & INTEROP_CPU_D_HALF))
            p->sum = d;
        if (!INTEROP_SYM(cpu_matrix_fast)(p))
            float_block(p);
        if (code & INTEROP_CPU_D_HALF)
            narrow_sum(d, sum, p->rows);
        break;
    }
}

void INTEROP_SYM(cpu_matrix_multiply)(uint32_t code, interop_cpu_lanes *words)
{
    const uint32_t kind = interop_cpu_matrix_field(code, INTEROP_CPU_AT_KIND, 4);
    if (kind == INTEROP_CPU_KIND_F64) {
        double_block(words);
        return;
    }
    if (kind == INTEROP_CPU_KIND_QUAD) {
        const interop_cpu_lanes *a = words + (code & INTEROP_CPU_D_HALF ? 4 : 8);
        for (uint32_t q = 0; q < 4; q++)
            quad_product(code, q, words, a, a + 2, a + 4);
        return;
    }
    const uint32_t rows = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_ROWS, 2);
    const uint32_t columns = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_COLUMNS, 2);
    const uint32_t depth = 1u << interop_cpu_matrix_field(code, INTEROP_CPU_AT_DEPTH, 2);
    const uint32_t each = rows > 1 ? 2 : 1; /* blocks of 8 rows that are multiplied together */
    const uint32_t c_words = code & INTEROP_CPU_C_HALF ? each : 2 * each;
    const uint32_t d_words = code & INTEROP_CPU_D_HALF ? each : 2 * each;
    const interop_cpu_lanes *a = words + rows / each * columns * d_words, *b = a + rows * depth,
                            *c = b + columns * depth;
    for (uint32_t row = 0; row < rows / each; row++)
        for (uint32_t column = 0; column < columns; column++) {
            interop_cpu_block_product product = {
                .kind = kind,
                .rows = each,
                .depth = depth,
                .a_signed = code & INTEROP_CPU_A_SIGNED,
                .b_signed = code & INTEROP_CPU_B_SIGNED,
                .conjunction = code & INTEROP_CPU_BITS_AND,
                .a = a + row * each * depth,
                .b = b + column * depth,
            };
            const uint32_t index = row * columns + column;
            multiply_block(code, &product, words + index * d_words, c + index * c_words);
        }
}
