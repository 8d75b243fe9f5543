/* A stand-in for libcuda.so.1: keeps contexts and memory as the driver does, launches nothing, logs every call.
 *
 * Environment: FAKE_CUDA_LOG, a file to append to; FAKE_CUDA_FAIL, "cuName=number" of a call that fails (the first time
 * only with "cuName=number!"); FAKE_CUDA_COUNT, how many GPUs (1); FAKE_CUDA_CC, their compute capability ("9.0").
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
enum { OK = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };

struct context {
    int device, primary_references;
};
struct module {
    const char *image;
    struct context *context;
    struct function *functions;
};
struct function {
    struct function *next;
    struct module *module;
    char name[64];
    int dynamic_shared;
};
struct allocation {
    unsigned long long start;
    size_t bytes;
    int device;
    struct allocation *next;
};

static struct context primary[8];
static struct allocation *allocations;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int initialised, contexts_pushed;
static _Thread_local struct context *stack[16];
static _Thread_local int depth;

static void logged(const char *format, ...)
{
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *file;
    va_list arguments;
    if (!path)
        return;
    pthread_mutex_lock(&lock);
    file = fopen(path, "a");
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputc('\n', file);
    fclose(file);
    pthread_mutex_unlock(&lock);
}

static CUresult wanted_failure(const char *call)
{
    const char *fail = getenv("FAKE_CUDA_FAIL");
    const size_t length = strlen(call);
    return fail && !strncmp(fail, call, length) && fail[length] == '=' ? atoi(fail + length + 1) : OK;
}

#define ENTER(call)                                                                                                    \
    do {                                                                                                               \
        const CUresult failure = wanted_failure(call);                                                                 \
        if (failure != OK) {                                                                                           \
            logged("%s fails", call);                                                                                  \
            return failure;                                                                                            \
        }                                                                                                              \
        if (!initialised)                                                                                              \
            return NOT_INITIALIZED;                                                                                    \
    } while (0)
#define NEED_CONTEXT()                                                                                                 \
    if (!depth || !stack[depth - 1])                                                                                   \
    return INVALID_CONTEXT

static int count_devices(void) { return getenv("FAKE_CUDA_COUNT") ? atoi(getenv("FAKE_CUDA_COUNT")) : 1; }

CUresult cuInit(unsigned flags)
{
    const CUresult failure = wanted_failure("cuInit");
    (void)flags;
    logged("cuInit");
    initialised = failure == OK;
    return failure;
}

CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return OK;
}

CUresult cuGetErrorName(CUresult result, const char **text)
{
    switch (result) {
    case 1:
        *text = "CUDA_ERROR_INVALID_VALUE";
        return OK;
    case 2:
        *text = "CUDA_ERROR_OUT_OF_MEMORY";
        return OK;
    case 46:
        *text = "CUDA_ERROR_DEVICE_UNAVAILABLE";
        return OK;
    case 100:
        *text = "CUDA_ERROR_NO_DEVICE";
        return OK;
    case 201:
        *text = "CUDA_ERROR_INVALID_CONTEXT";
        return OK;
    case 222:
        *text = "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
        return OK;
    case 500:
        *text = "CUDA_ERROR_NOT_FOUND";
        return OK;
    case 700:
        *text = "CUDA_ERROR_ILLEGAL_ADDRESS";
        return OK;
    default:
        *text = NULL;
        return INVALID_VALUE;
    }
}

CUresult cuGetErrorString(CUresult result, const char **text)
{
    *text = result == 700 ? "an illegal memory access was encountered" : "words of the driver";
    return OK;
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER("cuDeviceGetCount");
    *count = count_devices();
    return OK;
}

CUresult cuDeviceGet(int *device, int ordinal)
{
    ENTER("cuDeviceGet");
    if (ordinal < 0 || ordinal >= count_devices())
        return INVALID_VALUE;
    *device = ordinal;
    return OK;
}

CUresult cuDeviceGetName(char *name, int size, int device)
{
    ENTER("cuDeviceGetName");
    snprintf(name, (size_t)size, "Fake %d", device);
    return OK;
}

CUresult cuDeviceGetAttribute(int *value, int attribute, int device)
{
    const char *cc = getenv("FAKE_CUDA_CC") ? getenv("FAKE_CUDA_CC") : "9.0";
    ENTER("cuDeviceGetAttribute");
    (void)device;
    switch (attribute) {
    case 1:
        *value = 1024;
        break;
    case 2:
    case 3:
        *value = 1024;
        break;
    case 4:
        *value = 64;
        break;
    case 5:
        *value = 2147483647;
        break;
    case 6:
    case 7:
        *value = 65535;
        break;
    case 75:
        *value = atoi(cc);
        break;
    case 76:
        *value = atoi(strchr(cc, '.') + 1);
        break;
    case 88:
        *value = 0;
        break;
    case 97:
        *value = 232448;
        break;
    default:
        return INVALID_VALUE;
    }
    return OK;
}

CUresult cuDevicePrimaryCtxRetain(struct context **context, int device)
{
    ENTER("cuDevicePrimaryCtxRetain");
    primary[device].device = device;
    primary[device].primary_references++;
    *context = &primary[device];
    logged("cuDevicePrimaryCtxRetain %d", device);
    return OK;
}

CUresult cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER("cuDevicePrimaryCtxRelease");
    logged("cuDevicePrimaryCtxRelease %d", device);
    return primary[device].primary_references-- > 0 ? OK : INVALID_CONTEXT;
}

CUresult cuCtxGetCurrent(struct context **context)
{
    ENTER("cuCtxGetCurrent");
    *context = depth ? stack[depth - 1] : NULL;
    return OK;
}

CUresult cuCtxSetCurrent(struct context *context)
{
    ENTER("cuCtxSetCurrent");
    if (!depth)
        depth = 1;
    stack[depth - 1] = context;
    return OK;
}

CUresult cuCtxGetDevice(int *device)
{
    ENTER("cuCtxGetDevice");
    NEED_CONTEXT();
    *device = stack[depth - 1]->device;
    return OK;
}

CUresult cuCtxPushCurrent_v2(struct context *context)
{
    ENTER("cuCtxPushCurrent");
    if (depth == 16)
        return INVALID_VALUE;
    stack[depth++] = context;
    contexts_pushed++;
    logged("push %d", context->device);
    return OK;
}

CUresult cuCtxPopCurrent_v2(struct context **context)
{
    ENTER("cuCtxPopCurrent");
    NEED_CONTEXT();
    *context = stack[--depth];
    logged("pop %d", (*context)->device);
    return OK;
}

CUresult cuModuleLoadDataEx(struct module **module, const void *image, unsigned count, int *options, void **values)
{
    static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'};
    const int is_cubin = !memcmp(image, elf, 4);
    const CUresult failure = wanted_failure("cuModuleLoadDataEx");
    unsigned i;
    NEED_CONTEXT();
    if (failure != OK) {
        for (i = 0; i < count; i++)
            if (options[i] == 5)
                strcpy(values[i], "ptxas application ptx input, line 7; fatal   : words of the JIT log");
        return failure;
    }
    *module = calloc(1, sizeof **module);
    (*module)->image = image;
    (*module)->context = stack[depth - 1];
    logged("load %s on %d", is_cubin ? "cubin" : "ptx", stack[depth - 1]->device);
    return OK;
}

CUresult cuModuleUnload(struct module *module)
{
    ENTER("cuModuleUnload");
    NEED_CONTEXT();
    logged("unload on %d", module->context->device);
    while (module->functions) {
        struct function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    free(module);
    return OK;
}

CUresult cuModuleGetFunction(struct function **function, struct module *module, const char *name)
{
    ENTER("cuModuleGetFunction");
    NEED_CONTEXT();
    *function = calloc(1, sizeof **function);
    (*function)->module = module;
    (*function)->next = module->functions;
    module->functions = *function;
    snprintf((*function)->name, sizeof(*function)->name, "%s", name);
    return OK;
}

CUresult cuFuncGetAttribute(int *value, int attribute, struct function *function)
{
    ENTER("cuFuncGetAttribute");
    (void)function;
    *value = attribute == 0 ? 1024 : attribute == 1 ? 1 : 0; /* threads, static shared memory */
    return attribute <= 1 ? OK : INVALID_VALUE;
}

