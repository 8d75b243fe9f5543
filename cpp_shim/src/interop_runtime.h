/* The runtime under an exported folder's functions. Private: an application includes NAME.h or NAME.hpp.
 *
 * Each folder compiles its own copy under its own prefix (-DINTEROP_PREFIX=NAME_), so that two of them link into one
 * program. It never prints and never exits: a failure is a status and a message of the calling thread.
 */
#ifndef INTEROP_RUNTIME_H
#define INTEROP_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interop/types.h"
#include "interop_cpu.h"

#define interop_module INTEROP_SYM(module)
#define runtime_load INTEROP_SYM(runtime_load)
#define runtime_unload INTEROP_SYM(runtime_unload)
#define runtime_last_error INTEROP_SYM(runtime_last_error)
#define runtime_fail INTEROP_SYM(runtime_fail)
#define runtime_alloc INTEROP_SYM(runtime_alloc)
#define runtime_free INTEROP_SYM(runtime_free)
#define runtime_copy INTEROP_SYM(runtime_copy)
#define runtime_synchronize INTEROP_SYM(runtime_synchronize)
#define runtime_run INTEROP_SYM(runtime_run)

typedef struct interop_module interop_module;
struct interop_cuda; /* what a module holds of the driver */

/* ---- What the generated tables say ---- */

typedef enum interop_image_kind { INTEROP_IMAGE_PTX, INTEROP_IMAGE_CUBIN } interop_image_kind;

typedef struct interop_image {
    interop_image_kind kind;
    int32_t major, minor;      /* of the architecture that it was made for */
    bool exact;                /* sm_90a and the like run on that architecture only */
    const char *target, *isa;  /* as text: "sm_90"; the PTX version, "" for a cubin */
    const unsigned char *data; /* PTX ends in a zero byte, which `size` does not count */
    size_t size;
} interop_image;

typedef struct interop_kernel {
    const char *name, *symbol;
    const uint32_t *images; /* those that hold it: indices into the bundle's */
    uint32_t image_count;
    const interop_cpu_kernel *const *objects; /* one for each of the bundle's levels, in their order */
} interop_kernel;

typedef struct interop_bundle {
    const char *name, *hash, *signatures;
    const interop_image *images;
    uint32_t image_count;
    const interop_kernel *kernels;
    uint32_t kernel_count;
    const char *const *levels; /* instruction-set levels of the CPU objects, best first */
    uint32_t level_count;      /* 0: built without CPU objects */
} interop_bundle;

/* What a device allows. The CPU device has CUDA's own numbers, so that a launch fails on both or on neither. */
typedef struct interop_limits {
    uint32_t grid[3], block[3];
    uint32_t threads; /* of a block */
    uint32_t shared;  /* bytes of a block, static and dynamic together */
} interop_limits;

struct interop_module {
    const interop_bundle *bundle;
    interop_device device;
    interop_limits limits;
    char device_name[160];
    char note[320];            /* why BEST did not take CUDA, or empty */
    uint32_t level;            /* CPU: index of the level in use */
    struct interop_cuda *cuda; /* CUDA: the rest */
};

/* ---- Life of a module ---- */

interop_status runtime_load(const interop_bundle *bundle, interop_device which, const char *header_hash,
                            const char *header_signatures, interop_module **out);
void runtime_unload(interop_module *module);
const char *runtime_last_error(void);

/* Sets the calling thread's message and returns `status`. */
interop_status runtime_fail(interop_status status, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* ---- Memory of the module's device ---- */

typedef enum interop_direction { INTEROP_TO_DEVICE, INTEROP_TO_HOST } interop_direction;

interop_status runtime_alloc(const interop_module *module, size_t bytes, void **out);
interop_status runtime_free(const interop_module *module, void *data);
interop_status runtime_copy(const interop_module *module, interop_stream stream, void *to, const void *from,
                            size_t bytes, interop_direction direction);
interop_status runtime_synchronize(const interop_module *module, interop_stream stream);

/* ---- One launch; interop_launch.h has its checks ---- */

#define INTEROP_TRY(call)                                                                                              \
    do {                                                                                                               \
        const interop_status interop_try_status = (call);                                                              \
        if (interop_try_status != INTEROP_OK)                                                                          \
            return interop_try_status;                                                                                 \
    } while (0)

typedef struct interop_launch {
    const interop_module *module;
    const interop_kernel *kernel;
    uint32_t index; /* of the kernel in the bundle */
    interop_stream stream;
    int64_t grid[3], block[3]; /* x, y, z */
    int64_t shared;
    bool grid_given, block_given, shared_given;
} interop_launch;

/* Runs nothing where the grid has a zero. `params` is the parameter buffer. */
interop_status runtime_run(const interop_launch *launch, void *params, size_t param_bytes);

#endif
