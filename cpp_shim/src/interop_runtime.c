/* Loading a bundle on a device, its memory, its messages, and what both devices have in common at a launch. */
#include "interop_runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop_cuda.h"

/* ---- The calling thread's message ---- */

static _Thread_local char last_error[8192] = "no error";

const char *runtime_last_error(void) { return last_error; }

interop_status runtime_fail(interop_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return status;
}

/* As much of the message as fits. */
static void copy_last_error(char *to, size_t size)
{
    size_t length = strlen(last_error);
    length = length < size ? length : size - 1;
    memcpy(to, last_error, length);
    to[length] = '\0';
}

/* ---- The CPU device ---- */

/* CUDA's own limits, and the shared memory of the largest GPUs. */
static const interop_limits cpu_limits = {{2147483647u, 65535u, 65535u}, {1024u, 1024u, 64u}, 1024u, 232448u};

#if defined(__x86_64__) || defined(_M_X64)
#define INTEROP_CPU_OBJECTS 1
#else
#define INTEROP_CPU_OBJECTS 0
#endif

static bool cpu_has_level(const char *level)
{
#if INTEROP_CPU_OBJECTS
    __builtin_cpu_init();
    if (!strcmp(level, "x86-64"))
        return true;
    if (!strcmp(level, "x86-64-v2"))
        return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("popcnt");
    if (!strcmp(level, "x86-64-v3"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
               __builtin_cpu_supports("fma");
    if (!strcmp(level, "x86-64-v4"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#else
    (void)level;
#endif
    return false;
}

static interop_status cpu_check_objects(const interop_module *module)
{
    const interop_bundle *bundle = module->bundle;
    uint32_t i;
    for (i = 0; i < bundle->kernel_count; i++) {
        const interop_cpu_kernel *object = bundle->kernels[i].objects[module->level];
        if (object->abi != INTEROP_CPU_ABI)
            return runtime_fail(INTEROP_ERROR_ABI_MISMATCH, "%s: its CPU object is of version %u, the runtime of %u",
                                bundle->kernels[i].name, (unsigned)object->abi, INTEROP_CPU_ABI);
    }
    return INTEROP_OK;
}

static interop_status cpu_load(interop_module *module)
{
    const interop_bundle *bundle = module->bundle;
    const bool made_for_this = INTEROP_CPU_OBJECTS;
    uint32_t level = 0;
    if (bundle->level_count == 0)
        return runtime_fail(INTEROP_ERROR_UNSUPPORTED, "%s: %s", bundle->name,
                            made_for_this ? "this library was built without its CPU objects, so it has no CPU device"
                                          : "the CPU device needs an x86-64 processor");
    while (level < bundle->level_count && !cpu_has_level(bundle->levels[level]))
        level++;
    if (level == bundle->level_count)
        return runtime_fail(INTEROP_ERROR_UNSUPPORTED, "%s: the CPU device needs a processor of level %s or newer",
                            bundle->name, bundle->levels[bundle->level_count - 1]);
    module->level = level;
    module->limits = cpu_limits;
    module->device = interop_device_cpu();
    snprintf(module->device_name, sizeof module->device_name, "cpu (%s)", bundle->levels[level]);
    return cpu_check_objects(module);
}

static interop_status cpu_launch(const interop_launch *launch, const void *params, size_t param_bytes)
{
    const interop_cpu_kernel *object = launch->kernel->objects[launch->module->level];
    const uint32_t grid[3] = {(uint32_t)launch->grid[0], (uint32_t)launch->grid[1], (uint32_t)launch->grid[2]};
    const uint32_t block[3] = {(uint32_t)launch->block[0], (uint32_t)launch->block[1], (uint32_t)launch->block[2]};
    interop_cpu_error error = {0, {0, 0, 0}, {0, 0, 0}, ""};
    int32_t status =
        INTEROP_SYM(cpu_launch)(object, params, param_bytes, grid, block, (uint32_t)launch->shared, 0, &error);
    if (status == 0)
        return INTEROP_OK;
    error.message[sizeof error.message - 1] = '\0';
    return runtime_fail((interop_status)status, "%s: %s", launch->kernel->name, error.message);
}

/* ---- Load and unload ---- */

/* Finds the first kernel whose signature is another in header and library, and shows both. */
static interop_status header_mismatch(const interop_bundle *bundle, const char *header)
{
    const char *library = bundle->signatures;
    while (*header && *library) {
        const int header_line = (int)strcspn(header, "\n"), library_line = (int)strcspn(library, "\n");
        if (header_line != library_line || strncmp(header, library, (size_t)header_line))
            return runtime_fail(
                INTEROP_ERROR_ABI_MISMATCH,
                "%s: the program was compiled with another version's header; the header says\n    %.*s\n"
                "the library says\n    %.*s",
                bundle->name, header_line, header, library_line, library);
        header += header_line + (header[header_line] == '\n');
        library += library_line + (library[library_line] == '\n');
    }
    if (*header || *library)
        return runtime_fail(INTEROP_ERROR_ABI_MISMATCH,
                            "%s: the program was compiled with another version's header; only the %s has\n    %.*s",
                            bundle->name, *header ? "header" : "library",
                            (int)strcspn(*header ? header : library, "\n"), *header ? header : library);
    return runtime_fail(INTEROP_ERROR_ABI_MISMATCH, "%s: the program was compiled with another version's header",
                        bundle->name);
}

/* INTEROP_DEVICE=cpu or cuda decides for BEST; a device that the program names is not its business. */
static interop_status apply_environment(const interop_bundle *bundle, interop_device *which, bool *from_environment)
{
    const char *wanted = getenv("INTEROP_DEVICE");
    *from_environment = false;
    if (which->kind != INTEROP_DEVICE_BEST || !wanted || !*wanted)
        return INTEROP_OK;
    if (!strcmp(wanted, "cpu"))
        which->kind = INTEROP_DEVICE_CPU;
    else if (!strcmp(wanted, "cuda"))
        which->kind = INTEROP_DEVICE_CUDA;
    else
        return runtime_fail(INTEROP_ERROR_UNSUPPORTED, "%s: INTEROP_DEVICE is cpu or cuda, not '%.40s'", bundle->name,
                            wanted);
    *from_environment = true;
    return INTEROP_OK;
}

/* CUDA where it can be used. A GPU that is there and does not work is an error, not a reason to be slow in silence. */
static interop_status load_best(interop_module *module)
{
    bool usable;
    interop_status status = cuda_load(module, -1, &usable);
    if (status == INTEROP_OK || usable)
        return status;
    cuda_unload(module);
    copy_last_error(module->note, sizeof module->note);
    status = cpu_load(module);
    if (status != INTEROP_OK) {
        char why[512];
        copy_last_error(why, sizeof why);
        return runtime_fail(status, "%s; and not CUDA: %s", why, module->note);
    }
    return INTEROP_OK;
}

static interop_status load_on(interop_module *module, interop_device which, bool from_environment)
{
    bool usable;
    switch (which.kind) {
    case INTEROP_DEVICE_BEST:
        return load_best(module);
    case INTEROP_DEVICE_CPU:
        return cpu_load(module);
    case INTEROP_DEVICE_CUDA:
        if (which.ordinal < 0)
            return runtime_fail(INTEROP_ERROR_DEVICE, "%s: there is no device cuda:%d", module->bundle->name,
                                (int)which.ordinal);
        return cuda_load(module, from_environment ? -1 : which.ordinal, &usable);
    }
    return runtime_fail(INTEROP_ERROR_UNSUPPORTED, "%s: %d is not a kind of device", module->bundle->name,
                        (int)which.kind);
}

interop_status runtime_load(const interop_bundle *bundle, interop_device which, const char *header_hash,
                            const char *header_signatures, interop_module **out)
{
    bool from_environment;
    interop_status status;
    interop_module *module;
    if (!out)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: the place for the module is NULL", bundle->name);
    *out = NULL;
    if (!header_hash || !header_signatures)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: the header's hash or signatures are NULL", bundle->name);
    if (strcmp(header_hash, bundle->hash))
        return header_mismatch(bundle, header_signatures);
    INTEROP_TRY(apply_environment(bundle, &which, &from_environment));
    module = calloc(1, sizeof *module);
    if (!module)
        return runtime_fail(INTEROP_ERROR_OUT_OF_MEMORY, "%s: no memory for the module", bundle->name);
    module->bundle = bundle;
    status = load_on(module, which, from_environment);
    if (status != INTEROP_OK) {
        runtime_unload(module);
        return status;
    }
    *out = module;
    return INTEROP_OK;
}

/* Keeps the message of a load that failed. */
void runtime_unload(interop_module *module)
{
    if (!module)
        return;
    if (module->cuda) {
        char kept[sizeof last_error];
        memcpy(kept, last_error, sizeof kept);
        cuda_unload(module);
        memcpy(last_error, kept, sizeof kept);
    }
    free(module);
}

/* ---- Memory ---- */

static interop_status no_module(const char *call)
{
    return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: module is NULL", call);
}

interop_status runtime_alloc(const interop_module *module, size_t bytes, void **out)
{
    if (!module)
        return no_module("alloc");
    if (!out)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: the place for the address is NULL", module->bundle->name);
    *out = NULL;
    if (bytes == 0)
        return INTEROP_OK;
    if (module->cuda)
        return cuda_alloc(module, bytes, out);
    if (bytes <= SIZE_MAX - 255) /* CUDA's alignment, of which C wants a multiple */
        *out = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
    if (!*out)
        return runtime_fail(INTEROP_ERROR_OUT_OF_MEMORY, "%s: no memory for %zu bytes", module->bundle->name, bytes);
    return INTEROP_OK;
}

interop_status runtime_free(const interop_module *module, void *data)
{
    if (!module)
        return no_module("free");
    if (!data)
        return INTEROP_OK;
    if (module->cuda)
        return cuda_free(module, data);
    free(data);
    return INTEROP_OK;
}

interop_status runtime_copy(const interop_module *module, interop_stream stream, void *to, const void *from,
                            size_t bytes, interop_direction direction)
{
    if (!module)
        return no_module("copy");
    if (bytes == 0)
        return INTEROP_OK;
    if (!to || !from)
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: copy %s NULL", module->bundle->name, to ? "from" : "to");
    if (module->cuda)
        return cuda_copy(module, stream, to, from, bytes, direction);
    memmove(to, from, bytes);
    return INTEROP_OK;
}

interop_status runtime_synchronize(const interop_module *module, interop_stream stream)
{
    if (!module)
        return no_module("synchronize");
    return module->cuda ? cuda_synchronize(module, stream) : INTEROP_OK;
}

/* ---- A launch on either device ---- */

interop_status runtime_run(const interop_launch *launch, void *params, size_t param_bytes)
{
    if (launch->grid[0] == 0 || launch->grid[1] == 0 || launch->grid[2] == 0)
        return INTEROP_OK;
    return launch->module->cuda ? cuda_launch(launch, params, param_bytes) : cpu_launch(launch, params, param_bytes);
}