CUresult cuFuncSetAttribute(struct function *function, int attribute, int value)
{
    ENTER("cuFuncSetAttribute");
    logged("set %s %d %d", function->name, attribute, value);
    function->dynamic_shared = value;
    return OK;
}

static struct allocation *find(unsigned long long address)
{
    struct allocation *a;
    for (a = allocations; a; a = a->next)
        if (address >= a->start && address < a->start + a->bytes)
            break;
    return a;
}

CUresult cuPointerGetAttribute(void *value, int attribute, unsigned long long address)
{
    struct allocation *a;
    ENTER("cuPointerGetAttribute");
    pthread_mutex_lock(&lock);
    a = find(address);
    pthread_mutex_unlock(&lock);
    if (!a)
        return INVALID_VALUE;
    *(unsigned *)value = attribute == 2 ? 2u : attribute == 9 ? (unsigned)a->device : 0u;
    return OK;
}

CUresult cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
    struct allocation *a;
    ENTER("cuMemAlloc");
    NEED_CONTEXT();
    if (!bytes)
        return INVALID_VALUE;
    a = malloc(sizeof *a);
    a->start = (unsigned long long)(uintptr_t)malloc(bytes);
    a->bytes = bytes;
    a->device = stack[depth - 1]->device;
    pthread_mutex_lock(&lock);
    a->next = allocations;
    allocations = a;
    pthread_mutex_unlock(&lock);
    *address = a->start;
    return OK;
}

