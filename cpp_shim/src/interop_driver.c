/* Opens libcuda.so.1 and tells its errors. */
#include "interop_driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static interop_driver driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static interop_status driver_status; /* what opening it came to, and the words */
static char driver_message[512];
static volatile bool driver_forked;

static void after_fork_in_child(void) { driver_forked = true; }

static interop_status opening_failed(const char *what, const char *why)
{
    driver_status = INTEROP_ERROR_DEVICE;
    snprintf(driver_message, sizeof driver_message, "%s%s%s", what, *why ? ": " : "", why);
    return driver_status;
}

/* ISO C has no cast from an object pointer to a function pointer; POSIX says that the bytes are the same. */
static bool find(void *library, const char *symbol, void *function)
{
    void *address = dlsym(library, symbol);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static interop_status open_library(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return opening_failed("there is no NVIDIA driver on this machine", dlerror());
#define FIND(name, symbol, parameters)                                                                                 \
    if (!find(library, symbol, &driver.name))                                                                          \
        return opening_failed("the NVIDIA driver is too old: it has no", symbol);
    INTEROP_DRIVER_FUNCTIONS(FIND)
#undef FIND
    return INTEROP_OK;
}

static void open_once(void)
{
    int count = 0;
    driver_result result;
    if (open_library() != INTEROP_OK)
        return;
    result = driver.init(0);
    if (result != DRIVER_SUCCESS) {
        opening_failed("cuInit", driver_result_name(result));
        return;
    }
    pthread_atfork(NULL, NULL, after_fork_in_child);
    result = driver.device_count(&count);
    if (result != DRIVER_SUCCESS)
        opening_failed("cuDeviceGetCount", driver_result_name(result));
    else if (count == 0)
        opening_failed("the NVIDIA driver sees no GPU", "");
}

interop_status driver_open(const char *who, const interop_driver **out)
{
    pthread_once(&driver_once, open_once);
    if (driver_status != INTEROP_OK)
        return runtime_fail(driver_status, "%s: %s", who, driver_message);
    if (driver_forked)
        return runtime_fail(INTEROP_ERROR_DEVICE,
                            "%s: this process was forked after CUDA was initialised, and CUDA does not survive a fork; "
                            "start the child with exec, or load the first module after the fork",
                            who);
    *out = &driver;
    return INTEROP_OK;
}

const char *driver_result_name(driver_result result)
{
    const char *name = NULL;
    if (driver.error_name && driver.error_name(result, &name) == DRIVER_SUCCESS && name)
        return name;
    return "an error that this driver has no name for";
}

static interop_status status_of(driver_result result)
{
    switch (result) {
    case DRIVER_OUT_OF_MEMORY:
        return INTEROP_ERROR_OUT_OF_MEMORY;
    case DRIVER_NO_BINARY_FOR_GPU:
    case DRIVER_INVALID_PTX:
    case DRIVER_UNSUPPORTED_PTX_VERSION:
        return INTEROP_ERROR_INCOMPATIBLE;
    case DRIVER_NOT_FOUND:
        return INTEROP_ERROR_SYMBOL_NOT_FOUND;
    case DRIVER_ILLEGAL_ADDRESS:
    case DRIVER_ASSERT:
    case DRIVER_HARDWARE_STACK_ERROR:
    case DRIVER_LAUNCH_FAILED:
        return INTEROP_ERROR_EXECUTION;
    default:
        return result >= DRIVER_HARDWARE_STACK_ERROR && result <= DRIVER_LAUNCH_FAILED ? INTEROP_ERROR_EXECUTION
                                                                                       : INTEROP_ERROR_DEVICE;
    }
}

interop_status driver_fail(const char *who, const char *call, driver_result result)
{
    const char *description = NULL;
    if (driver.error_string(result, &description) != DRIVER_SUCCESS || !description)
        description = "no description";
    return runtime_fail(status_of(result), "%s: %s: %s (%s)", who, call, driver_result_name(result), description);
}
