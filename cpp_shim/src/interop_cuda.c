/* The CUDA device: contexts, images, memory, launches. Every call leaves the thread's current context as it was. */
#include "interop_cuda.h"
#include "interop_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct cuda_function {
    driver_function handle;
    uint32_t threads, static_shared;
} cuda_function;

struct interop_cuda {
    const interop_driver *driver;
    driver_context context;
    int device;
    int32_t major, minor;
    bool retained; /* the primary context is ours to release */
    bool reaches_host_memory;
    driver_module *modules;   /* one for each image of the bundle, NULL where not loaded */
    cuda_function *functions; /* one for each kernel */
};

/* ---- The current context ---- */

typedef struct cuda_scope {
    const interop_driver *driver;
    bool pushed;
} cuda_scope;

static interop_status enter(const struct interop_cuda *cuda, const char *who, cuda_scope *scope)
{
    driver_context current = NULL;
    driver_result result;
    scope->pushed = false;
    /* Once open, this only looks for a fork. */
    INTEROP_TRY(driver_open(who, &scope->driver));
    result = scope->driver->context_current(&current);
    if (result != DRIVER_SUCCESS)
        return driver_fail(who, "cuCtxGetCurrent", result);
    if (current == cuda->context)
        return INTEROP_OK;
    result = scope->driver->context_push(cuda->context);
    if (result != DRIVER_SUCCESS)
        return driver_fail(who, "cuCtxPushCurrent", result);
    scope->pushed = true;
    return INTEROP_OK;
}

static void leave(const cuda_scope *scope)
{
    driver_context popped;
    if (scope->pushed)
        scope->driver->context_pop(&popped);
}

/* ---- Images ---- */

static bool runs_on(const interop_image *image, int32_t major, int32_t minor)
{
    if (image->exact)
        return image->major == major && image->minor == minor;
    if (image->kind == INTEROP_IMAGE_CUBIN)
        return image->major == major && image->minor <= minor;
    return image->major < major || (image->major == major && image->minor <= minor);
}

/* A cubin before PTX, which the driver has to compile; then the newest architecture. */
static const interop_image *best_image(const interop_bundle *bundle, const interop_kernel *kernel, int32_t major,
                                       int32_t minor, uint32_t *index)
{
    const interop_image *best = NULL;
    uint32_t i;
    for (i = 0; i < kernel->image_count; i++) {
        const interop_image *image = &bundle->images[kernel->images[i]];
        if (!runs_on(image, major, minor))
            continue;
        if (!best || image->kind > best->kind ||
            (image->kind == best->kind &&
             image->major * 10 + image->minor + image->exact > best->major * 10 + best->minor + best->exact)) {
            best = image;
            *index = kernel->images[i];
        }
    }
    return best;
}

static interop_status no_image(const interop_bundle *bundle, const interop_kernel *kernel, int32_t major, int32_t minor)
{
    char list[256] = "";
    size_t used = 0;
    uint32_t i;
    for (i = 0; i < kernel->image_count && used + 32 < sizeof list; i++) {
        const interop_image *image = &bundle->images[kernel->images[i]];
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s for %.12s", i ? ", " : "",
                                 image->kind == INTEROP_IMAGE_PTX ? "PTX" : "a cubin", image->target);
    }
    return runtime_fail(INTEROP_ERROR_INCOMPATIBLE,
                        "%s: no image runs on this GPU, whose compute capability is %d.%d; the bundle '%s' holds %s",
                        kernel->name, (int)major, (int)minor, bundle->name, *list ? list : "no device image");
}

