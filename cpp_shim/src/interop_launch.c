/* The checks of a launch. Texts of broken rules are those of Python (abi.rules), word for word. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "interop_cuda.h"
#include "interop_launch.h"

static const char axes[] = "xyz";

/* ---- Messages ---- */

/* "len(x) = 3, len(y) = 4" */
static void format_leaves(char *text, size_t size, const interop_leaf *leaf)
{
    size_t used = 0;
    *text = '\0';
    for (; leaf->text && used < size; leaf++) {
        const char *separator = used ? ", " : "";
        int written;
        if (leaf->value.problem)
            written = snprintf(text + used, size - used, "%s%s = (too large)", separator, leaf->text);
        else
            written = snprintf(text + used, size - used, "%s%s = %" PRId64, separator, leaf->text, leaf->value.value);
        used += written > 0 ? (size_t)written : 0;
    }
}

interop_status runtime_broken(const interop_launch *launch, const char *rule, const char *note,
                              interop_rule_value value, const interop_leaf *leaves)
{
    char values[2048];
    const char *open = *note ? " (" : "", *close = *note ? ")" : "";
    format_leaves(values, sizeof values, leaves);
    if (value.problem)
        return runtime_fail(INTEROP_ERROR_CONTRACT, "%s: requires %s, but it %s%s%s%s%s%s", launch->kernel->name, rule,
                            interop_rule_problem_text(value.problem), *values ? ": " : "", values, open, note, close);
    return runtime_fail(INTEROP_ERROR_CONTRACT, "%s: requires %s%s%s%s%s%s", launch->kernel->name, rule,
                        *values ? ", but " : "", values, open, note, close);
}

interop_status runtime_derive(const interop_launch *launch, const char *what, const char *rule,
                              interop_rule_value value, int64_t minimum, int64_t maximum, const char *outside,
                              const interop_leaf *leaves)
{
    char values[2048];
    const char *problem = value.problem ? interop_rule_problem_text(value.problem) : outside;
    if (!value.problem && value.value >= minimum && value.value <= maximum)
        return INTEROP_OK;
    format_leaves(values, sizeof values, leaves);
    return runtime_fail(INTEROP_ERROR_CONTRACT, "%s: %s = %s %s%s%s", launch->kernel->name, what, rule, problem,
                        *values ? ": " : "", values);
}

/* ---- Begin ---- */

/* Whether dimensions are given. {4} is {4, 1, 1}: C made the zeros at its end, unless the caller says otherwise. */
static bool take(const interop_dim3 *from, bool exact, int64_t to[3])
{
    if (!from)
        return false;
    to[0] = from->x;
    to[1] = exact || from->y || from->z ? from->y : 1;
    to[2] = exact || from->z ? from->z : 1;
    return true;
}

interop_status runtime_begin(interop_launch *launch, const interop_bundle *bundle, const interop_module *module,
                             uint32_t index, const interop_launch_config *config)
{
    static const interop_launch_config from_contract = {NULL, NULL, 0, NULL, false};
    memset(launch, 0, sizeof *launch);
    launch->kernel = &bundle->kernels[index];
    launch->module = module;
    launch->index = index;
    if (!module)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: module is NULL", launch->kernel->name);
    if (!config)
        config = &from_contract;
    launch->stream = config->stream;
    launch->grid_given = take(config->grid, config->exact, launch->grid);
    launch->block_given = take(config->block, config->exact, launch->block);
    launch->shared_given = config->shared_bytes != 0;
    launch->shared = config->shared_bytes;
    return INTEROP_OK;
}

/* ---- Arrays ---- */

static interop_status misaligned(const interop_launch *launch, const char *name, const void *data, uint32_t size)
{
    return runtime_fail(INTEROP_ERROR_CONTRACT, "%s: requires aligned(%s, %u), but address(%s) %% %u = %u",
                        launch->kernel->name, name, (unsigned)size, name, (unsigned)size,
                        (unsigned)((uintptr_t)data % size));
}

interop_status runtime_check_pointer(const interop_launch *launch, const char *name, const void *data,
                                     uint32_t element_size)
{
    if ((uintptr_t)data % element_size)
        return misaligned(launch, name, data, element_size);
    return data && launch->module->cuda ? cuda_check_pointer(launch, name, data) : INTEROP_OK;
}

