/* What the files of the CPU device share, and what emitted code relies on. Not for callers.
 *
 * Emitted code reads interop_cpu_block and interop_cpu_thread by offset: interop/executor/records.py has the same
 * offsets, and interop_cpu.c asserts them.
 */
#ifndef INTEROP_CPU_IMPL_H
#define INTEROP_CPU_IMPL_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interop_cpu.h"

enum { INTEROP_CPU_WARP = 32, INTEROP_CPU_BARRIERS = 16, INTEROP_CPU_MAX_THREADS = 1024 };

/* What a thread waits for; emitted code stores it before it suspends. */
enum interop_cpu_wait {
    INTEROP_CPU_READY = 0,
    INTEROP_CPU_WARP_SYNC = 1,
    INTEROP_CPU_SHFL = 2,
    INTEROP_CPU_VOTE = 3,
    INTEROP_CPU_MATCH = 4,
    INTEROP_CPU_REDUX = 5,
    INTEROP_CPU_ELECT = 6,
    INTEROP_CPU_ACTIVEMASK = 7,
    INTEROP_CPU_BARRIER = 8,
    INTEROP_CPU_BARRIER_RED = 9,
    INTEROP_CPU_SPIN = 10,
    INTEROP_CPU_DONE = 11,
    INTEROP_CPU_MATRIX = 12 /* by the whole warp; `mode` is the word of interop_cpu_matrix.h */
};

enum { INTEROP_CPU_SHFL_UP, INTEROP_CPU_SHFL_DOWN, INTEROP_CPU_SHFL_BFLY, INTEROP_CPU_SHFL_IDX };
enum { INTEROP_CPU_VOTE_ALL, INTEROP_CPU_VOTE_ANY, INTEROP_CPU_VOTE_UNI, INTEROP_CPU_VOTE_BALLOT };
enum { INTEROP_CPU_MATCH_ANY, INTEROP_CPU_MATCH_ALL };
enum {
    INTEROP_CPU_REDUX_ADD,
    INTEROP_CPU_REDUX_MIN_S,
    INTEROP_CPU_REDUX_MAX_S,
    INTEROP_CPU_REDUX_MIN_U,
    INTEROP_CPU_REDUX_MAX_U,
    INTEROP_CPU_REDUX_AND,
    INTEROP_CPU_REDUX_OR,
    INTEROP_CPU_REDUX_XOR
};
/* How a thread arrives at an mbarrier object: bits. */
enum interop_cpu_arrival { INTEROP_CPU_EXPECT = 1, INTEROP_CPU_DROP = 2, INTEROP_CPU_INCOMPLETE = 4 };
enum { INTEROP_CPU_RED_POPC, INTEROP_CPU_RED_AND, INTEROP_CPU_RED_OR };

typedef struct interop_cpu_segment interop_cpu_segment; /* of a thread's stack */

/* One thread of a block that runs as coroutines. */
typedef struct interop_cpu_thread {
    uint32_t wait;   /* enum interop_cpu_wait */
    uint32_t site;   /* line in the PTX of what it waits at */
    uint32_t mask;   /* members of the warp operation; number of the barrier */
    uint32_t mode;   /* which shuffle, vote, ...; threads expected at the barrier, 0 for all */
    uint64_t value;  /* operand a */
    uint32_t b, c;   /* operands b and c of a shuffle */
    uint64_t result; /* what the operation yields */
    uint32_t flag;   /* the predicate that it yields */
    uint32_t tid[3];
    void *frame;                /* the coroutine */
    interop_cpu_segment *stack; /* what it allocated by alloca */
    void *innermost;            /* the coroutine to resume when that is a function which `frame` called; else NULL */
    uint32_t exited;            /* by `exit` in such a function */
} interop_cpu_thread;

typedef struct interop_cpu_chunk {
    struct interop_cpu_chunk *next;
    size_t bytes;
    _Alignas(64) unsigned char data[];
} interop_cpu_chunk;

struct interop_cpu_job;

/* What one memory access of the kernel may touch without asking: addresses in [base, base + count). Filled by
 * cpu_bounds(), separately for each worker; a count of zero lets nothing through. */
typedef struct interop_cpu_site {
    uint64_t base, count;
} interop_cpu_site;