CUresult cuMemFree_v2(unsigned long long address)
{
    struct allocation **link, *a = NULL;
    ENTER("cuMemFree");
    NEED_CONTEXT();
    pthread_mutex_lock(&lock);
    for (link = &allocations; *link; link = &(*link)->next)
        if ((*link)->start == address) {
            a = *link;
            *link = a->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (!a)
        return INVALID_VALUE;
    free((void *)(uintptr_t)a->start);
    free(a);
    return OK;
}

CUresult cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, void *stream)
{
    ENTER("cuMemcpyHtoDAsync");
    NEED_CONTEXT();
    logged("copy in %zu stream %p", bytes, stream);
    memcpy((void *)(uintptr_t)to, from, bytes);
    return OK;
}

CUresult cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, void *stream)
{
    ENTER("cuMemcpyDtoHAsync");
    NEED_CONTEXT();
    logged("copy out %zu stream %p", bytes, stream);
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return OK;
}

CUresult cuStreamSynchronize(void *stream)
{
    ENTER("cuStreamSynchronize");
    NEED_CONTEXT();
    logged("synchronize stream %p", stream);
    return OK;
}

CUresult cuLaunchKernel(struct function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
    const unsigned char *buffer = NULL;
    size_t size = 0, i;
    char hex[512] = "";
    ENTER("cuLaunchKernel");
    NEED_CONTEXT();
    if (stack[depth - 1] != function->module->context)
        return INVALID_HANDLE;
    if (params || !gx || !gy || !gz || (int)shared > function->dynamic_shared)
        return INVALID_VALUE;
    for (; *extra; extra += 2) {
        if (*extra == (void *)1)
            buffer = extra[1];
        else if (*extra == (void *)2)
            size = *(size_t *)extra[1];
    }
    for (i = 0; i < size && i < 250; i++)
        sprintf(hex + 2 * i, "%02x", buffer[i]);
    logged("launch %s grid %u %u %u block %u %u %u shared %u stream %p params %s", function->name, gx, gy, gz, bx, by,
           bz, shared, stream, hex);
    return OK;
}