interop_status runtime_check_slice(const interop_launch *launch, const char *name, const void *data, uint64_t length,
                                   uint32_t element_size)
{
    if (length > (uint64_t)INT64_MAX / element_size)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_RANGE,
                            "%s: len(%s) = %" PRIu64 " is too large for elements of %u bytes", launch->kernel->name,
                            name, length, (unsigned)element_size);
    if (!data && length)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: %s is NULL, but len(%s) = %" PRIu64, launch->kernel->name,
                            name, name, length);
    return length ? runtime_check_pointer(launch, name, data, element_size) : INTEROP_OK;
}

/* Whether two indices may name the same element: each axis must step over all that the smaller ones reach. */
static bool overlaps_itself(uint32_t rank, const int64_t *shape, const int64_t *strides)
{
    uint64_t steps[8], extents[8], reach = 0;
    uint32_t count = 0, axis, i;
    for (axis = 0; axis < rank; axis++) { /* sorted by insertion, the smallest step first */
        const uint64_t step = strides[axis] < 0 ? 0 - (uint64_t)strides[axis] : (uint64_t)strides[axis];
        if (shape[axis] <= 1)
            continue;
        for (i = count++; i > 0 && steps[i - 1] > step; i--) {
            steps[i] = steps[i - 1];
            extents[i] = extents[i - 1];
        }
        steps[i] = step;
        extents[i] = (uint64_t)shape[axis];
    }
    for (i = 0; i < count; i++) {
        if (steps[i] <= reach)
            return true;
        reach = extents[i] - 1 > (UINT64_MAX - reach) / steps[i] ? UINT64_MAX : reach + steps[i] * (extents[i] - 1);
    }
    return false;
}

/* "(2, 3)", and "(3,)" for one, as Python prints them. */
static void format_tuple(char *text, size_t size, uint32_t count, const int64_t *values)
{
    size_t used = 0;
    uint32_t i;
    for (i = 0; i < count && used < size; i++) {
        const char *open = i ? ", " : "(", *close = i + 1 < count ? "" : count == 1 ? ",)" : ")";
        const int written = snprintf(text + used, size - used, "%s%" PRId64 "%s", open, values[i], close);
        used += written > 0 ? (size_t)written : 0;
    }
}

static interop_status shares_memory(const interop_launch *launch, const char *name, uint32_t rank, const int64_t *shape,
                                    const int64_t *strides)
{
    char extents[192], steps[192];
    format_tuple(extents, sizeof extents, rank, shape);
    format_tuple(steps, sizeof steps, rank, strides);
    return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE,
                        "%s: %s is written, and elements of the array share memory (shape %s, strides %s elements): "
                        "make a copy, launch on that, and copy the result back",
                        launch->kernel->name, name, extents, steps);
}

interop_status runtime_check_tensor(const interop_launch *launch, const char *name, const void *data, uint32_t rank,
                                    const int64_t *shape, const int64_t *strides, uint32_t element_size, bool written)
{
    uint64_t length = 1;
    uint32_t axis;
    bool empty = false;
    for (axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0)
            return runtime_fail(INTEROP_ERROR_ARGUMENT_RANGE, "%s: dim(%s, %u) = %" PRId64 " is negative",
                                launch->kernel->name, name, (unsigned)axis, shape[axis]);
        empty = empty || shape[axis] == 0;
    }
    for (axis = 0; axis < rank && !empty; axis++) {
        if ((uint64_t)shape[axis] > (uint64_t)INT64_MAX / element_size / length)
            return runtime_fail(INTEROP_ERROR_ARGUMENT_RANGE, "%s: %s has too many elements of %u bytes",
                                launch->kernel->name, name, (unsigned)element_size);
        length *= (uint64_t)shape[axis];
    }
    if (empty)
        return INTEROP_OK;
    if (!data)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: %s is NULL, but len(%s) = %" PRIu64, launch->kernel->name,
                            name, name, length);
    if (written && overlaps_itself(rank, shape, strides))
        return shares_memory(launch, name, rank, shape, strides);
    return runtime_check_pointer(launch, name, data, element_size);
}

/* ---- Block, grid, shared memory ---- */

