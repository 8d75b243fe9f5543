/* Arithmetic of launch rules and preconditions: checked signed 64-bit, for code generated from a kernel's description.
 *
 * A value carries the problem, if any, that computing it met. Operators hand on the left operand's problem before the
 * right one's; `and` and `or` drop the problem of an operand that short circuit skips. So an expression is a plain
 * nest of calls whose order of evaluation does not matter, and it gives the verdict that Python gives.
 *
 * C11 and C++17. Everything is static inline: the header belongs to no library.
 */
#ifndef INTEROP_RULE_H
#define INTEROP_RULE_H

#include <stddef.h>
#include <stdint.h>

#if !defined(INTEROP_RULE_BUILTINS) && (defined(__GNUC__) || defined(__clang__))
#define INTEROP_RULE_BUILTINS 1
#endif

enum { INTEROP_RULE_OK = 0, INTEROP_RULE_OVERFLOW = 1, INTEROP_RULE_DIVISION_BY_ZERO = 2 };

/* An integer, or 0 and 1 for a condition. `value` is 0 when there is a problem. */
typedef struct interop_rule_value {
    int64_t value;
    int32_t problem;
} interop_rule_value;

/* The bytes of an array, from the lowest element to past the highest one; begin == end when it has no elements. */
typedef struct interop_rule_extent {
    uint64_t begin;
    uint64_t end;
    int32_t problem;
} interop_rule_extent;

/* What messages say after the rule's text; empty without a problem. */
static inline const char *interop_rule_problem_text(int32_t problem)
{
    return problem == INTEROP_RULE_OVERFLOW           ? "overflows 64 bits"
           : problem == INTEROP_RULE_DIVISION_BY_ZERO ? "divides by zero"
                                                      : "";
}

static inline interop_rule_value interop_rule_i64(int64_t value)
{
    interop_rule_value result = {0, INTEROP_RULE_OK};
    result.value = value;
    return result;
}

static inline interop_rule_value interop_rule_problem(int32_t problem)
{
    interop_rule_value result = {0, INTEROP_RULE_OK};
    result.problem = problem;
    return result;
}

static inline interop_rule_value interop_rule_u64(uint64_t value)
{
    return value > (uint64_t)INT64_MAX ? interop_rule_problem(INTEROP_RULE_OVERFLOW) : interop_rule_i64((int64_t)value);
}

/* -- checked primitives: nonzero when the result does not fit ------------------------------------------------------ */

static inline int interop_rule_add_overflows(int64_t a, int64_t b, int64_t *result)
{
#if defined(INTEROP_RULE_BUILTINS) && INTEROP_RULE_BUILTINS
    return __builtin_add_overflow(a, b, result) ? 1 : 0;
#else
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) {
        return 1;
    }
    *result = a + b;
    return 0;
#endif
}

static inline int interop_rule_sub_overflows(int64_t a, int64_t b, int64_t *result)
{
#if defined(INTEROP_RULE_BUILTINS) && INTEROP_RULE_BUILTINS
    return __builtin_sub_overflow(a, b, result) ? 1 : 0;
#else
    if (b < 0 ? a > INT64_MAX + b : a < INT64_MIN + b) {
        return 1;
    }
    *result = a - b;
    return 0;
#endif
}

static inline int interop_rule_mul_overflows(int64_t a, int64_t b, int64_t *result)
{
#if defined(INTEROP_RULE_BUILTINS) && INTEROP_RULE_BUILTINS
    return __builtin_mul_overflow(a, b, result) ? 1 : 0;
#else
    if (a != 0 && b != 0) {
        if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a) : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a)) {
            return 1;
        }
    }
    *result = a * b;
    return 0;
#endif
}

/* -- integers ------------------------------------------------------------------------------------------------------ */

#define INTEROP_RULE_HAND_ON(a, b)                                                                                     \
    if ((a).problem) {                                                                                                 \
        return (a);                                                                                                    \
    }                                                                                                                  \
    if ((b).problem) {                                                                                                 \
        return (b);                                                                                                    \
    }