/* The block that a worker runs, and the worker's own memory. Emitted code knows the fields down to `stop`. */
typedef struct interop_cpu_block {
    const void *zero; /* always NULL: emitted code makes its pointers from this and an integer */
    unsigned char *shared;
    uint32_t ctaid[3];
    uint32_t ntid[3];
    uint32_t nctaid[3];
    uint32_t shared_bytes;
    uint32_t dynamic_bytes;
    uint32_t worker;
    const void *params;
    interop_cpu_site *sites;
    const atomic_int *stop; /* not zero: emitted code calls cpu_poll() */

    struct interop_cpu_job *job;
    struct interop_cpu_block *next_free;
    size_t site_capacity;
    const char *stack; /* somewhere in the worker's frame: locals of a plain kernel lie below */
    jmp_buf leave;
    size_t shared_capacity;

    interop_cpu_thread *threads;
    uint32_t thread_count, thread_capacity;
    uint32_t live[INTEROP_CPU_MAX_THREADS / INTEROP_CPU_WARP]; /* lanes that have not exited, a warp each */
    uint32_t arrived[INTEROP_CPU_BARRIERS][INTEROP_CPU_MAX_THREADS / INTEROP_CPU_WARP]; /* by bar.arrive, each warp */
    uint32_t arrived_expected[INTEROP_CPU_BARRIERS];
    interop_cpu_chunk *chunks, *chunk;
    size_t chunk_used;
    interop_cpu_segment *spare[32]; /* of stacks, by the power of two of their sizes */
    size_t stack_bytes;             /* in use by the threads' stacks */

    char *print;
    size_t print_used, print_capacity;

    void *fragments; /* of matrix instructions, each warp its own */
    uint32_t fragment_capacity;
    struct interop_cpu_copies *copies; /* that wait, in the strict mode of cp.async; NULL until there is one */
} interop_cpu_block;

/* From this line of the PTX on, the code comes from `line` of files[file]. */
typedef struct interop_cpu_line {
    uint32_t ptx, file, line;
} interop_cpu_line;

/* A variable of the module that the kernel may reach. */
typedef struct interop_cpu_variable {
    const void *address;
    uint64_t bytes;
    const char *name;
    uint32_t flags; /* INTEROP_CPU_WRITABLE */
    uint32_t reserved;
} interop_cpu_variable;

/* What `extra` of a kernel points to. */
typedef struct interop_cpu_program {
    uint32_t coroutine; /* entry is a ramp, not a loop over the block */
    uint32_t spins;     /* threads may wait for other threads through memory */
    uint32_t sites;     /* memory accesses that are checked */
    uint32_t line_count, file_count, variable_count, version_count, reserved;
    const interop_cpu_line *lines; /* by ascending `ptx` */
    const char *const *files;
    const interop_cpu_variable *variables;
    const interop_cpu_kernel *const *versions; /* of the same kernel, for several lanes */
} interop_cpu_program;

typedef void (*interop_cpu_loop)(interop_cpu_block *block, const void *params);
typedef void *(*interop_cpu_ramp)(interop_cpu_block *block, const void *params, interop_cpu_thread *thread, uint32_t x,
                                  uint32_t y, uint32_t z);

/* One launch. */
typedef struct interop_cpu_job {
    const interop_cpu_kernel *kernel;
    const void *params;
    uint32_t grid[3], block[3];
    uint32_t dynamic_bytes;
    uint64_t total, chunk;
    atomic_uint_fast64_t next;
    atomic_uint_fast64_t progress; /* grows whenever a block that had spun goes on */
    /* Bits of enum interop_cpu_stop. `attention` is what the launching thread looks at, `stop` what the others do. */
    atomic_int stop, attention;
    atomic_int cut; /* blocks that a worker had taken were not run */
    atomic_uint spinning, active;
    const interop_cpu_range *ranges; /* by ascending address; NULL: unknown */
    size_t range_count;
    double budget;
    const interop_cpu_flag *interrupt;
    int32_t (*poll)(void *user);
    void *user;
    /* Guarded by the pool's lock. */
    interop_cpu_error error;
    uint32_t wanted, helpers, workers;
    struct interop_cpu_job *next_job;
    /* Guarded by the watch's lock. */
    double deadline, polled;
    struct interop_cpu_job *next_watched;
} interop_cpu_job;

/* Why workers stop, or look up. */
enum interop_cpu_stop {
    INTEROP_CPU_STOP_FAILED = 1,
    INTEROP_CPU_STOP_BUDGET = 2,
    INTEROP_CPU_STOP_INTERRUPT = 4,
    INTEROP_CPU_LOOK = 8 /* the launching thread only: time to call `poll` */
};

/* What an access does, for cpu_bounds(); a state space may be added. */
enum { INTEROP_CPU_READ = 0, INTEROP_CPU_WRITE = 1, INTEROP_CPU_UPDATE = 2 };
enum { INTEROP_CPU_SHARED = 16, INTEROP_CPU_LOCAL = 32 };

#define INTEROP_CPU_NORETURN _Noreturn

/* Ends the launch with `status`; `tid` NULL: no thread is to blame. Does not return to the caller. */
INTEROP_CPU_NORETURN void INTEROP_SYM(cpu_fail)(interop_cpu_block *block, int32_t status, const uint32_t *tid,
                                                const char *format, ...);
