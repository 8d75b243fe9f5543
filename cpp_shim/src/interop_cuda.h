/* The CUDA device of the runtime: the driver, opened at run time. Private. */
#ifndef INTEROP_CUDA_H
#define INTEROP_CUDA_H

#include "interop_runtime.h"

#define cuda_load INTEROP_SYM(cuda_load)
#define cuda_unload INTEROP_SYM(cuda_unload)
#define cuda_alloc INTEROP_SYM(cuda_alloc)
#define cuda_free INTEROP_SYM(cuda_free)
#define cuda_copy INTEROP_SYM(cuda_copy)
#define cuda_synchronize INTEROP_SYM(cuda_synchronize)
#define cuda_check_pointer INTEROP_SYM(cuda_check_pointer)
#define cuda_kernel_limits INTEROP_SYM(cuda_kernel_limits)
#define cuda_launch INTEROP_SYM(cuda_launch)

/* Fills in the module's device, limits and driver part. `ordinal` < 0: the current context's GPU, else the first.
 * `usable` stays false where the machine has no driver, no GPU, or none that the images run on. */
interop_status cuda_load(interop_module *module, int32_t ordinal, bool *usable);
void cuda_unload(interop_module *module);

interop_status cuda_alloc(const interop_module *module, size_t bytes, void **out);
interop_status cuda_free(const interop_module *module, void *data);
interop_status cuda_copy(const interop_module *module, interop_stream stream, void *to, const void *from, size_t bytes,
                         interop_direction direction);
interop_status cuda_synchronize(const interop_module *module, interop_stream stream);

/* Refuses host memory that the GPU cannot reach, and another GPU's. */
interop_status cuda_check_pointer(const interop_launch *launch, const char *name, const void *data);

/* Threads of a block and bytes of static shared memory of one kernel. */
void cuda_kernel_limits(const interop_module *module, uint32_t index, uint32_t *threads, uint32_t *static_shared);
interop_status cuda_launch(const interop_launch *launch, void *params, size_t param_bytes);

#endif