static inline interop_rule_value interop_rule_add(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    int64_t result = 0;
    return interop_rule_add_overflows(a.value, b.value, &result) ? interop_rule_problem(INTEROP_RULE_OVERFLOW)
                                                                 : interop_rule_i64(result);
}

static inline interop_rule_value interop_rule_sub(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    int64_t result = 0;
    return interop_rule_sub_overflows(a.value, b.value, &result) ? interop_rule_problem(INTEROP_RULE_OVERFLOW)
                                                                 : interop_rule_i64(result);
}

static inline interop_rule_value interop_rule_mul(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    int64_t result = 0;
    return interop_rule_mul_overflows(a.value, b.value, &result) ? interop_rule_problem(INTEROP_RULE_OVERFLOW)
                                                                 : interop_rule_i64(result);
}

static inline interop_rule_value interop_rule_neg(interop_rule_value a)
{
    return interop_rule_sub(interop_rule_i64(0), a);
}

/* a // b: rounds down. */
static inline interop_rule_value interop_rule_floor_div(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    if (b.value == 0) {
        return interop_rule_problem(INTEROP_RULE_DIVISION_BY_ZERO);
    }
    if (b.value == -1) {
        return interop_rule_neg(a);
    }
    int64_t quotient = a.value / b.value;
    if (a.value % b.value != 0 && (a.value < 0) != (b.value < 0)) {
        quotient -= 1;
    }
    return interop_rule_i64(quotient);
}

/* ceil_div(a, b): rounds up. */
static inline interop_rule_value interop_rule_ceil_div(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    if (b.value == 0) {
        return interop_rule_problem(INTEROP_RULE_DIVISION_BY_ZERO);
    }
    if (b.value == -1) {
        return interop_rule_neg(a);
    }
    int64_t quotient = a.value / b.value;
    if (a.value % b.value != 0 && (a.value < 0) == (b.value < 0)) {
        quotient += 1;
    }
    return interop_rule_i64(quotient);
}

/* a % b: has the sign of b. */
static inline interop_rule_value interop_rule_mod(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    if (b.value == 0) {
        return interop_rule_problem(INTEROP_RULE_DIVISION_BY_ZERO);
    }
    if (b.value == -1) { /* INT64_MIN % -1 is undefined in C */
        return interop_rule_i64(0);
    }
    int64_t remainder = a.value % b.value;
    if (remainder != 0 && (remainder < 0) != (b.value < 0)) {
        remainder += b.value;
    }
    return interop_rule_i64(remainder);
}

static inline interop_rule_value interop_rule_min(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return b.value < a.value ? b : a;
}

static inline interop_rule_value interop_rule_max(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return b.value > a.value ? b : a;
}

/* -- conditions ---------------------------------------------------------------------------------------------------- */

static inline interop_rule_value interop_rule_lt(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return interop_rule_i64(a.value < b.value ? 1 : 0);
}

static inline interop_rule_value interop_rule_le(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return interop_rule_i64(a.value <= b.value ? 1 : 0);
}

static inline interop_rule_value interop_rule_gt(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return interop_rule_i64(a.value > b.value ? 1 : 0);
}

static inline interop_rule_value interop_rule_ge(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return interop_rule_i64(a.value >= b.value ? 1 : 0);
}

static inline interop_rule_value interop_rule_eq(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return interop_rule_i64(a.value == b.value ? 1 : 0);
}

static inline interop_rule_value interop_rule_ne(interop_rule_value a, interop_rule_value b)
{
    INTEROP_RULE_HAND_ON(a, b)
    return interop_rule_i64(a.value != b.value ? 1 : 0);
}

static inline interop_rule_value interop_rule_not(interop_rule_value a)
{
    return a.problem ? a : interop_rule_i64(a.value ? 0 : 1);
}

