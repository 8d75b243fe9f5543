/* The CPU device: arithmetic that LLVM does not have. Directed rounding, and half formats by their bits.
 *
 * `mode` is 0: to nearest even, 1: towards zero, 2: towards minus infinity, 3: towards plus infinity.
 * Nothing here may be contracted: no product is added to within one expression.
 */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "interop_cpu_impl.h"

enum { NEAREST, ZERO, DOWN, UP };

/* `volatile` keeps the compiler from moving or folding the operation across the changes of the rounding mode. */
static int set_rounding(uint32_t mode)
{
    static const int modes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    const int before = fegetround();
    fesetround(modes[mode & 3]);
    return before;
}

#define ROUNDED(type, expression)                                                                                      \
    const int before = set_rounding(mode);                                                                             \
    volatile type result = (expression);                                                                               \
    fesetround(before);                                                                                                \
    return result

#define BINARY(name, type, operation)                                                                                  \
    type INTEROP_SYM(name)(type a, type b, uint32_t mode)                                                              \
    {                                                                                                                  \
        volatile type left = a, right = b;                                                                             \
        ROUNDED(type, left operation right);                                                                           \
    }

BINARY(cpu_add_f32, float, +)
BINARY(cpu_sub_f32, float, -)
BINARY(cpu_mul_f32, float, *)
BINARY(cpu_div_f32, float, /)
BINARY(cpu_add_f64, double, +)
BINARY(cpu_sub_f64, double, -)
BINARY(cpu_mul_f64, double, *)
BINARY(cpu_div_f64, double, /)

float INTEROP_SYM(cpu_fma_f32)(float a, float b, float c, uint32_t mode)
{
    volatile float x = a, y = b, z = c;
    ROUNDED(float, fmaf(x, y, z));
}

double INTEROP_SYM(cpu_fma_f64)(double a, double b, double c, uint32_t mode)
{
    volatile double x = a, y = b, z = c;
    ROUNDED(double, fma(x, y, z));
}

float INTEROP_SYM(cpu_sqrt_f32)(float a, uint32_t mode)
{
    volatile float x = a;
    ROUNDED(float, sqrtf(x));
}

double INTEROP_SYM(cpu_sqrt_f64)(double a, uint32_t mode)
{
    volatile double x = a;
    ROUNDED(double, sqrt(x));
}

#define CONVERSION(name, to, from)                                                                                     \
    to INTEROP_SYM(name)(from a, uint32_t mode)                                                                        \
    {                                                                                                                  \
        volatile from x = a;                                                                                           \
        ROUNDED(to, (to)x);                                                                                            \
    }

CONVERSION(cpu_f64_to_f32, float, double)
CONVERSION(cpu_s64_to_f32, float, int64_t)
CONVERSION(cpu_s64_to_f64, double, int64_t)

/* Compilers split the conversion of a u64 into steps that round twice in a directed mode; this rounds once. */
#define UNSIGNED_CONVERSION(name, to)                                                                                  \
    to INTEROP_SYM(name)(uint64_t a, uint32_t mode)                                                                    \
    {                                                                                                                  \
        const int shift = (int)(a >> 63);                                                                              \
        const uint64_t sticky = shift && (a & 1);                                                                      \
        volatile int64_t x = (int64_t)(a >> shift | sticky);                                                           \
        const int before = set_rounding(mode);                                                                         \
        volatile to result = (to)x;                                                                                    \
        fesetround(before);                                                                                            \
        return shift ? result * 2 : result;                                                                            \
    }

UNSIGNED_CONVERSION(cpu_u64_to_f32, float)
UNSIGNED_CONVERSION(cpu_u64_to_f64, double)

/* ---- half formats ---- */

/* A format of at most 16 bits: significant digits, exponents of the smallest subnormal and of the largest numbers, and
 * the bits of infinity without the sign. */
typedef struct {
    int digits, lowest, highest;
    uint16_t infinity;
} narrow_format;

enum { F16, BF16, E4M3, E5M2 };
static const narrow_format formats[] = {
    {11, -24, 15, 0x7c00}, {8, -133, 127, 0x7f80}, {4, -9, 8, 0x7f}, {3, -16, 15, 0x7c}};

