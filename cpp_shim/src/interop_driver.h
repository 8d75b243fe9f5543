/* The functions of libcuda.so.1 that the runtime calls, with types of our own: no CUDA header is needed to build.
 *
 * Names and numbers are the driver's (cuda.h); the _v2 entry points are those that cuda.h has named since CUDA 4.
 */
#ifndef INTEROP_DRIVER_H
#define INTEROP_DRIVER_H

#include "interop_runtime.h"

typedef int driver_result; /* CUresult */
typedef unsigned long long driver_address;
typedef struct CUctx_st *driver_context;
typedef struct CUmod_st *driver_module;
typedef struct CUfunc_st *driver_function;

enum { /* CUresult */
       DRIVER_SUCCESS = 0,
       DRIVER_INVALID_VALUE = 1,
       DRIVER_OUT_OF_MEMORY = 2,
       DRIVER_NO_BINARY_FOR_GPU = 209,
       DRIVER_INVALID_PTX = 218,
       DRIVER_UNSUPPORTED_PTX_VERSION = 222,
       DRIVER_NOT_FOUND = 500,
       DRIVER_ILLEGAL_ADDRESS = 700,
       DRIVER_ASSERT = 710,
       DRIVER_HARDWARE_STACK_ERROR = 714,
       DRIVER_LAUNCH_FAILED = 719
};

enum { /* CUdevice_attribute */
       DRIVER_MAX_THREADS_PER_BLOCK = 1,
       DRIVER_MAX_BLOCK_DIM_X = 2, /* y and z follow */
       DRIVER_MAX_GRID_DIM_X = 5,  /* y and z follow */
       DRIVER_COMPUTE_CAPABILITY_MAJOR = 75,
       DRIVER_COMPUTE_CAPABILITY_MINOR = 76,
       DRIVER_PAGEABLE_MEMORY_ACCESS = 88,
       DRIVER_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
};

enum { /* CUfunction_attribute */
       DRIVER_FUNCTION_MAX_THREADS = 0,
       DRIVER_FUNCTION_SHARED_SIZE = 1,
       DRIVER_FUNCTION_MAX_DYNAMIC_SHARED_SIZE = 8
};

enum { /* CUjit_option */
       DRIVER_JIT_INFO_LOG_BUFFER = 3,
       DRIVER_JIT_INFO_LOG_BUFFER_SIZE = 4,
       DRIVER_JIT_ERROR_LOG_BUFFER = 5,
       DRIVER_JIT_ERROR_LOG_BUFFER_SIZE = 6
};

enum { /* CUpointer_attribute, CUmemorytype */
       DRIVER_POINTER_MEMORY_TYPE = 2,
       DRIVER_POINTER_IS_MANAGED = 8,
       DRIVER_POINTER_DEVICE_ORDINAL = 9,
       DRIVER_MEMORY_TYPE_DEVICE = 2
};

/* Name here, name in the library, parameters. */
#define INTEROP_DRIVER_FUNCTIONS(X)                                                                                    \
    X(init, "cuInit", (unsigned flags))                                                                                \
    X(version, "cuDriverGetVersion", (int *version))                                                                   \
    X(error_name, "cuGetErrorName", (driver_result result, const char **text))                                         \
    X(error_string, "cuGetErrorString", (driver_result result, const char **text))                                     \
    X(device_count, "cuDeviceGetCount", (int *count))                                                                  \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                                           \
    X(device_name, "cuDeviceGetName", (char *name, int size, int device))                                              \
    X(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                               \
    X(primary_retain, "cuDevicePrimaryCtxRetain", (driver_context * context, int device))                              \
    X(primary_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                   \
    X(context_current, "cuCtxGetCurrent", (driver_context * context))                                                  \
    X(context_device, "cuCtxGetDevice", (int *device))                                                                 \
    X(context_push, "cuCtxPushCurrent_v2", (driver_context context))                                                   \
    X(context_pop, "cuCtxPopCurrent_v2", (driver_context * context))                                                   \
    X(module_load, "cuModuleLoadDataEx",                                                                               \
      (driver_module * module, const void *image, unsigned count, int *options, void **values))                        \
    X(module_unload, "cuModuleUnload", (driver_module module))                                                         \
    X(module_function, "cuModuleGetFunction", (driver_function * function, driver_module module, const char *name))    \
    X(function_attribute, "cuFuncGetAttribute", (int *value, int attribute, driver_function function))                 \
    X(function_set, "cuFuncSetAttribute", (driver_function function, int attribute, int value))                        \
    X(pointer_attribute, "cuPointerGetAttribute", (void *value, int attribute, driver_address address))                \
    X(memory_alloc, "cuMemAlloc_v2", (driver_address * address, size_t bytes))                                         \
    X(memory_free, "cuMemFree_v2", (driver_address address))                                                           \
    X(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                                          \
      (driver_address to, const void *from, size_t bytes, interop_stream stream))                                      \
    X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void *to, driver_address from, size_t bytes, interop_stream stream))      \
    X(stream_synchronize, "cuStreamSynchronize", (interop_stream stream))                                              \
    X(launch, "cuLaunchKernel",                                                                                        \
      (driver_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                  \
       unsigned block_y, unsigned block_z, unsigned shared, interop_stream stream, void **params, void **extra))

#define INTEROP_DRIVER_MEMBER(name, symbol, parameters) driver_result(*name) parameters;
typedef struct interop_driver {
    INTEROP_DRIVER_FUNCTIONS(INTEROP_DRIVER_MEMBER)
} interop_driver;
#undef INTEROP_DRIVER_MEMBER

#define driver_open INTEROP_SYM(driver_open)
#define driver_fail INTEROP_SYM(driver_fail)
#define driver_result_name INTEROP_SYM(driver_result_name)

/* Opens the driver once in the life of the process. Fails with words where there is none, where it has no GPU, and in a
 * child that was forked after the driver was initialised. */
interop_status driver_open(const char *who, const interop_driver **out);

/* Sets "WHO: CALL: CUDA_ERROR_NAME (description)" and returns the status that fits. */
interop_status driver_fail(const char *who, const char *call, driver_result result);
const char *driver_result_name(driver_result result);

#endif