static inline interop_rule_value interop_rule_and(interop_rule_value a, interop_rule_value b)
{
    return a.problem || !a.value ? a : b;
}

static inline interop_rule_value interop_rule_or(interop_rule_value a, interop_rule_value b)
{
    return a.problem || a.value ? a : b;
}

/* -- arrays -------------------------------------------------------------------------------------------------------- */

/* Nonzero only when the rule holds: no problem, and true. */
static inline int interop_rule_holds(interop_rule_value a) { return !a.problem && a.value ? 1 : 0; }

/* aligned(x, bytes) */
static inline interop_rule_value interop_rule_aligned(uint64_t address, uint64_t bytes)
{
    return interop_rule_i64(address % bytes == 0 ? 1 : 0);
}

/* The bytes of a strided array. Extents and strides count elements; strides may be negative. */
static inline interop_rule_extent interop_rule_tensor_extent(uint64_t address, size_t rank, const int64_t *shape,
                                                             const int64_t *strides, int64_t element_bytes)
{
    interop_rule_extent result = {0, 0, INTEROP_RULE_OK};
    result.begin = address;
    result.end = address;
    for (size_t axis = 0; axis < rank; ++axis) {
        if (shape[axis] <= 0) {
            return result;
        }
    }
    int64_t lowest = 0, highest = 0;
    int bad = 0;
    for (size_t axis = 0; axis < rank && !bad; ++axis) {
        int64_t reach = 0;
        bad = interop_rule_mul_overflows(shape[axis] - 1, strides[axis], &reach);
        if (!bad) {
            int64_t *bound = reach < 0 ? &lowest : &highest;
            bad = interop_rule_add_overflows(*bound, reach, bound);
        }
    }
    bad = bad || interop_rule_mul_overflows(lowest, element_bytes, &lowest) ||
          interop_rule_add_overflows(highest, 1, &highest) ||
          interop_rule_mul_overflows(highest, element_bytes, &highest);
    if (!bad) {
        const uint64_t below = 0u - (uint64_t)lowest;
        bad = below > address || (uint64_t)highest > UINT64_MAX - address;
        if (!bad) {
            result.begin = address - below;
            result.end = address + (uint64_t)highest;
        }
    }
    result.problem = bad ? INTEROP_RULE_OVERFLOW : INTEROP_RULE_OK;
    return result;
}

/* The bytes of a slice. For a bare pointer whose length nobody knows, `length` is 1. */
static inline interop_rule_extent interop_rule_slice_extent(uint64_t address, uint64_t length, int64_t element_bytes)
{
    if (length > (uint64_t)INT64_MAX) {
        interop_rule_extent result = {0, 0, INTEROP_RULE_OVERFLOW};
        return result;
    }
    const int64_t shape = (int64_t)length, stride = 1;
    return interop_rule_tensor_extent(address, 1, &shape, &stride, element_bytes);
}

/* How many bytes two arrays share. */
static inline interop_rule_value interop_rule_overlap(interop_rule_extent a, interop_rule_extent b)
{
    if (a.problem || b.problem) {
        return interop_rule_problem(a.problem ? a.problem : b.problem);
    }
    if (a.begin == a.end || b.begin == b.end) {
        return interop_rule_i64(0);
    }
    const uint64_t begin = a.begin > b.begin ? a.begin : b.begin;
    const uint64_t end = a.end < b.end ? a.end : b.end;
    return end > begin ? interop_rule_u64(end - begin) : interop_rule_i64(0);
}

/* disjoint(a, b): no byte lies in both. Conservative: gaps between the elements of an array count as its bytes. */
static inline interop_rule_value interop_rule_disjoint(interop_rule_extent a, interop_rule_extent b)
{
    const interop_rule_value shared = interop_rule_overlap(a, b);
    if (a.problem || b.problem) {
        return shared;
    }
    return interop_rule_i64(!shared.problem && shared.value == 0 ? 1 : 0);
}

#undef INTEROP_RULE_HAND_ON

#endif