static bool block_fits(const int64_t *block, interop_block_kind kind, uint32_t x, uint32_t y, uint32_t z)
{
    switch (kind) {
    case INTEROP_BLOCK_EXACT:
        return block[0] == x && block[1] == y && block[2] == z;
    case INTEROP_BLOCK_UP_TO: { /* in two steps, so that no product overflows */
        const uint64_t limit = (uint64_t)x * y * z, plane = (uint64_t)block[0] * (uint64_t)block[1];
        return plane <= limit && plane * (uint64_t)block[2] <= limit;
    }
    case INTEROP_BLOCK_MULTIPLE_OF:
        return block[0] % x == 0;
    case INTEROP_BLOCK_ANY:
        break;
    }
    return true;
}

interop_status runtime_check_block(interop_launch *launch, interop_block_kind kind, uint32_t x, uint32_t y, uint32_t z)
{
    const int64_t *block = launch->block;
    char rule[96] = "";
    if (!launch->block_given) {
        if (kind == INTEROP_BLOCK_ANY)
            return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE,
                                "%s: its description has no block rule, so the call must give a block: "
                                "set `block` in the launch configuration",
                                launch->kernel->name);
        launch->block[0] = x;
        launch->block[1] = y;
        launch->block[2] = z;
    }
    if (block_fits(block, kind, x, y, z))
        return INTEROP_OK;
    if (kind == INTEROP_BLOCK_EXACT)
        snprintf(rule, sizeof rule, "block == (%u, %u, %u)", (unsigned)x, (unsigned)y, (unsigned)z);
    else if (kind == INTEROP_BLOCK_UP_TO)
        snprintf(rule, sizeof rule, "block.x * block.y * block.z <= %" PRIu64, (uint64_t)x * y * z);
    else
        snprintf(rule, sizeof rule, "block.x %% %u == 0", (unsigned)x);
    return runtime_fail(INTEROP_ERROR_CONTRACT, "%s: requires %s, but block = (%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                        launch->kernel->name, rule, block[0], block[1], block[2]);
}

interop_status runtime_no_grid(const interop_launch *launch)
{
    return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE,
                        "%s: its description has no grid rule, so the call must give a grid: "
                        "set `grid` in the launch configuration",
                        launch->kernel->name);
}

interop_status runtime_no_shared(const interop_launch *launch)
{
    return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE,
                        "%s: its description has no rule for dynamic shared memory, so the call must give it: "
                        "set `shared_bytes` in the launch configuration",
                        launch->kernel->name);
}

interop_status runtime_check_limits(const interop_launch *launch)
{
    const interop_limits *limits = &launch->module->limits;
    const char *name = launch->kernel->name;
    uint32_t threads = limits->threads, static_shared = 0;
    int axis;
    if (launch->module->cuda)
        cuda_kernel_limits(launch->module, launch->index, &threads, &static_shared);
    else
        static_shared = launch->kernel->objects[launch->module->level]->static_shared_bytes;
    for (axis = 0; axis < 3; axis++) {
        if (launch->block[axis] < 1 || launch->block[axis] > limits->block[axis])
            return runtime_fail(INTEROP_ERROR_ARGUMENT_RANGE, "%s: block.%c is %" PRId64 "; it must be 1 to %u", name,
                                axes[axis], launch->block[axis], (unsigned)limits->block[axis]);
        if (launch->grid[axis] > limits->grid[axis])
            return runtime_fail(INTEROP_ERROR_ARGUMENT_RANGE, "%s: grid.%c is %" PRId64 "; the limit is %u", name,
                                axes[axis], launch->grid[axis], (unsigned)limits->grid[axis]);
    }
    if (launch->block[0] * launch->block[1] * launch->block[2] > threads)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_RANGE, "%s: a block has %" PRId64 " threads; the limit is %u", name,
                            launch->block[0] * launch->block[1] * launch->block[2], (unsigned)threads);
    if (launch->shared > (int64_t)limits->shared - (int64_t)static_shared)
        return runtime_fail(
            INTEROP_ERROR_ARGUMENT_RANGE,
            "%s: a block needs %" PRId64 " bytes of shared memory (%u static, %" PRId64 " dynamic); the limit is %u",
            name, launch->shared + static_shared, (unsigned)static_shared, launch->shared, (unsigned)limits->shared);
    return INTEROP_OK;
}