static interop_status load_image(struct interop_cuda *cuda, const interop_bundle *bundle, uint32_t index)
{
    const interop_image *image = &bundle->images[index];
    const interop_driver *driver = cuda->driver;
    char errors[4096] = "", information[1024] = "";
    int options[] = {DRIVER_JIT_ERROR_LOG_BUFFER, DRIVER_JIT_ERROR_LOG_BUFFER_SIZE, DRIVER_JIT_INFO_LOG_BUFFER,
                     DRIVER_JIT_INFO_LOG_BUFFER_SIZE};
    /* Sizes are passed in the pointer's own bits. */
    void *values[] = {errors, (void *)(uintptr_t)sizeof errors, information, (void *)(uintptr_t)sizeof information};
    const char *log;
    int version = 0;
    driver_result result;
    if (cuda->modules[index])
        return INTEROP_OK;
    result = driver->module_load(&cuda->modules[index], image->data, 4, options, values);
    if (result == DRIVER_SUCCESS)
        return INTEROP_OK;
    cuda->modules[index] = NULL;
    errors[sizeof errors - 1] = information[sizeof information - 1] = '\0';
    log = *errors ? errors : information;
    driver_fail(bundle->name, "cuModuleLoadDataEx", result);
    if (driver->version(&version) != DRIVER_SUCCESS)
        version = 0;
    return runtime_fail(result == DRIVER_OUT_OF_MEMORY ? INTEROP_ERROR_OUT_OF_MEMORY : INTEROP_ERROR_INCOMPATIBLE,
                        "%s: the driver (CUDA %d.%d) refuses the %s%s%s for %s: %s%s%s", bundle->name, version / 1000,
                        version % 1000 / 10, image->kind == INTEROP_IMAGE_PTX ? "PTX" : "cubin", *image->isa ? " " : "",
                        image->isa, image->target, driver_result_name(result), *log ? "\n" : "", log);
}

static interop_status load_function(interop_module *module, uint32_t index)
{
    struct interop_cuda *cuda = module->cuda;
    const interop_driver *driver = cuda->driver;
    const interop_kernel *kernel = &module->bundle->kernels[index];
    cuda_function *function = &cuda->functions[index];
    int threads = 0, shared = 0;
    uint32_t image = 0;
    driver_result result;
    if (!best_image(module->bundle, kernel, cuda->major, cuda->minor, &image))
        return runtime_fail(INTEROP_ERROR_INTERNAL, "%s: no image", kernel->name);
    INTEROP_TRY(load_image(cuda, module->bundle, image));
    result = driver->module_function(&function->handle, cuda->modules[image], kernel->symbol);
    if (result != DRIVER_SUCCESS)
        return driver_fail(kernel->name, "cuModuleGetFunction", result);
    result = driver->function_attribute(&threads, DRIVER_FUNCTION_MAX_THREADS, function->handle);
    if (result == DRIVER_SUCCESS)
        result = driver->function_attribute(&shared, DRIVER_FUNCTION_SHARED_SIZE, function->handle);
    if (result != DRIVER_SUCCESS)
        return driver_fail(kernel->name, "cuFuncGetAttribute", result);
    function->threads = (uint32_t)threads;
    function->static_shared = (uint32_t)shared;
    /* More than 48 KiB needs this opt-in. It is only a permission, so that every launch that fits is allowed from here
     * on and no launch changes the function's state. */
    if (module->limits.shared > function->static_shared) {
        result = driver->function_set(function->handle, DRIVER_FUNCTION_MAX_DYNAMIC_SHARED_SIZE,
                                      (int)(module->limits.shared - function->static_shared));
        if (result != DRIVER_SUCCESS)
            return driver_fail(kernel->name, "cuFuncSetAttribute", result);
    }
    return INTEROP_OK;
}

/* ---- The device ---- */

static interop_status attribute(const interop_driver *driver, const char *who, int device, int which, uint32_t *out)
{
    int value = 0;
    const driver_result result = driver->device_attribute(&value, which, device);
    if (result != DRIVER_SUCCESS)
        return driver_fail(who, "cuDeviceGetAttribute", result);
    *out = (uint32_t)value;
    return INTEROP_OK;
}

