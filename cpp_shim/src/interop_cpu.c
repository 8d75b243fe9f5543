/* The CPU device: launching. Blocks are handed out in chunks to the calling thread and to a pool of helpers. */
#define _GNU_SOURCE /* sched_getaffinity, pthread_getattr_np */
#include "interop_cpu.h"

#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interop_cpu_impl.h"

enum { ARGUMENT_TYPE = 1, ARGUMENT_RANGE = 2, OUT_OF_MEMORY = 10, EXECUTION = 11, INTERNAL = 12 };
enum { MAX_HELPERS = 1023, MAX_SHARED = 227 * 1024 };

/* The fields that emitted code reads by offset. */
_Static_assert(offsetof(interop_cpu_block, shared) == 8, "block layout");
_Static_assert(offsetof(interop_cpu_block, ctaid) == 16, "block layout");
_Static_assert(offsetof(interop_cpu_block, ntid) == 28, "block layout");
_Static_assert(offsetof(interop_cpu_block, nctaid) == 40, "block layout");
_Static_assert(offsetof(interop_cpu_block, shared_bytes) == 52, "block layout");
_Static_assert(offsetof(interop_cpu_block, dynamic_bytes) == 56, "block layout");
_Static_assert(offsetof(interop_cpu_block, worker) == 60, "block layout");
_Static_assert(offsetof(interop_cpu_block, params) == 64, "block layout");
_Static_assert(offsetof(interop_cpu_block, sites) == 72, "block layout");
_Static_assert(offsetof(interop_cpu_block, stop) == 80, "block layout");
_Static_assert(offsetof(interop_cpu_thread, value) == 16, "thread layout");
_Static_assert(offsetof(interop_cpu_thread, b) == 24, "thread layout");
_Static_assert(offsetof(interop_cpu_thread, c) == 28, "thread layout");
_Static_assert(offsetof(interop_cpu_thread, result) == 32, "thread layout");
_Static_assert(offsetof(interop_cpu_thread, flag) == 40, "thread layout");
_Static_assert(offsetof(interop_cpu_thread, exited) == 80, "thread layout");

/* Everything that outlives a launch. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    pthread_t helpers[MAX_HELPERS];
    uint32_t count;
    bool quit, registered;
    interop_cpu_job *jobs; /* launches that want more helpers */
    interop_cpu_block *free;
    interop_cpu_print_hook print;
    void *print_user;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

double INTEROP_SYM(cpu_seconds)(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

uint64_t INTEROP_SYM(cpu_global_timer)(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void INTEROP_SYM(cpu_set_print)(interop_cpu_print_hook hook, void *user)
{
    pthread_mutex_lock(&pool.lock);
    pool.print = hook;
    pool.print_user = user;
    pthread_mutex_unlock(&pool.lock);
}

void INTEROP_SYM(cpu_emit_print)(const char *text, size_t bytes)
{
    static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER; /* not the pool's: a hook may launch */
    pthread_mutex_lock(&pool.lock);
    interop_cpu_print_hook hook = pool.print;
    void *user = pool.print_user;
    pthread_mutex_unlock(&pool.lock);
    pthread_mutex_lock(&turn);
    if (hook != NULL)
        hook(user, text, bytes);
    else
        fwrite(text, 1, bytes, stdout);
    pthread_mutex_unlock(&turn);
}

/* ---- errors ---- */

void INTEROP_SYM(cpu_fail)(interop_cpu_block *block, int32_t status, const uint32_t *tid, const char *format, ...)
{
    interop_cpu_error error = {.status = status};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error.message, sizeof error.message, format, arguments);
    va_end(arguments);
    memcpy(error.block, block->ctaid, sizeof error.block);
    if (tid != NULL) {
        char where[128];
        memcpy(error.thread, tid, sizeof error.thread);
        int length = snprintf(where, sizeof where, ", block (%u, %u, %u), thread (%u, %u, %u)", block->ctaid[0],
                              block->ctaid[1], block->ctaid[2], tid[0], tid[1], tid[2]);
        size_t used = strlen(error.message), most = sizeof error.message - 1 - (size_t)length;
        memcpy(error.message + (used < most ? used : most), where, (size_t)length + 1);
    }
    pthread_mutex_lock(&pool.lock);
    if (block->job->error.status == 0)
        block->job->error = error;
    pthread_mutex_unlock(&pool.lock);
    INTEROP_SYM(cpu_stop)(block->job, INTEROP_CPU_STOP_FAILED);
    longjmp(block->leave, 1);
}

void INTEROP_SYM(cpu_trap)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line)
{
    char place[INTEROP_CPU_PLACE];
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, (uint32_t[]){x, y, z}, "trap (%s)", INTEROP_SYM(cpu_place)(block, line, place, sizeof place));
}

