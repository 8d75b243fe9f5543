/* The CPU device: launches that must end. One thread watches the clock for all launches that have a time budget, a flag
 * that may interrupt them, or something to call now and then; workers look at one word, in loops and between blocks.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "interop_cpu_impl.h"

enum { EXECUTION = 11 };

static const double tick = 0.02, poll_every = 0.05, linger = 2;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake; /* by the monotonic clock: made when the thread starts */
    pthread_t thread;
    bool running, asleep, quit, registered;
    double next; /* when the thread looks the next time */
    interop_cpu_job *jobs;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

void INTEROP_SYM(cpu_stop)(interop_cpu_job *job, int bits)
{
    atomic_fetch_or(&job->stop, bits);
    atomic_fetch_or(&job->attention, bits);
}

/* ---- the thread ---- */

/* What is due for one launch; returns when it wants to be looked at again. */
static double look_after(interop_cpu_job *job, double now)
{
    if (job->interrupt != NULL && atomic_load(job->interrupt) != 0)
        INTEROP_SYM(cpu_stop)(job, INTEROP_CPU_STOP_INTERRUPT);
    if (job->poll != NULL) {
        if (job->polled == 0) {
            job->polled = now;
        } else if (now - job->polled >= poll_every) {
            job->polled = now;
            atomic_fetch_or(&job->attention, INTEROP_CPU_LOOK);
        }
    }
    if (job->deadline == 0)
        return now + tick;
    if (now < job->deadline)
        return job->deadline < now + tick ? job->deadline : now + tick;
    INTEROP_SYM(cpu_stop)(job, INTEROP_CPU_STOP_BUDGET);
    return now + tick;
}

static struct timespec as_timespec(double seconds)
{
    struct timespec at;
    at.tv_sec = (time_t)seconds;
    at.tv_nsec = (long)((seconds - (double)at.tv_sec) * 1e9);
    return at;
}

static void *watch_main(void *unused)
{
    (void)unused;
    double busy = INTEROP_SYM(cpu_seconds)();
    pthread_mutex_lock(&watch.lock);
    while (!watch.quit) {
        const double now = INTEROP_SYM(cpu_seconds)();
        watch.next = now + tick;
        for (interop_cpu_job *job = watch.jobs; job != NULL; job = job->next_watched) {
            const double next = look_after(job, now);
            if (next < watch.next)
                watch.next = next;
            busy = now;
        }
        /* A launch that finds this thread awake need not wake it, so it ticks on for a while after the last one. */
        if (watch.jobs == NULL && now - busy > linger) {
            watch.asleep = true;
            pthread_cond_wait(&watch.wake, &watch.lock);
            watch.asleep = false;
            busy = INTEROP_SYM(cpu_seconds)();
        } else {
            const struct timespec until = as_timespec(watch.next);
            pthread_cond_timedwait(&watch.wake, &watch.lock, &until);
        }
    }
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

static void before_fork(void) { pthread_mutex_lock(&watch.lock); }

static void after_fork_parent(void) { pthread_mutex_unlock(&watch.lock); }

/* The child has no such thread, and no launch that is under way. */
static void after_fork_child(void)
{
    pthread_mutex_unlock(&watch.lock);
    watch.running = watch.asleep = false;
    watch.jobs = NULL;
}

static bool start_thread(void)
{
    pthread_condattr_t attributes;
    if (!watch.registered)
        watch.registered = pthread_atfork(before_fork, after_fork_parent, after_fork_child) == 0;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    const bool made = pthread_cond_init(&watch.wake, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    return made && pthread_create(&watch.thread, NULL, watch_main, NULL) == 0;
}

__attribute__((destructor)) static void stop_thread(void)
{
    pthread_mutex_lock(&watch.lock);
    const bool running = watch.running;
    watch.running = false;
    watch.quit = true;
    if (running)
        pthread_cond_signal(&watch.wake);
    pthread_mutex_unlock(&watch.lock);
    if (running)
        pthread_join(watch.thread, NULL);
}

/* ---- launches ---- */

bool INTEROP_SYM(cpu_watch)(interop_cpu_job *job)
{
    if (job->budget > 0)
        job->deadline = INTEROP_SYM(cpu_seconds)() + job->budget;
    pthread_mutex_lock(&watch.lock);
    if (!watch.running && !watch.quit)
        watch.running = start_thread();
    const bool running = watch.running;
    if (running) {
        job->next_watched = watch.jobs;
        watch.jobs = job;
        if (watch.asleep || (job->deadline != 0 && job->deadline < watch.next))
            pthread_cond_signal(&watch.wake);
    }
    pthread_mutex_unlock(&watch.lock);
    return running;
}

void INTEROP_SYM(cpu_unwatch)(interop_cpu_job *job)
{
    pthread_mutex_lock(&watch.lock);
    for (interop_cpu_job **at = &watch.jobs; *at != NULL; at = &(*at)->next_watched)
        if (*at == job) {
            *at = job->next_watched;
            break;
        }
    pthread_mutex_unlock(&watch.lock);
}

/* ---- workers ---- */

void INTEROP_SYM(cpu_look)(interop_cpu_job *job)
{
    if (!(atomic_fetch_and(&job->attention, ~INTEROP_CPU_LOOK) & INTEROP_CPU_LOOK))
        return;
    if (job->poll != NULL && job->poll(job->user) != 0)
        INTEROP_SYM(cpu_stop)(job, INTEROP_CPU_STOP_INTERRUPT);
}

const char *INTEROP_SYM(cpu_stop_reason)(const interop_cpu_job *job, char *text, size_t size)
{
    const int bits = atomic_load(&job->stop);
    if (bits & INTEROP_CPU_STOP_FAILED)
        return NULL;
    if (bits & INTEROP_CPU_STOP_BUDGET)
        snprintf(text, size, "did not end within its time budget of %g s", job->budget);
    else
        snprintf(text, size, "was interrupted");
    return text;
}

/* Between blocks: no thread is to blame. */
bool INTEROP_SYM(cpu_must_stop)(interop_cpu_block *block)
{
    interop_cpu_job *job = block->job;
    if (atomic_load_explicit(block->stop, memory_order_relaxed) == 0)
        return false;
    if (block->stop == &job->attention)
        INTEROP_SYM(cpu_look)(job);
    return atomic_load(block->stop) != 0;
}

void INTEROP_SYM(cpu_poll)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line)
{
    char why[80], place[INTEROP_CPU_PLACE], waiting[200] = "";
    const uint32_t tid[3] = {x, y, z};
    const interop_cpu_program *program = block->job->kernel->extra;
    if (!INTEROP_SYM(cpu_must_stop)(block))
        return;
    if (INTEROP_SYM(cpu_stop_reason)(block->job, why, sizeof why) == NULL)
        longjmp(block->leave, 1);
    if (program->coroutine)
        INTEROP_SYM(cpu_describe_waiting)(block, tid, waiting, sizeof waiting);
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, tid, "%s; one thread is in a loop (%s)%s%s", why,
     INTEROP_SYM(cpu_place)(block, line, place, sizeof place), waiting[0] != '\0' ? "," : "", waiting);
}
