/* Contexts as a host with its own CUDA code sees them: needs the stand-in for the driver. */
#define _POSIX_C_SOURCE 200809L
#include <mix.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;

static void *driver(const char *name)
{
    void *function = dlsym(library, name);
    if (!function)
        exit(9);
    return function;
}

static void *current(void)
{
    int (*get)(void **) = NULL;
    void *function = driver("cuCtxGetCurrent"), *context = NULL;
    memcpy(&get, &function, sizeof get);
    get(&context);
    return context;
}

static void *use_device(int device)
{
    int (*retain)(void **, int) = NULL, (*set)(void *) = NULL;
    void *function = driver("cuDevicePrimaryCtxRetain"), *context = NULL;
    memcpy(&retain, &function, sizeof retain);
    function = driver("cuCtxSetCurrent");
    memcpy(&set, &function, sizeof set);
    retain(&context, device);
    set(context);
    return context;
}

int main(void)
{
    mix_module *zero = NULL, *one = NULL, *mine = NULL;
    float host[4] = {0};
    void *on_zero = NULL, *on_one = NULL, *context;
    library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library || mix_load(interop_device_cuda(0), &zero) || mix_load(interop_device_cuda(1), &one))
        return 1;
    printf("%d devices\n", mix_device(zero).ordinal + mix_device(one).ordinal + 1);
    if (mix_alloc(zero, 16, &on_zero) || mix_alloc(one, 16, &on_one))
        return 2;
    printf("%d ", (int)mix_scale(one, NULL, (interop_slice_f32){host, 4}, 1.0f));
    printf("%s\n", mix_last_error());
    printf("%d ", (int)mix_scale(one, NULL, (interop_slice_f32){on_zero, 4}, 1.0f));
    printf("%s\n", mix_last_error());

    /* A launch on GPU 1 while the thread is on GPU 0 goes to GPU 1 and leaves the thread where it was. */
    context = use_device(0);
    if (mix_scale(one, NULL, (interop_slice_f32){on_one, 4}, 1.0f))
        return 3;
    printf("context kept: %s\n", current() == context ? "yes" : "no");
    mix_free(zero, on_zero);
    mix_free(one, on_one);
    mix_unload(one);
    mix_unload(zero);
    printf("after unload: %s\n", current() == context ? "yes" : "no");

    /* best takes the GPU that the thread is on. */
    use_device(1);
    if (mix_load(interop_device_best(), &mine))
        return 4;
    printf("in the caller's context: %s\n", mix_device(mine).ordinal == 1 ? "yes" : "no");
    mix_unload(mine);

    fflush(stdout);
    if (fork() == 0) {
        const interop_status status = mix_load(interop_device_cuda(0), &mine);
        printf("%d %s\n", (int)status, mix_last_error());
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    return 0;
}
