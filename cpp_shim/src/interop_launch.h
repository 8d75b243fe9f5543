/* What a generated kernel function is made of: begin, check the arguments, derive the launch, check the rules, run. */
#ifndef INTEROP_LAUNCH_H
#define INTEROP_LAUNCH_H

#include <string.h>

#include "interop/rule.h"
#include "interop_runtime.h"

#define runtime_begin INTEROP_SYM(runtime_begin)
#define runtime_check_pointer INTEROP_SYM(runtime_check_pointer)
#define runtime_check_slice INTEROP_SYM(runtime_check_slice)
#define runtime_check_tensor INTEROP_SYM(runtime_check_tensor)
#define runtime_check_block INTEROP_SYM(runtime_check_block)
#define runtime_no_grid INTEROP_SYM(runtime_no_grid)
#define runtime_no_shared INTEROP_SYM(runtime_no_shared)
#define runtime_derive INTEROP_SYM(runtime_derive)
#define runtime_broken INTEROP_SYM(runtime_broken)
#define runtime_check_limits INTEROP_SYM(runtime_check_limits)

/* What a leaf of a rule is: "len(x)" and its value. Lists end with a NULL text. */
typedef struct interop_leaf {
    const char *text;
    interop_rule_value value;
} interop_leaf;

typedef enum interop_block_kind {
    INTEROP_BLOCK_ANY,
    INTEROP_BLOCK_EXACT,
    INTEROP_BLOCK_UP_TO,
    INTEROP_BLOCK_MULTIPLE_OF
} interop_block_kind;

/* `config` may be NULL. `index` is the kernel's place in the bundle. */
interop_status runtime_begin(interop_launch *launch, const interop_bundle *bundle, const interop_module *module,
                             uint32_t index, const interop_launch_config *config);

/* Addresses, extents, alignment to the element's size; on CUDA also where the memory is. */
interop_status runtime_check_pointer(const interop_launch *launch, const char *name, const void *data,
                                     uint32_t element_size);
interop_status runtime_check_slice(const interop_launch *launch, const char *name, const void *data, uint64_t length,
                                   uint32_t element_size);
interop_status runtime_check_tensor(const interop_launch *launch, const char *name, const void *data, uint32_t rank,
                                    const int64_t *shape, const int64_t *strides, uint32_t element_size, bool written);

/* Takes the block from the contract where the caller gave none, and checks it against the contract. */
interop_status runtime_check_block(interop_launch *launch, interop_block_kind kind, uint32_t x, uint32_t y, uint32_t z);
/* The errors where neither contract nor caller says it. */
interop_status runtime_no_grid(const interop_launch *launch);
interop_status runtime_no_shared(const interop_launch *launch);

/* Grid and block against the device's limits, and shared memory. */
interop_status runtime_check_limits(const interop_launch *launch);

/* The messages of a value that cannot be computed and of a rule that does not hold. */
interop_status runtime_derive(const interop_launch *launch, const char *what, const char *rule,
                              interop_rule_value value, int64_t minimum, int64_t maximum, const char *outside,
                              const interop_leaf *leaves);
interop_status runtime_broken(const interop_launch *launch, const char *rule, const char *note,
                              interop_rule_value value, const interop_leaf *leaves);

#define INTEROP_LEAVES_END {NULL, {0, 0}}

/* `target` becomes the value of `expression`; leaves are {"text", value}, .... */
#define INTEROP_DERIVE(launch, target, what, rule, minimum, maximum, outside, expression, ...)                         \
    do {                                                                                                               \
        const interop_rule_value interop_value = (expression);                                                         \
        if (interop_value.problem || interop_value.value < (minimum) || interop_value.value > (maximum)) {             \
            const interop_leaf interop_leaves[] = {__VA_ARGS__};                                                       \
            return runtime_derive(&(launch), what, rule, interop_value, minimum, maximum, outside, interop_leaves);    \
        }                                                                                                              \
        (target) = interop_value.value;                                                                                \
    } while (0)

#define INTEROP_REQUIRE(launch, rule, note, expression, ...)                                                           \
    do {                                                                                                               \
        const interop_rule_value interop_value = (expression);                                                         \
        if (interop_value.problem || !interop_value.value) {                                                           \
            const interop_leaf interop_leaves[] = {__VA_ARGS__};                                                       \
            return runtime_broken(&(launch), rule, note, interop_value, interop_leaves);                               \
        }                                                                                                              \
    } while (0)

#endif