void INTEROP_SYM(cpu_no_function)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                  uint64_t address)
{
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, (uint32_t[]){x, y, z}, "a call of 0x%llx, which is no function of its kind (ptx line %u)",
     (unsigned long long)address, line);
}

void INTEROP_SYM(cpu_misaligned)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                 uint64_t address, uint32_t bytes)
{
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, (uint32_t[]){x, y, z}, "the address 0x%llx is no multiple of %u (ptx line %u)",
     (unsigned long long)address, bytes, line);
}

void INTEROP_SYM(cpu_assertfail)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, const char *message,
                                 const char *file, uint32_t line)
{
    INTEROP_SYM(cpu_fail)(block, EXECUTION, (uint32_t[]){x, y, z}, "%.300s (%.80s:%u)", message, file, line);
}

/* Where this thread's stack may end: the largest local variable of PTX and what the runtime needs lie below. */
static uintptr_t stack_end(void)
{
    static _Thread_local uintptr_t end;
    enum { RESERVE = 1 << 20 };
    pthread_attr_t attributes;
    void *lowest = NULL;
    size_t bytes = 0;
    if (end == 0 && pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &lowest, &bytes) == 0)
            end = (uintptr_t)lowest + (bytes / 2 < RESERVE ? bytes / 2 : RESERVE);
        pthread_attr_destroy(&attributes);
    }
    return end;
}

/* Returns `bytes`, so that the compiler takes the size from here and allocates nothing before the check. */
uint64_t INTEROP_SYM(cpu_check_stack)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                      uint64_t bytes)
{
    const char probe = 0;
    const uintptr_t here = (uintptr_t)&probe, end = stack_end();
    if (here >= end && here - end >= bytes)
        return bytes;
    char place[INTEROP_CPU_PLACE];
    INTEROP_SYM(cpu_place)(block, line, place, sizeof place);
    if (bytes > 0)
        INTEROP_SYM(cpu_fail)(block, EXECUTION, (uint32_t[]){x, y, z}, "the stack has no room for %llu bytes (%s)",
                              (unsigned long long)bytes, place);
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, (uint32_t[]){x, y, z}, "a function calls itself until the stack is full (%s)", place);
}

/* ---- a worker's memory ---- */

static interop_cpu_block *take_block(void)
{
    pthread_mutex_lock(&pool.lock);
    interop_cpu_block *block = pool.free;
    if (block != NULL)
        pool.free = block->next_free;
    pthread_mutex_unlock(&pool.lock);
    return block != NULL ? block : calloc(1, sizeof *block);
}

static void give_block(interop_cpu_block *block)
{
    pthread_mutex_lock(&pool.lock);
    block->next_free = pool.free;
    pool.free = block;
    pthread_mutex_unlock(&pool.lock);
}

static void free_block(interop_cpu_block *block)
{
    while (block->chunks != NULL) {
        interop_cpu_chunk *next = block->chunks->next;
        free(block->chunks);
        block->chunks = next;
    }
    free(block->threads);
    free(block->sites);
    free(block->shared);
    free(block->print);
    free(block->fragments);
    INTEROP_SYM(cpu_free_copies)(block);
    free(block);
}

uint32_t INTEROP_SYM(cpu_is_local)(const interop_cpu_block *block, uint64_t address)
{
    const char probe = 0;
    if (address >= (uint64_t)(uintptr_t)&probe && address < (uint64_t)(uintptr_t)block->stack)
        return 1;
    for (const interop_cpu_chunk *chunk = block->chunks; chunk != NULL; chunk = chunk->next)
        if (address - (uint64_t)(uintptr_t)chunk->data < chunk->bytes)
            return 1;
    return 0;
}

