/* The CPU device: runs kernels that were translated from PTX to host code.
 *
 * One translated kernel is an `interop_cpu_kernel` record that the emitted object defines. The Python just-in-time path
 * and exported libraries run it through the same function, interop_cpu_launch().
 *
 * Every external symbol goes through INTEROP_SYM so that each exported bundle carries its own copy under its own
 * prefix.
 */
#ifndef INTEROP_CPU_H
#define INTEROP_CPU_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#include <atomic>
typedef std::atomic<int> interop_cpu_flag;
#else
#include <stdatomic.h>
typedef atomic_int interop_cpu_flag;
#endif

#ifndef INTEROP_PREFIX
#define INTEROP_PREFIX interop_
#endif
#define INTEROP_CAT2(a, b) a##b
#define INTEROP_CAT(a, b) INTEROP_CAT2(a, b)
#define INTEROP_SYM(name) INTEROP_CAT(INTEROP_PREFIX, name)

#ifdef __cplusplus
extern "C" {
#endif

#define INTEROP_CPU_ABI 2u

/* Status numbers are those of the shared table (interop_status); only these two come from here besides 0. */

typedef struct interop_cpu_error {
    int32_t status;    /* 0, or a number of the shared status table (11: the kernel stopped with an error, ...) */
    uint32_t block[3]; /* where it happened, when a thread is to blame */
    uint32_t thread[3];
    char message[512]; /* complete but for the kernel's name, which the caller puts before it; block and thread are in
                          it where a thread is to blame: "index out of range (a.py:3), block (0, 0, 0), thread (5, 0,
                          0)" */
} interop_cpu_error;

/* The kernel's lanes work together: a row of the block must be a whole number of warps, or the only one. */
enum { INTEROP_CPU_WARPS = 1, INTEROP_CPU_WHOLE = 2 };

/* Opaque to callers: filled in by emitted code. The fields a launcher may read come first and keep their order. */
typedef struct interop_cpu_kernel {
    uint32_t abi;                 /* INTEROP_CPU_ABI */
    uint32_t lanes;               /* W of the translation: 1 is the exact path */
    const char *symbol;           /* the image's name of the kernel */
    uint32_t param_bytes;         /* size of the parameter buffer */
    uint32_t static_shared_bytes; /* .shared variables of fixed size */
    uint32_t block[3];            /* .reqntid, or zeros */
    uint32_t flags;               /* INTEROP_CPU_WARPS, INTEROP_CPU_WHOLE */
    const void *entry;            /* emitted code; the executor's own business from here on */
    const void *extra;
} interop_cpu_kernel;

/* Runs the whole grid and returns the status; `error` may be NULL. Blocks are spread over a pool of threads
 * (`threads` = 0: as many as there are cores). Safe to call from several threads at once. */
int32_t INTEROP_SYM(cpu_launch)(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                uint32_t threads, interop_cpu_error *error);

enum { INTEROP_CPU_WRITABLE = 1 }; /* flags of a range */

/* Memory that a launch may touch. */
typedef struct interop_cpu_range {
    uint64_t address, bytes;
    const char *name; /* what messages call it: the parameter's name; NULL: "a buffer" */
    uint32_t flags;
    uint32_t reserved;
} interop_cpu_range;

/* What a launch may be given besides. Zero everywhere is what interop_cpu_launch() does. */
typedef struct interop_cpu_options {
    uint32_t size;  /* sizeof(interop_cpu_options): a later version may know more fields */
    uint32_t flags; /* 0 */
    /* Seconds after which the launch ends with an error. 0: the environment's INTEROP_CPU_BUDGET_SECONDS, else none. */
    double budget_seconds;
    /* Where another thread, or a signal handler, puts a number that is not zero, the launch ends with an error within
     * some hundredths of a second. May be NULL. */
    const interop_cpu_flag *interrupt;
    /* The global memory that the kernel may touch, besides its own: variables of its module, shared, local and
     * parameter memory. NULL: any, nothing is known. Kernels that were translated without checks do not look. */
    const interop_cpu_range *ranges;
    size_t range_count;
    /* Called by the launching thread about twenty times a second while the kernel runs, never in launches that are
     * shorter than that. What it returns ends the launch with an error where it is not zero. May be NULL. */
    int32_t (*poll)(void *user);
    void *user;
} interop_cpu_options;

/* interop_cpu_launch() with options; NULL: none. A launch that is ended early has run some blocks and not others. */
int32_t INTEROP_SYM(cpu_launch_with)(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                     const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                     uint32_t threads, const interop_cpu_options *options, interop_cpu_error *error);

/* What kernels print: `text` is not terminated. One call at a time; a block's text comes whole, in order per thread. */
typedef void (*interop_cpu_print_hook)(void *user, const char *text, size_t bytes);

/* Sends what kernels print to `hook`; NULL: to the standard output, the default. */
void INTEROP_SYM(cpu_set_print)(interop_cpu_print_hook hook, void *user);

#ifdef __cplusplus
}
#endif
#endif