static interop_status read_device(interop_module *module)
{
    struct interop_cuda *cuda = module->cuda;
    const char *who = module->bundle->name;
    interop_limits *limits = &module->limits;
    uint32_t major = 0, minor = 0, reaches = 0;
    char name[96] = "";
    driver_result result;
    int axis;
    for (axis = 0; axis < 3; axis++) {
        INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_MAX_BLOCK_DIM_X + axis, &limits->block[axis]));
        INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_MAX_GRID_DIM_X + axis, &limits->grid[axis]));
    }
    INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_MAX_THREADS_PER_BLOCK, &limits->threads));
    INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &limits->shared));
    INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_COMPUTE_CAPABILITY_MAJOR, &major));
    INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_COMPUTE_CAPABILITY_MINOR, &minor));
    INTEROP_TRY(attribute(cuda->driver, who, cuda->device, DRIVER_PAGEABLE_MEMORY_ACCESS, &reaches));
    cuda->major = (int32_t)major;
    cuda->minor = (int32_t)minor;
    cuda->reaches_host_memory = reaches != 0;
    result = cuda->driver->device_name(name, (int)sizeof name, cuda->device);
    if (result != DRIVER_SUCCESS)
        return driver_fail(who, "cuDeviceGetName", result);
    snprintf(module->device_name, sizeof module->device_name, "cuda:%d %s (sm_%u%u)", (int)module->device.ordinal, name,
             major, minor);
    return INTEROP_OK;
}

/* A device handle is the ordinal in every driver there has been, but nothing says that it must be. */
static int32_t ordinal_of(const interop_driver *driver, int wanted, int count)
{
    int32_t ordinal;
    int device = 0;
    for (ordinal = 0; ordinal < count; ordinal++)
        if (driver->device_get(&device, ordinal) == DRIVER_SUCCESS && device == wanted)
            return ordinal;
    return 0;
}

/* The caller's current context where it is one of the wanted GPU; else the GPU's primary context, retained. */
static interop_status choose_context(interop_module *module, int32_t ordinal)
{
    struct interop_cuda *cuda = module->cuda;
    const interop_driver *driver = cuda->driver;
    const char *who = module->bundle->name;
    driver_context current = NULL;
    int count = 0, current_device = -1;
    driver_result result;
    if ((result = driver->context_current(&current)) != DRIVER_SUCCESS)
        return driver_fail(who, "cuCtxGetCurrent", result);
    if (current && (result = driver->context_device(&current_device)) != DRIVER_SUCCESS)
        return driver_fail(who, "cuCtxGetDevice", result);
    if ((result = driver->device_count(&count)) != DRIVER_SUCCESS)
        return driver_fail(who, "cuDeviceGetCount", result);
    if (ordinal >= count)
        return runtime_fail(INTEROP_ERROR_DEVICE, "%s: there is no device cuda:%d; the driver sees %d GPU%s", who,
                            (int)ordinal, count, count == 1 ? "" : "s");
    if (ordinal < 0)
        ordinal = current ? ordinal_of(driver, current_device, count) : 0;
    if ((result = driver->device_get(&cuda->device, ordinal)) != DRIVER_SUCCESS)
        return driver_fail(who, "cuDeviceGet", result);
    module->device.kind = INTEROP_DEVICE_CUDA;
    module->device.ordinal = ordinal;
    if (current && cuda->device == current_device) {
        cuda->context = current;
        return INTEROP_OK;
    }
    result = driver->primary_retain(&cuda->context, cuda->device);
    if (result != DRIVER_SUCCESS)
        return driver_fail(who, "cuDevicePrimaryCtxRetain", result);
    cuda->retained = true;
    return INTEROP_OK;
}

/* ---- Load and unload ---- */

static interop_status load_functions(interop_module *module)
{
    cuda_scope scope;
    interop_status status = INTEROP_OK;
    uint32_t i;
    INTEROP_TRY(enter(module->cuda, module->bundle->name, &scope));
    for (i = 0; i < module->bundle->kernel_count && status == INTEROP_OK; i++)
        status = load_function(module, i);
    leave(&scope);
    return status;
}

