/* The CPU device: launching. */
#include "interop_cpu.h"

#include <stdio.h>

int32_t INTEROP_SYM(cpu_launch)(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                uint32_t threads, interop_cpu_error *error) {
    (void)kernel, (void)params, (void)param_bytes, (void)grid, (void)block, (void)dynamic_shared_bytes, (void)threads;
    if (error != NULL) snprintf(error->message, sizeof error->message, "the CPU device cannot launch yet");
    return 9;
}