void INTEROP_SYM(cpu_run_coroutines)(interop_cpu_block *block);
/* The kernel itself, or its version for several lanes that suits the block. */
const interop_cpu_kernel *INTEROP_SYM(cpu_version_for)(const interop_cpu_kernel *kernel, const uint32_t block[3]);
void INTEROP_SYM(cpu_run_strands)(interop_cpu_block *block);
/* Ends the launch with `what` and where the threads of the block wait. */
INTEROP_CPU_NORETURN void INTEROP_SYM(cpu_report)(interop_cpu_block *block, const char *what);
/* Ends the block where the launch is to end early. */
void INTEROP_SYM(cpu_leave_if_stopped)(interop_cpu_block *block);
void INTEROP_SYM(cpu_flush_print)(interop_cpu_block *block);
/* The matrix instruction at which `members` of a warp stand. */
void INTEROP_SYM(cpu_perform_matrix)(interop_cpu_block *block, const interop_cpu_thread *warp, uint32_t members);
void INTEROP_SYM(cpu_clear_copies)(interop_cpu_block *block);
void INTEROP_SYM(cpu_free_copies)(interop_cpu_block *block);
void INTEROP_SYM(cpu_emit_print)(const char *text, size_t bytes);
double INTEROP_SYM(cpu_seconds)(void);

/* Sets bits for all workers of a launch. */
void INTEROP_SYM(cpu_stop)(interop_cpu_job *job, int bits);
/* Begins and ends the watch over a launch's time and its wish to be polled; false: there is nobody to watch. */
bool INTEROP_SYM(cpu_watch)(interop_cpu_job *job);
void INTEROP_SYM(cpu_unwatch)(interop_cpu_job *job);
/* What the launching thread does where INTEROP_CPU_LOOK is set: calls `poll`. */
void INTEROP_SYM(cpu_look)(interop_cpu_job *job);
/* Whether the worker must end; between blocks and in the scheduler's loops, where no thread is to be named. */
bool INTEROP_SYM(cpu_must_stop)(interop_cpu_block *block);
/* Why the launch ends early, as the beginning of a message; NULL where it has failed already. */
const char *INTEROP_SYM(cpu_stop_reason)(const interop_cpu_job *job, char *text, size_t size);
/* "ptx line 12, saxpy.cu:7": the place in the PTX, and in the source where the PTX tells it. Returns `text`. */
const char *INTEROP_SYM(cpu_place)(const interop_cpu_block *block, uint32_t line, char *text, size_t size);
/* Says which threads of a block that runs as coroutines wait where; `skip` (may be NULL) is left out. */
void INTEROP_SYM(cpu_describe_waiting)(const interop_cpu_block *block, const uint32_t *skip, char *text, size_t size);

enum { INTEROP_CPU_PLACE = 192 };