/* Rounds |x| = significand * 2^exponent, with `sticky` for anything below. The result has no sign. */
static uint16_t pack(const narrow_format *format, bool sign, uint64_t significand, int exponent, bool sticky,
                     uint32_t mode)
{
    const int digits = format->digits, lowest = format->lowest;
    if (significand == 0 && !sticky)
        return 0;
    int length = 0;
    while (length < 64 && significand >> length)
        length++;
    /* Unit of the last place of the result. */
    int unit = exponent + length - digits;
    if (unit < lowest)
        unit = lowest;
    const int shift = unit - exponent;
    uint64_t kept = 0;
    bool half = false;
    if (shift <= 0) {
        kept = significand << -shift;
    } else if (shift <= 64) {
        kept = shift == 64 ? 0 : significand >> shift;
        half = significand >> (shift - 1) & 1;
        sticky |= (significand & ((UINT64_C(1) << (shift - 1)) - 1)) != 0;
    } else {
        sticky = true;
    }
    const bool inexact = half || sticky;
    const bool up = mode == NEAREST ? half && (sticky || (kept & 1))
                    : mode == DOWN  ? inexact && sign
                    : mode == UP    ? inexact && !sign
                                    : false;
    kept += up;
    if (kept >> digits) {
        kept >>= 1;
        unit++;
    }
    if (kept >> (digits - 1) == 0)
        return (uint16_t)kept; /* subnormal or zero */
    const int top = unit + digits - 1;
    if (top > format->highest) {
        const bool to_infinity = mode == NEAREST || (mode == DOWN && sign) || (mode == UP && !sign);
        return (uint16_t)(to_infinity ? format->infinity : format->infinity - 1);
    }
    const uint64_t biased = (uint64_t)(top - lowest - digits + 2);
    return (uint16_t)(biased << (digits - 1) | (kept & ((UINT64_C(1) << (digits - 1)) - 1)));
}

/* A number that is not NaN, rounded, without its sign. */
static uint16_t round_magnitude(const narrow_format *format, double a, uint32_t mode)
{
    uint64_t bits;
    memcpy(&bits, &a, sizeof bits);
    const bool sign = bits >> 63;
    const int exponent = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7ff)
        return format->infinity;
    if (exponent == 0)
        return pack(format, sign, fraction, -1074, false, mode);
    return pack(format, sign, fraction | UINT64_C(1) << 52, exponent - 1075, false, mode);
}

uint16_t INTEROP_SYM(cpu_f64_to_half)(double a, uint32_t bfloat, uint32_t mode)
{
    if (isnan(a))
        return 0x7fff;
    const uint16_t magnitude = round_magnitude(&formats[bfloat ? BF16 : F16], a, mode);
    return (uint16_t)(magnitude | (signbit(a) ? 0x8000 : 0));
}

/* To nearest even, what is out of range to the largest finite number. */
uint32_t INTEROP_SYM(cpu_f64_to_f8)(double a, uint32_t e5m2)
{
    if (isnan(a))
        return 0x7f;
    const narrow_format *format = &formats[e5m2 ? E5M2 : E4M3];
    uint32_t magnitude = round_magnitude(format, a, NEAREST);
    if (magnitude >= format->infinity)
        magnitude = format->infinity - 1u;
    return magnitude | (signbit(a) ? 0x80 : 0);
}

uint16_t INTEROP_SYM(cpu_u64_to_half)(uint64_t a, uint32_t bfloat, uint32_t mode)
{
    return pack(&formats[bfloat ? BF16 : F16], false, a, 0, false, mode);
}

uint16_t INTEROP_SYM(cpu_s64_to_half)(int64_t a, uint32_t bfloat, uint32_t mode)
{
    const uint64_t magnitude = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
    const uint16_t half = pack(&formats[bfloat ? BF16 : F16], a < 0, magnitude, 0, false, mode);
    return (uint16_t)(half | (a < 0 ? 0x8000 : 0));
}

/* a * b + c of half operands, rounded once. The product of two is exact in double; the sum is rounded to odd, which
 * the second rounding cannot tell from the exact sum. */
uint16_t INTEROP_SYM(cpu_fma_half)(double a, double b, double c, uint32_t bfloat, uint32_t mode)
{
    const volatile double product = a * b;
    const volatile double sum = product + c;
    if (!isfinite(sum))
        return INTEROP_SYM(cpu_f64_to_half)(sum, bfloat, mode);
    const volatile double back = sum - product;
    const volatile double rest = sum - back;
    const volatile double low = c - back, high = product - rest;
    const volatile double error = high + low;
    if (sum == 0) { /* an exact zero takes its sign from the rounding mode unless both parts agree */
        const bool negative = signbit(product) && signbit(c);
        const bool zeros = product == 0 && c == 0 && (signbit(product) != 0) == (signbit(c) != 0);
        return (uint16_t)((zeros ? negative : mode == DOWN) << 15);
    }
    uint64_t bits;
    const double value = sum;
    memcpy(&bits, &value, sizeof bits);
    if (error != 0 && (bits & 1) == 0)
        bits += (error > 0) == (value > 0) ? 1 : UINT64_MAX;
    double odd;
    memcpy(&odd, &bits, sizeof odd);
    return INTEROP_SYM(cpu_f64_to_half)(odd, bfloat, mode);
}

/* ---- bits ---- */

/* The position of the bit of `mask` that is the |offset|-th set one from bit `base` on, upwards or, where `offset` is
 * negative, downwards; `base` itself where `offset` is 0 and the bit is set; all ones when there is none. */
uint32_t INTEROP_SYM(cpu_fns)(uint32_t mask, uint32_t base, int32_t offset)
{
    int64_t left = offset == 0 ? 1 : offset < 0 ? -(int64_t)offset : offset;
    const int64_t step = offset < 0 ? -1 : 1;
    for (int64_t position = base; position >= 0 && position < 32; position += step) {
        if (mask >> position & 1 && --left == 0)
            return (uint32_t)position;
        if (offset == 0)
            break;
    }
    return UINT32_MAX;
}