static bool reserve_shared(interop_cpu_block *block, size_t bytes)
{
    enum { ALIGN = 1024 }; /* the most that kernels ask for: swizzled tiles */
    bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (bytes > block->shared_capacity) {
        free(block->shared);
        block->shared = aligned_alloc(ALIGN, bytes);
        block->shared_capacity = block->shared != NULL ? bytes : 0;
        if (block->shared == NULL)
            return false;
        memset(block->shared, 0, bytes);
    }
    return true;
}

/* Empty caches for the kernel's memory accesses. */
static bool reserve_sites(interop_cpu_block *block, size_t count)
{
    if (count > block->site_capacity) {
        free(block->sites);
        block->sites = malloc(count * sizeof *block->sites);
        block->site_capacity = block->sites != NULL ? count : 0;
        if (block->sites == NULL)
            return false;
    }
    if (count > 0)
        memset(block->sites, 0, count * sizeof *block->sites);
    return true;
}

/* ---- running blocks ---- */

static void place_block(interop_cpu_block *block, uint64_t index)
{
    const uint64_t x = block->job->grid[0], y = block->job->grid[1];
    block->ctaid[0] = (uint32_t)(index % x);
    block->ctaid[1] = (uint32_t)(index / x % y);
    block->ctaid[2] = (uint32_t)(index / x / y);
}

/* The next one in the grid: divisions are for the first of a chunk. */
static void advance_block(interop_cpu_block *block)
{
    const uint32_t *grid = block->job->grid;
    if (++block->ctaid[0] < grid[0])
        return;
    block->ctaid[0] = 0;
    if (++block->ctaid[1] < grid[1])
        return;
    block->ctaid[1] = 0;
    block->ctaid[2]++;
}

static void run_block(interop_cpu_block *block)
{
    const interop_cpu_job *job = block->job;
    if (block->copies != NULL)
        INTEROP_SYM(cpu_clear_copies)(block); /* what the block before did not wait for */
    const interop_cpu_program *program = job->kernel->extra;
    if (program->coroutine && job->kernel->lanes > 1) {
        INTEROP_SYM(cpu_run_strands)(block);
    } else if (program->coroutine) {
        INTEROP_SYM(cpu_run_coroutines)(block);
    } else {
        interop_cpu_loop loop;
        memcpy(&loop, &job->kernel->entry, sizeof loop);
        loop(block, job->params);
    }
    if (block->print_used)
        INTEROP_SYM(cpu_flush_print)(block);
}

static void want_helpers(interop_cpu_job *job);

/* Takes chunks until none is left. `first` is the launching thread: it calls for helpers once the launch proves long
 * enough to be worth waking them. */
static void run_chunks(interop_cpu_block *block, bool first)
{
    interop_cpu_job *job = block->job;
    const interop_cpu_program *program = job->kernel->extra;
    const double start = first ? INTEROP_SYM(cpu_seconds)() : 0;
    bool waiting = first && job->wanted > 0;
    if (waiting && program->spins) { /* a block may wait for a later one: all workers from the start */
        want_helpers(job);
        waiting = false;
    }
    while (!INTEROP_SYM(cpu_must_stop)(block)) {
        const uint64_t begin = atomic_fetch_add(&job->next, job->chunk);
        if (begin >= job->total)
            break;
        const uint64_t end = begin + job->chunk < job->total ? begin + job->chunk : job->total;
        uint64_t index = begin;
        place_block(block, begin);
        for (; index < end && !INTEROP_SYM(cpu_must_stop)(block); index++, advance_block(block))
            run_block(block);
        if (index < end)
            atomic_store(&job->cut, 1);
        if (waiting && INTEROP_SYM(cpu_seconds)() - start > 10e-6) {
            want_helpers(job);
            waiting = false;
        }
    }
}

/* Errors jump back here from wherever in the kernel they are found. */
static void run_guarded(interop_cpu_block *block, bool first)
{
    if (setjmp(block->leave) == 0) {
        if (!reserve_shared(block, block->shared_bytes))
            INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for %u bytes of shared memory",
                                  block->shared_bytes);
        if (!reserve_sites(block, ((const interop_cpu_program *)block->job->kernel->extra)->sites))
            INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for a worker");
        run_chunks(block, first);
    } else if (block->print_used) {
        INTEROP_SYM(cpu_flush_print)(block); /* what the kernel printed before it stopped often says why */
    }
}