static interop_status check_images(const interop_module *module)
{
    const struct interop_cuda *cuda = module->cuda;
    const interop_bundle *bundle = module->bundle;
    uint32_t i, image;
    for (i = 0; i < bundle->kernel_count; i++)
        if (!best_image(bundle, &bundle->kernels[i], cuda->major, cuda->minor, &image))
            return no_image(bundle, &bundle->kernels[i], cuda->major, cuda->minor);
    return INTEROP_OK;
}

interop_status cuda_load(interop_module *module, int32_t ordinal, bool *usable)
{
    const interop_bundle *bundle = module->bundle;
    struct interop_cuda *cuda = calloc(1, sizeof *cuda);
    *usable = false;
    module->cuda = cuda;
    if (cuda) {
        cuda->modules = calloc(bundle->image_count ? bundle->image_count : 1, sizeof *cuda->modules);
        cuda->functions = calloc(bundle->kernel_count ? bundle->kernel_count : 1, sizeof *cuda->functions);
    }
    if (!cuda || !cuda->modules || !cuda->functions)
        return runtime_fail(INTEROP_ERROR_OUT_OF_MEMORY, "%s: no memory for the module", bundle->name);
    INTEROP_TRY(driver_open(bundle->name, &cuda->driver));
    *usable = true;
    INTEROP_TRY(choose_context(module, ordinal));
    INTEROP_TRY(read_device(module));
    *usable = false;
    INTEROP_TRY(check_images(module));
    *usable = true;
    return load_functions(module);
}

/* Also undoes a load that stopped half-way. What the driver says is of no use to anybody here. */
void cuda_unload(interop_module *module)
{
    struct interop_cuda *cuda = module->cuda;
    cuda_scope scope;
    uint32_t i;
    if (!cuda)
        return;
    if (cuda->context && enter(cuda, module->bundle->name, &scope) == INTEROP_OK) {
        for (i = 0; i < module->bundle->image_count; i++)
            if (cuda->modules[i])
                scope.driver->module_unload(cuda->modules[i]);
        leave(&scope);
        if (cuda->retained)
            scope.driver->primary_release(cuda->device);
    }
    free(cuda->modules);
    free(cuda->functions);
    free(cuda);
    module->cuda = NULL;
}

/* ---- Memory ---- */

interop_status cuda_alloc(const interop_module *module, size_t bytes, void **out)
{
    driver_address address = 0;
    cuda_scope scope;
    driver_result result;
    INTEROP_TRY(enter(module->cuda, module->bundle->name, &scope));
    result = scope.driver->memory_alloc(&address, bytes);
    leave(&scope);
    if (result != DRIVER_SUCCESS)
        return driver_fail(module->bundle->name, "cuMemAlloc", result);
    *out = (void *)(uintptr_t)address;
    return INTEROP_OK;
}

interop_status cuda_free(const interop_module *module, void *data)
{
    cuda_scope scope;
    driver_result result;
    INTEROP_TRY(enter(module->cuda, module->bundle->name, &scope));
    result = scope.driver->memory_free((driver_address)(uintptr_t)data);
    leave(&scope);
    return result == DRIVER_SUCCESS ? INTEROP_OK : driver_fail(module->bundle->name, "cuMemFree", result);
}