/* Called by emitted code. X(return type, name, parameters) */
#define INTEROP_CPU_HELPERS(X)                                                                                         \
    X(void, cpu_trap, (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line))                  \
    X(void, cpu_poll, (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line))                  \
    X(void, cpu_bounds,                                                                                                \
      (interop_cpu_block * block, uint32_t site, uint64_t address, uint32_t bytes, uint32_t access, uint32_t x,        \
       uint32_t y, uint32_t z, uint32_t line))                                                                         \
    X(void, cpu_bounds_lanes,                                                                                          \
      (interop_cpu_block * block, uint32_t site, const uint64_t *addresses, uint32_t lanes, uint32_t mask,             \
       uint32_t bytes, uint32_t access, uint32_t first_x, uint32_t y, uint32_t z, uint32_t line))                      \
    X(void, cpu_stuck,                                                                                                 \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, const uint32_t *places, uint32_t count))         \
    X(uint64_t, cpu_check_stack,                                                                                       \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, uint64_t bytes))                  \
    X(void, cpu_assertfail,                                                                                            \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, const char *message, const char *file,           \
       uint32_t line))                                                                                                 \
    X(void, cpu_no_function,                                                                                           \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, uint64_t address))                \
    X(void, cpu_misaligned,                                                                                            \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, uint64_t address,                 \
       uint32_t bytes))                                                                                                \
    X(uint64_t, cpu_malloc, (uint64_t bytes, uint64_t align))                                                          \
    X(void, cpu_free,                                                                                                  \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, uint64_t address))                \
    X(uint64_t, cpu_alloca,                                                                                            \
      (interop_cpu_block * block, interop_cpu_thread * thread, uint32_t line, uint64_t bytes, uint64_t align))         \
    X(void *, cpu_call_frame, (interop_cpu_block * block, interop_cpu_thread * thread, uint32_t line, uint64_t bytes)) \
    X(void, cpu_call_return, (interop_cpu_thread * thread))                                                            \
    X(void, cpu_call_end, (interop_cpu_block * block, void *frame))                                                    \
    X(uint64_t, cpu_stack_save, (const interop_cpu_thread *thread))                                                    \
    X(void, cpu_stack_restore, (interop_cpu_block * block, interop_cpu_thread * thread, uint64_t top))                 \
    X(int32_t, cpu_vprintf, (interop_cpu_block * block, const char *format, const unsigned char *arguments))           \
    X(void *, cpu_frame, (interop_cpu_block * block, uint64_t bytes))                                                  \
    X(void, cpu_arrive, (interop_cpu_block * block, interop_cpu_thread * thread, uint32_t barrier, uint32_t count))    \
    X(uint32_t, cpu_is_local, (const interop_cpu_block *block, uint64_t address))                                      \
    X(void *, cpu_fragment, (interop_cpu_block * block, const interop_cpu_thread *thread))                             \
    X(void, cpu_matrix, (interop_cpu_block * block, uint32_t code, uint32_t line, uint32_t members, void *fragments))  \
    X(void, cpu_mbarrier_init,                                                                                         \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, void *object, uint32_t count))    \
    X(uint64_t, cpu_mbarrier_arrive,                                                                                   \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, void *object, uint32_t count,     \
       uint32_t bytes, uint32_t how))                                                                                  \
    X(void, cpu_mbarrier_transact,                                                                                     \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, void *object, uint32_t bytes,     \
       uint32_t complete))                                                                                             \
    X(uint32_t, cpu_mbarrier_test,                                                                                     \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t line, const void *object,               \
       uint64_t state, uint32_t parity))                                                                               \
    X(uint32_t, cpu_mbarrier_pending, (uint64_t state))                                                                \
    X(void, cpu_copy_later,                                                                                            \
      (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, void *to, const void *from, uint32_t bytes,      \
       uint32_t used))                                                                                                 \
    X(void, cpu_copy_lanes,                                                                                            \
      (const uint64_t *to, const uint64_t *from, const uint32_t *used, uint32_t mask, uint32_t bytes))                 \
    X(void, cpu_commit_copies, (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z))                        \
    X(void, cpu_wait_copies, (interop_cpu_block * block, uint32_t x, uint32_t y, uint32_t z, uint32_t open))           \
    X(uint64_t, cpu_global_timer, (void))                                                                              \
    X(float, cpu_add_f32, (float a, float b, uint32_t mode))                                                           \
    X(float, cpu_sub_f32, (float a, float b, uint32_t mode))                                                           \
    X(float, cpu_mul_f32, (float a, float b, uint32_t mode))                                                           \
    X(float, cpu_div_f32, (float a, float b, uint32_t mode))                                                           \
    X(float, cpu_fma_f32, (float a, float b, float c, uint32_t mode))                                                  \
    X(float, cpu_sqrt_f32, (float a, uint32_t mode))                                                                   \
    X(double, cpu_add_f64, (double a, double b, uint32_t mode))                                                        \
    X(double, cpu_sub_f64, (double a, double b, uint32_t mode))                                                        \
    X(double, cpu_mul_f64, (double a, double b, uint32_t mode))                                                        \
    X(double, cpu_div_f64, (double a, double b, uint32_t mode))                                                        \
    X(double, cpu_fma_f64, (double a, double b, double c, uint32_t mode))                                              \
    X(double, cpu_sqrt_f64, (double a, uint32_t mode))                                                                 \
    X(float, cpu_f64_to_f32, (double a, uint32_t mode))                                                                \
    X(float, cpu_s64_to_f32, (int64_t a, uint32_t mode))                                                               \
    X(float, cpu_u64_to_f32, (uint64_t a, uint32_t mode))                                                              \
    X(double, cpu_s64_to_f64, (int64_t a, uint32_t mode))                                                              \
    X(double, cpu_u64_to_f64, (uint64_t a, uint32_t mode))                                                             \
    X(uint16_t, cpu_f64_to_half, (double a, uint32_t bfloat, uint32_t mode))                                           \
    X(uint16_t, cpu_s64_to_half, (int64_t a, uint32_t bfloat, uint32_t mode))                                          \
    X(uint16_t, cpu_u64_to_half, (uint64_t a, uint32_t bfloat, uint32_t mode))                                         \
    X(uint16_t, cpu_fma_half, (double a, double b, double c, uint32_t bfloat, uint32_t mode))                          \
    X(uint32_t, cpu_f64_to_f8, (double a, uint32_t e5m2))                                                              \
    X(uint32_t, cpu_fns, (uint32_t mask, uint32_t base, int32_t offset))

#define INTEROP_CPU_DECLARE(type, name, parameters) type INTEROP_SYM(name) parameters;
INTEROP_CPU_HELPERS(INTEROP_CPU_DECLARE)
#undef INTEROP_CPU_DECLARE

#endif