static void take_part(interop_cpu_job *job, uint32_t worker, bool first)
{
    interop_cpu_block *block = take_block();
    fenv_t environment;
    if (block == NULL) {
        if (first) {
            pthread_mutex_lock(&pool.lock);
            job->error.status = OUT_OF_MEMORY;
            snprintf(job->error.message, sizeof job->error.message, "no memory for a worker");
            pthread_mutex_unlock(&pool.lock);
            INTEROP_SYM(cpu_stop)(job, INTEROP_CPU_STOP_FAILED);
        }
        return;
    }
    /* The calling thread may flush denormals or round otherwise; kernels must not see that. */
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    block->stack = __builtin_frame_address(0);
    block->job = job;
    block->stop = first ? &job->attention : &job->stop;
    block->worker = worker;
    block->params = job->params;
    memcpy(block->ntid, job->block, sizeof block->ntid);
    memcpy(block->nctaid, job->grid, sizeof block->nctaid);
    block->dynamic_bytes = job->dynamic_bytes;
    block->shared_bytes = job->kernel->static_shared_bytes + job->dynamic_bytes;
    block->print_used = 0;
    atomic_fetch_add(&job->active, 1);
    run_guarded(block, first);
    atomic_fetch_sub(&job->active, 1);
    fesetenv(&environment);
    give_block(block);
}

/* ---- the pool ---- */

static void *helper_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&pool.lock);
    while (!pool.quit) {
        interop_cpu_job *job = pool.jobs;
        if (job == NULL) {
            pthread_cond_wait(&pool.work, &pool.lock);
            continue;
        }
        job->helpers++;
        const uint32_t worker = ++job->workers;
        if (--job->wanted == 0)
            pool.jobs = job->next_job;
        pthread_mutex_unlock(&pool.lock);
        take_part(job, worker, false);
        pthread_mutex_lock(&pool.lock);
        if (--job->helpers == 0)
            pthread_cond_broadcast(&pool.idle);
    }
    pthread_mutex_unlock(&pool.lock);
    return NULL;
}

static void before_fork(void) { pthread_mutex_lock(&pool.lock); }

static void after_fork_parent(void) { pthread_mutex_unlock(&pool.lock); }

/* The child has no helpers; a launch in it starts new ones. */
static void after_fork_child(void)
{
    pthread_mutex_unlock(&pool.lock);
    pool.count = 0;
    pool.jobs = NULL;
    pthread_cond_init(&pool.work, NULL);
    pthread_cond_init(&pool.idle, NULL);
}

/* Puts the launch into the list and sees that enough helpers exist. Fewer than wished for is no error. */
static void want_helpers(interop_cpu_job *job)
{
    pthread_mutex_lock(&pool.lock);
    if (!pool.registered)
        pool.registered = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    while (pool.count < job->wanted && pool.count < MAX_HELPERS) {
        if (pthread_create(&pool.helpers[pool.count], NULL, helper_main, NULL) != 0)
            break;
        pool.count++;
    }
    interop_cpu_job **last = &pool.jobs;
    while (*last != NULL)
        last = &(*last)->next_job;
    *last = job;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
}