/* Ordered with the stream, and done when it returns. */
interop_status cuda_copy(const interop_module *module, interop_stream stream, void *to, const void *from, size_t bytes,
                         interop_direction direction)
{
    const char *call;
    cuda_scope scope;
    driver_result result;
    INTEROP_TRY(enter(module->cuda, module->bundle->name, &scope));
    if (direction == INTEROP_TO_DEVICE) {
        call = "cuMemcpyHtoDAsync";
        result = scope.driver->copy_to_device((driver_address)(uintptr_t)to, from, bytes, stream);
    } else {
        call = "cuMemcpyDtoHAsync";
        result = scope.driver->copy_to_host(to, (driver_address)(uintptr_t)from, bytes, stream);
    }
    if (result == DRIVER_SUCCESS) {
        call = "cuStreamSynchronize";
        result = scope.driver->stream_synchronize(stream);
    }
    leave(&scope);
    return result == DRIVER_SUCCESS ? INTEROP_OK : driver_fail(module->bundle->name, call, result);
}

interop_status cuda_synchronize(const interop_module *module, interop_stream stream)
{
    cuda_scope scope;
    driver_result result;
    INTEROP_TRY(enter(module->cuda, module->bundle->name, &scope));
    result = scope.driver->stream_synchronize(stream);
    leave(&scope);
    return result == DRIVER_SUCCESS ? INTEROP_OK : driver_fail(module->bundle->name, "cuStreamSynchronize", result);
}

/* ---- Launch ---- */

interop_status cuda_check_pointer(const interop_launch *launch, const char *name, const void *data)
{
    const struct interop_cuda *cuda = launch->module->cuda;
    const interop_driver *driver = cuda->driver;
    const driver_address address = (driver_address)(uintptr_t)data;
    unsigned type = 0, managed = 0;
    int ordinal = 0;
    /* The driver does not know ordinary host memory: it answers CUDA_ERROR_INVALID_VALUE. */
    if (driver->pointer_attribute(&type, DRIVER_POINTER_MEMORY_TYPE, address) != DRIVER_SUCCESS || type == 0) {
        if (cuda->reaches_host_memory)
            return INTEROP_OK;
        return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE,
                            "%s: %s is in host memory, but the module runs on cuda:%d; copy it there first",
                            launch->kernel->name, name, (int)launch->module->device.ordinal);
    }
    if (type != DRIVER_MEMORY_TYPE_DEVICE)
        return INTEROP_OK; /* pinned host memory, which every GPU reaches */
    if (driver->pointer_attribute(&ordinal, DRIVER_POINTER_DEVICE_ORDINAL, address) != DRIVER_SUCCESS ||
        ordinal == launch->module->device.ordinal)
        return INTEROP_OK;
    if (driver->pointer_attribute(&managed, DRIVER_POINTER_IS_MANAGED, address) == DRIVER_SUCCESS && managed)
        return INTEROP_OK;
    return runtime_fail(INTEROP_ERROR_ARGUMENT_TYPE, "%s: %s is on cuda:%d, but the module runs on cuda:%d",
                        launch->kernel->name, name, ordinal, (int)launch->module->device.ordinal);
}

void cuda_kernel_limits(const interop_module *module, uint32_t index, uint32_t *threads, uint32_t *static_shared)
{
    *threads = module->cuda->functions[index].threads;
    *static_shared = module->cuda->functions[index].static_shared;
}

interop_status cuda_launch(const interop_launch *launch, void *params, size_t param_bytes)
{
    const struct interop_cuda *cuda = launch->module->cuda;
    const int64_t *grid = launch->grid, *block = launch->block;
    /* CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, CU_LAUNCH_PARAM_END */
    void *extra[] = {(void *)(uintptr_t)1, params, (void *)(uintptr_t)2, &param_bytes, NULL};
    cuda_scope scope;
    driver_result result;
    INTEROP_TRY(enter(cuda, launch->kernel->name, &scope));
    result = scope.driver->launch(cuda->functions[launch->index].handle, (unsigned)grid[0], (unsigned)grid[1],
                                  (unsigned)grid[2], (unsigned)block[0], (unsigned)block[1], (unsigned)block[2],
                                  (unsigned)launch->shared, launch->stream, NULL, extra);
    leave(&scope);
    return result == DRIVER_SUCCESS ? INTEROP_OK : driver_fail(launch->kernel->name, "cuLaunchKernel", result);
}