/* Takes the launch out of the list and waits for the helpers that had joined it. */
static void wait_for_helpers(interop_cpu_job *job)
{
    pthread_mutex_lock(&pool.lock);
    for (interop_cpu_job **at = &pool.jobs; *at != NULL; at = &(*at)->next_job)
        if (*at == job) {
            *at = job->next_job;
            break;
        }
    while (job->helpers) {
        if (job->poll == NULL) {
            pthread_cond_wait(&pool.idle, &pool.lock);
            continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 20000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&pool.idle, &pool.lock, &until);
        pthread_mutex_unlock(&pool.lock);
        INTEROP_SYM(cpu_look)(job);
        pthread_mutex_lock(&pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}

/* At exit, and when a library that holds this file is unloaded: no thread may run on in code that goes away. */
__attribute__((destructor)) static void stop_pool(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.quit = true;
    const uint32_t count = pool.count;
    pool.count = 0;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(pool.helpers[i], NULL);
    while (pool.free != NULL) {
        interop_cpu_block *next = pool.free->next_free;
        free_block(pool.free);
        pool.free = next;
    }
}

static uint32_t default_threads(void)
{
    const char *text = getenv("INTEROP_CPU_THREADS");
    if (text != NULL) {
        char *end;
        const long value = strtol(text, &end, 10);
        if (end != text && *end == '\0' && value > 0)
            return value > MAX_HELPERS ? MAX_HELPERS : (uint32_t)value;
    }
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    const long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

/* ---- launching ---- */

static int32_t refuse(interop_cpu_error *error, int32_t status, const char *format, ...)
{
    if (error != NULL) {
        va_list arguments;
        memset(error, 0, sizeof *error);
        error->status = status;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

static int32_t check(const interop_cpu_kernel *kernel, size_t param_bytes, const uint32_t grid[3],
                     const uint32_t block[3], uint32_t dynamic_shared_bytes, interop_cpu_error *error)
{
    static const uint32_t grid_limit[3] = {0x7fffffff, 65535, 65535}, block_limit[3] = {1024, 1024, 64};
    if (kernel->abi != INTEROP_CPU_ABI || kernel->lanes == 0 || kernel->lanes > INTEROP_CPU_WARP)
        return refuse(error, INTERNAL, "translated for another version of the CPU device (abi %u, %u lanes)",
                      kernel->abi, kernel->lanes);
    if (param_bytes < kernel->param_bytes)
        return refuse(error, ARGUMENT_TYPE, "takes %u bytes of parameters, got %zu", kernel->param_bytes, param_bytes);
    for (int axis = 0; axis < 3; axis++) {
        if (grid[axis] > grid_limit[axis])
            return refuse(error, ARGUMENT_RANGE, "grid.%c = %u is more than the limit of %u", "xyz"[axis], grid[axis],
                          grid_limit[axis]);
        if (block[axis] == 0 || block[axis] > block_limit[axis])
            return refuse(error, ARGUMENT_RANGE, "block.%c = %u is not in 1 ... %u", "xyz"[axis], block[axis],
                          block_limit[axis]);
        if (kernel->block[0] != 0 && block[axis] != kernel->block[axis])
            return refuse(error, ARGUMENT_RANGE, "is compiled for blocks of (%u, %u, %u), not (%u, %u, %u)",
                          kernel->block[0], kernel->block[1], kernel->block[2], block[0], block[1], block[2]);
    }
    if ((kernel->flags & INTEROP_CPU_WARPS) && block[0] % INTEROP_CPU_WARP != 0 && block[1] * block[2] != 1)
        return refuse(error, ARGUMENT_RANGE,
                      "is translated for rows of whole warps, which a block of (%u, %u, %u) does not have", block[0],
                      block[1], block[2]);
    if ((kernel->flags & INTEROP_CPU_WHOLE) && block[0] % kernel->lanes != 0)
        return refuse(error, ARGUMENT_RANGE, "is translated for rows of a multiple of %u threads, not of %u",
                      kernel->lanes, block[0]);
    if ((uint64_t)block[0] * block[1] * block[2] > INTEROP_CPU_MAX_THREADS)
        return refuse(error, ARGUMENT_RANGE, "a block of (%u, %u, %u) has more than %d threads", block[0], block[1],
                      block[2], INTEROP_CPU_MAX_THREADS);
    if ((uint64_t)kernel->static_shared_bytes + dynamic_shared_bytes > MAX_SHARED)
        return refuse(error, ARGUMENT_RANGE, "%u bytes of static and %u of dynamic shared memory are more than %d",
                      kernel->static_shared_bytes, dynamic_shared_bytes, MAX_SHARED);
    return 0;
}

/* What the options say, for the job. */
static int32_t apply_options(interop_cpu_job *job, const interop_cpu_options *options, interop_cpu_error *error)
{
    const char *text = getenv("INTEROP_CPU_BUDGET_SECONDS");
    if (options != NULL) {
        if (options->size < sizeof *options || options->flags != 0)
            return refuse(error, INTERNAL, "the options of a launch are of another version (%u bytes, flags %u)",
                          options->size, options->flags);
        job->budget = options->budget_seconds;
        job->interrupt = options->interrupt;
        job->poll = options->poll;
        job->user = options->user;
        job->ranges = options->ranges;
        job->range_count = options->ranges != NULL ? options->range_count : 0;
    }
    if (job->budget == 0 && text != NULL && *text != '\0') {
        char *end;
        job->budget = strtod(text, &end);
        if (*end != '\0' || !(job->budget >= 0))
            return refuse(error, ARGUMENT_RANGE, "INTEROP_CPU_BUDGET_SECONDS is a number of seconds, not '%s'", text);
    }
    if (!(job->budget >= 0))
        return refuse(error, ARGUMENT_RANGE, "a time budget of %g s is not possible", job->budget);
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const uint64_t left = ((const interop_cpu_range *)a)->address, right = ((const interop_cpu_range *)b)->address;
    return left < right ? -1 : left > right;
}

/* Runs the job, which is complete. */
static int32_t run_job(interop_cpu_job *job, interop_cpu_error *error)
{
    const bool watched = job->budget > 0 || job->interrupt != NULL || job->poll != NULL;
    if (watched && !INTEROP_SYM(cpu_watch)(job) && job->budget > 0)
        return refuse(error, OUT_OF_MEMORY, "no thread can be started that watches the time budget");
    take_part(job, 0, true);
    wait_for_helpers(job);
    if (watched)
        INTEROP_SYM(cpu_unwatch)(job);
    if (job->error.status == 0 && (atomic_load(&job->cut) != 0 || atomic_load(&job->next) < job->total)) {
        job->error.status = EXECUTION;
        INTEROP_SYM(cpu_stop_reason)(job, job->error.message, sizeof job->error.message);
    }
    if (error != NULL)
        *error = job->error;
    return job->error.status;
}

/* Gives the job aligned parameters and sorted ranges, copied where the caller's are not. */
static int32_t run_prepared(interop_cpu_job *job, interop_cpu_error *error)
{
    enum { FEW = 16 };
    interop_cpu_range few[FEW], *ranges = few;
    const size_t range_bytes = job->range_count * sizeof *ranges, param_bytes = job->kernel->param_bytes;
    void *params = NULL;
    int32_t status;
    if (job->range_count > FEW)
        ranges = malloc(range_bytes);
    /* Emitted code relies on the buffer's alignment. */
    if ((uintptr_t)job->params % 8 != 0 && param_bytes != 0)
        params = malloc(param_bytes);
    if (ranges == NULL || (params == NULL && (uintptr_t)job->params % 8 != 0 && param_bytes != 0)) {
        status = refuse(error, OUT_OF_MEMORY, "no memory for the launch");
    } else {
        if (range_bytes > 0) {
            memcpy(ranges, job->ranges, range_bytes);
            qsort(ranges, job->range_count, sizeof *ranges, by_address);
        }
        if (job->ranges != NULL)
            job->ranges = ranges;
        if (params != NULL)
            job->params = memcpy(params, job->params, param_bytes);
        status = run_job(job, error);
    }
    if (ranges != few)
        free(ranges);
    free(params);
    return status;
}

int32_t INTEROP_SYM(cpu_launch)(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                uint32_t threads, interop_cpu_error *error)
{
    return INTEROP_SYM(cpu_launch_with)(kernel, params, param_bytes, grid, block, dynamic_shared_bytes, threads, NULL,
                                        error);
}

int32_t INTEROP_SYM(cpu_launch_with)(const interop_cpu_kernel *kernel, const void *params, size_t param_bytes,
                                     const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_shared_bytes,
                                     uint32_t threads, const interop_cpu_options *options, interop_cpu_error *error)
{
    if (error != NULL)
        memset(error, 0, sizeof *error);
    int32_t status = check(kernel, param_bytes, grid, block, dynamic_shared_bytes, error);
    if (status != 0)
        return status;
    kernel = INTEROP_SYM(cpu_version_for)(kernel, block);
    interop_cpu_job job = {.kernel = kernel, .params = params, .dynamic_bytes = dynamic_shared_bytes};
    status = apply_options(&job, options, error);
    if (status != 0)
        return status;
    memcpy(job.grid, grid, sizeof job.grid);
    memcpy(job.block, block, sizeof job.block);
    job.total = (uint64_t)grid[0] * grid[1] * grid[2];
    if (job.total == 0)
        return 0;
    if (threads == 0)
        threads = default_threads();
    if (threads > MAX_HELPERS)
        threads = MAX_HELPERS;
    if (threads > job.total)
        threads = (uint32_t)job.total;
    job.wanted = threads - 1;
    /* Small enough to balance, large enough that the shared counter does not matter. */
    job.chunk = job.total / ((uint64_t)threads * 16);
    if (job.chunk > 64)
        job.chunk = 64;
    if (job.chunk == 0)
        job.chunk = 1;
    return run_prepared(&job, error);
}
