/* The CPU device: blocks whose threads are coroutines. Runs threads until each waits, then resolves what they wait for.
 *
 * A coroutine's frame begins with its resume function, NULL when it has finished (LLVM's switch-resumed lowering).
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop_cpu_impl.h"

enum { OUT_OF_MEMORY = 10, EXECUTION = 11 };

static interop_cpu_chunk *new_chunk(size_t bytes)
{
    const size_t size = (sizeof(interop_cpu_chunk) + bytes + 63) & ~(size_t)63;
    interop_cpu_chunk *chunk = aligned_alloc(64, size);
    if (chunk != NULL) {
        chunk->next = NULL;
        chunk->bytes = bytes;
    }
    return chunk;
}

/* Memory for one thread's frame, from an arena that grows and starts over with each block. */
void *INTEROP_SYM(cpu_frame)(interop_cpu_block *block, uint64_t bytes)
{
    bytes = (bytes + 63) & ~(uint64_t)63;
    while (block->chunk == NULL || block->chunk_used + bytes > block->chunk->bytes) {
        interop_cpu_chunk *next = block->chunk != NULL ? block->chunk->next : block->chunks;
        if (next == NULL) {
            const size_t frames = bytes > 16384 ? 1 : 64; /* threads have one size of frame, and are many */
            next = new_chunk(bytes * frames > 65536 ? bytes * frames : 65536);
            if (next == NULL)
                INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for the threads of a block");
            if (block->chunk != NULL)
                block->chunk->next = next;
            else
                block->chunks = next;
        }
        block->chunk = next;
        block->chunk_used = 0;
    }
    void *frame = block->chunk->data + block->chunk_used;
    block->chunk_used += bytes;
    return frame;
}

/* ---- warp operations ---- */

static void shuffle(interop_cpu_thread *warp, uint32_t members)
{
    uint64_t values[INTEROP_CPU_WARP] = {0}; /* a lane that does not take part yields 0 */
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
        if (members >> lane & 1)
            values[lane] = warp[lane].value;
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++) {
        if (!(members >> lane & 1))
            continue;
        interop_cpu_thread *thread = &warp[lane];
        const int32_t b = (int32_t)(thread->b & 31), c = (int32_t)(thread->c & 31);
        const int32_t segment = (int32_t)(thread->c >> 8 & 31), own = (int32_t)lane;
        const int32_t lowest = own & segment, bound = lowest | (c & ~segment);
        int32_t from = 0;
        switch (thread->mode) {
        case INTEROP_CPU_SHFL_UP:
            from = own - b;
            break;
        case INTEROP_CPU_SHFL_DOWN:
            from = own + b;
            break;
        case INTEROP_CPU_SHFL_BFLY:
            from = own ^ b;
            break;
        default:
            from = lowest | (b & ~segment);
            break;
        }
        thread->flag = thread->mode == INTEROP_CPU_SHFL_UP ? from >= bound : from <= bound;
        thread->result = values[thread->flag ? from : own];
    }
}

static void vote(interop_cpu_thread *warp, uint32_t members)
{
    uint32_t ballot = 0;
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
        if ((members >> lane & 1) && warp[lane].value != 0)
            ballot |= UINT32_C(1) << lane;
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++) {
        if (!(members >> lane & 1))
            continue;
        switch (warp[lane].mode) {
        case INTEROP_CPU_VOTE_ALL:
            warp[lane].flag = ballot == members;
            break;
        case INTEROP_CPU_VOTE_ANY:
            warp[lane].flag = ballot != 0;
            break;
        case INTEROP_CPU_VOTE_UNI:
            warp[lane].flag = ballot == members || ballot == 0;
            break;
        default:
            warp[lane].result = ballot;
            break;
        }
    }
}

static void match(interop_cpu_thread *warp, uint32_t members)
{
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++) {
        if (!(members >> lane & 1))
            continue;
        uint32_t same = 0;
        for (uint32_t other = 0; other < INTEROP_CPU_WARP; other++)
            if ((members >> other & 1) && warp[other].value == warp[lane].value)
                same |= UINT32_C(1) << other;
        warp[lane].flag = same == members;
        warp[lane].result = warp[lane].mode == INTEROP_CPU_MATCH_ANY || same == members ? same : 0;
    }
}

static uint32_t reduce(uint32_t mode, uint32_t a, uint32_t b)
{
    switch (mode) {
    case INTEROP_CPU_REDUX_ADD:
        return a + b;
    case INTEROP_CPU_REDUX_MIN_S:
        return (int32_t)a < (int32_t)b ? a : b;
    case INTEROP_CPU_REDUX_MAX_S:
        return (int32_t)a > (int32_t)b ? a : b;
    case INTEROP_CPU_REDUX_MIN_U:
        return a < b ? a : b;
    case INTEROP_CPU_REDUX_MAX_U:
        return a > b ? a : b;
    case INTEROP_CPU_REDUX_AND:
        return a & b;
    case INTEROP_CPU_REDUX_OR:
        return a | b;
    default:
        return a ^ b;
    }
}

static void reduction(interop_cpu_thread *warp, uint32_t members)
{
    uint32_t total = 0;
    bool first = true;
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
        if (members >> lane & 1) {
            const uint32_t value = (uint32_t)warp[lane].value;
            total = first ? value : reduce(warp[lane].mode, total, value);
            first = false;
        }
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
        if (members >> lane & 1)
            warp[lane].result = total;
}

static void elect(interop_cpu_thread *warp, uint32_t members)
{
    uint32_t leader = 0;
    while (!(members >> leader & 1))
        leader++;
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
        if (members >> lane & 1) {
            warp[lane].result = leader;
            warp[lane].flag = lane == leader;
        }
}

static void perform(interop_cpu_block *block, interop_cpu_thread *warp, uint32_t members, uint32_t wait)
{
    switch (wait) {
    case INTEROP_CPU_SHFL:
        shuffle(warp, members);
        break;
    case INTEROP_CPU_VOTE:
        vote(warp, members);
        break;
    case INTEROP_CPU_MATCH:
        match(warp, members);
        break;
    case INTEROP_CPU_REDUX:
        reduction(warp, members);
        break;
    case INTEROP_CPU_ELECT:
        elect(warp, members);
        break;
    case INTEROP_CPU_MATRIX:
        INTEROP_SYM(cpu_perform_matrix)(block, warp, members);
        break;
    case INTEROP_CPU_ACTIVEMASK:
        for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
            if (members >> lane & 1)
                warp[lane].result = members;
        break;
    default:
        break; /* bar.warp.sync yields nothing */
    }
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
        if (members >> lane & 1)
            warp[lane].wait = INTEROP_CPU_READY;
}

/* Performs the warp operations whose members have all arrived. Members that have exited count as arrived. */
static bool resolve_warp(interop_cpu_block *block, interop_cpu_thread *warp, uint32_t live)
{
    bool progress = false;
    uint32_t open = live;
    while (open) {
        uint32_t first = 0;
        while (!(open >> first & 1))
            first++;
        const interop_cpu_thread *leader = &warp[first];
        open &= ~(UINT32_C(1) << first);
        if ((leader->wait < INTEROP_CPU_WARP_SYNC || leader->wait > INTEROP_CPU_ELECT) &&
            leader->wait != INTEROP_CPU_MATRIX)
            continue;
        const uint32_t members = (leader->mask | UINT32_C(1) << first) & live;
        bool complete = true;
        for (uint32_t lane = 0; lane < INTEROP_CPU_WARP && complete; lane++)
            if (members >> lane & 1)
                complete = warp[lane].wait == leader->wait && (warp[lane].mask & live) == (leader->mask & live);
        if (!complete)
            continue;
        perform(block, warp, members, leader->wait);
        open &= ~members;
        progress = true;
    }
    if (progress)
        return true;
    /* activemask: when no lane can go on otherwise, those that stand at one place are the ones that run together. */
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++) {
        if (!(live >> lane & 1) || warp[lane].wait != INTEROP_CPU_ACTIVEMASK)
            continue;
        uint32_t members = 0;
        for (uint32_t other = lane; other < INTEROP_CPU_WARP; other++)
            if ((live >> other & 1) && warp[other].wait == INTEROP_CPU_ACTIVEMASK &&
                warp[other].site == warp[lane].site)
                members |= UINT32_C(1) << other;
        perform(block, warp, members, INTEROP_CPU_ACTIVEMASK);
        return true;
    }
    return false;
}

static bool finished(const interop_cpu_thread *thread)
{
    void *resume;
    memcpy(&resume, thread->frame, sizeof resume);
    return resume == NULL;
}

enum {
    WARP_OPERATIONS = (((2u << INTEROP_CPU_ACTIVEMASK) - 1) & ~((1u << INTEROP_CPU_WARP_SYNC) - 1)) |
        1u << INTEROP_CPU_MATRIX,
    SPINS = 1u << INTEROP_CPU_SPIN
};

/* Runs the lanes of one warp until each waits for a barrier, spins, or has exited. Adds to `waits` a bit for each thing
 * that its lanes wait for then. */
static bool run_warp(interop_cpu_block *block, uint32_t index, uint32_t *waits)
{
    interop_cpu_thread *warp = block->threads + (size_t)index * INTEROP_CPU_WARP;
    const uint32_t lanes = block->thread_count - index * INTEROP_CPU_WARP;
    bool progress = false;
    uint32_t seen;
    do {
        uint32_t live = block->live[index];
        seen = 0;
        for (uint32_t lane = 0; lane < INTEROP_CPU_WARP && lane < lanes; lane++) {
            interop_cpu_thread *thread = &warp[lane];
            if (thread->wait == INTEROP_CPU_READY) {
                /* A callee that is done leaves the thread ready: its caller goes on. */
                do {
                    void *at = thread->innermost != NULL ? thread->innermost : thread->frame;
                    void (*resume)(void *);
                    memcpy(&resume, at, sizeof resume);
                    resume(at);
                } while (thread->wait == INTEROP_CPU_READY && !finished(thread));
                progress = true;
                if (finished(thread)) {
                    thread->wait = INTEROP_CPU_DONE;
                    live &= ~(UINT32_C(1) << lane);
                    continue;
                }
            }
            seen |= 1u << thread->wait;
        }
        block->live[index] = live;
    } while ((seen & WARP_OPERATIONS) && resolve_warp(block, warp, block->live[index]));
    *waits |= seen;
    return progress;
}

/* ---- barriers ---- */

void INTEROP_SYM(cpu_arrive)(interop_cpu_block *block, interop_cpu_thread *thread, uint32_t barrier, uint32_t count)
{
    const size_t index = (size_t)(thread - block->threads);
    if (barrier >= INTEROP_CPU_BARRIERS)
        INTEROP_SYM(cpu_fail)(block, EXECUTION, thread->tid, "barrier %u does not exist", barrier);
    block->arrived[barrier][index / INTEROP_CPU_WARP] += 1;
    block->arrived_expected[barrier] = count;
}

static uint32_t count_bits(uint32_t value)
{
    uint32_t count = 0;
    for (; value; value &= value - 1)
        count++;
    return count;
}

static bool at_barrier(const interop_cpu_thread *thread, uint32_t barrier)
{
    return (thread->wait == INTEROP_CPU_BARRIER || thread->wait == INTEROP_CPU_BARRIER_RED) && thread->mask == barrier;
}

/* Whether the threads that `barrier` expects have arrived. Without a count these are all that have not exited; with
 * one, a warp whose live lanes have all arrived counts as 32, as on the hardware. */
static bool complete(const interop_cpu_block *block, uint32_t barrier, uint32_t expected)
{
    const uint32_t warps = (block->thread_count + INTEROP_CPU_WARP - 1) / INTEROP_CPU_WARP;
    uint32_t arrived = 0;
    for (uint32_t index = 0; index < warps; index++) {
        const interop_cpu_thread *warp = block->threads + (size_t)index * INTEROP_CPU_WARP;
        const uint32_t live = block->live[index];
        uint32_t here = block->arrived[barrier][index];
        for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++)
            if ((live >> lane & 1) && at_barrier(&warp[lane], barrier))
                here++;
        const uint32_t whole = count_bits(live);
        if (expected == 0 && here < whole)
            return false;
        arrived +=
            here != 0 && here >= whole ? (here + INTEROP_CPU_WARP - 1) / INTEROP_CPU_WARP * INTEROP_CPU_WARP : here;
    }
    return expected == 0 || arrived >= expected;
}

static void release(interop_cpu_block *block, uint32_t barrier)
{
    uint32_t set = 0, total = 0;
    for (uint32_t i = 0; i < block->thread_count; i++)
        if (at_barrier(&block->threads[i], barrier) && block->threads[i].wait == INTEROP_CPU_BARRIER_RED) {
            total++;
            set += block->threads[i].value != 0;
        }
    for (uint32_t i = 0; i < block->thread_count; i++) {
        interop_cpu_thread *thread = &block->threads[i];
        if (!at_barrier(thread, barrier))
            continue;
        thread->result = set;
        thread->flag = thread->b == INTEROP_CPU_RED_AND ? set == total : set != 0;
        thread->wait = INTEROP_CPU_READY;
    }
    memset(block->arrived[barrier], 0, sizeof block->arrived[barrier]);
    block->arrived_expected[barrier] = 0;
}

/* The usual case: all threads that live wait at the same barrier, and nobody counted. */
static bool release_all(interop_cpu_block *block)
{
    const interop_cpu_thread *first = NULL;
    for (uint32_t i = 0; i < block->thread_count; i++) {
        const interop_cpu_thread *thread = &block->threads[i];
        if (thread->wait == INTEROP_CPU_DONE)
            continue;
        if (first == NULL)
            first = thread;
        if (thread->mask != first->mask || thread->mode != 0)
            return false;
    }
    if (first == NULL || first->mask >= INTEROP_CPU_BARRIERS || block->arrived_expected[first->mask])
        return false;
    for (uint32_t i = 0; i < block->thread_count; i++)
        if (block->threads[i].wait != INTEROP_CPU_DONE)
            block->threads[i].wait = INTEROP_CPU_READY;
    return true;
}

static bool resolve_barriers(interop_cpu_block *block, uint32_t waits)
{
    if ((waits & ~(1u << INTEROP_CPU_DONE)) == 1u << INTEROP_CPU_BARRIER && release_all(block))
        return true;
    uint32_t seen = 0;
    bool progress = false;
    for (uint32_t i = 0; i < block->thread_count; i++) {
        const interop_cpu_thread *thread = &block->threads[i];
        if (thread->wait != INTEROP_CPU_BARRIER && thread->wait != INTEROP_CPU_BARRIER_RED)
            continue;
        if (thread->mask >= INTEROP_CPU_BARRIERS)
            INTEROP_SYM(cpu_fail)(block, EXECUTION, thread->tid, "barrier %u does not exist", thread->mask);
        if (seen >> thread->mask & 1)
            continue;
        seen |= UINT32_C(1) << thread->mask;
        if (complete(block, thread->mask, thread->mode)) {
            release(block, thread->mask);
            progress = true;
        }
    }
    return progress;
}

/* ---- what cannot go on ---- */

static const char *const wait_names[] = {
    "nothing",
    "bar.warp.sync",
    "shfl.sync",
    "vote.sync",
    "match.sync",
    "redux.sync",
    "elect.sync",
    "activemask",
    "a barrier",
    "a barrier",
    "a loop that waits for memory",
    "exit",
    "a matrix instruction",
};

/* Threads that wait at one place are one group. */
void INTEROP_SYM(cpu_describe_waiting)(const interop_cpu_block *block, const uint32_t *skip, char *text, size_t size)
{
    size_t used = 0;
    uint32_t ready = 0;
    bool counted[INTEROP_CPU_MAX_THREADS] = {false};
    text[0] = '\0';
    for (uint32_t i = 0; i < block->thread_count; i++) {
        const interop_cpu_thread *thread = &block->threads[i];
        const bool left_out = skip != NULL && memcmp(thread->tid, skip, sizeof thread->tid) == 0;
        ready += thread->wait == INTEROP_CPU_READY && !left_out;
        if (counted[i] || left_out || thread->wait == INTEROP_CPU_DONE || thread->wait == INTEROP_CPU_READY)
            continue;
        uint32_t count = 0;
        for (uint32_t j = i; j < block->thread_count; j++)
            if (block->threads[j].wait == thread->wait && block->threads[j].site == thread->site &&
                (block->threads[j].mask == thread->mask || thread->wait == INTEROP_CPU_SPIN)) {
                counted[j] = true;
                count += block->job->kernel->lanes == 1 ? 1 : count_bits(block->threads[j].c);
            }
        char where[64], place[INTEROP_CPU_PLACE];
        if (thread->wait == INTEROP_CPU_BARRIER || thread->wait == INTEROP_CPU_BARRIER_RED)
            snprintf(where, sizeof where, "barrier %u", thread->mask);
        else
            snprintf(where, sizeof where, "%s", wait_names[thread->wait]);
        const int length =
            snprintf(text + used, size - used, "%s %u thread%s, from (%u, %u, %u) on, at %s (%s)", used ? ";" : "",
                     count, count == 1 ? "" : "s", thread->tid[0], thread->tid[1], thread->tid[2], where,
                     INTEROP_SYM(cpu_place)(block, thread->site, place, sizeof place));
        if (length < 0 || (size_t)length >= size - used) {
            text[used] = '\0';
            return;
        }
        used += (size_t)length;
    }
    if (ready > 0 &&
        snprintf(text + used, size - used, "%s %u can go on", used ? ";" : "", ready) >= (int)(size - used))
        text[used] = '\0';
}

void INTEROP_SYM(cpu_report)(interop_cpu_block *block, const char *what)
{
    char text[400];
    INTEROP_SYM(cpu_describe_waiting)(block, NULL, text, sizeof text);
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, NULL, "%s:%s, block (%u, %u, %u)", what, text, block->ctaid[0], block->ctaid[1],
     block->ctaid[2]);
}

/* Lanes of one strand, the first of which is thread (x, y, z), wait for others that do not come. `places` holds three
 * numbers for each place: the lanes, the line, what they wait for. */
void INTEROP_SYM(cpu_stuck)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, const uint32_t *places,
                            uint32_t count)
{
    char text[400] = "", place[INTEROP_CPU_PLACE];
    size_t used = 0;
    for (; count > 0; count--, places += 3) {
        uint32_t first = 0;
        if (places[0] == 0)
            continue;
        while (!(places[0] >> first & 1))
            first++;
        const uint32_t threads = count_bits(places[0]);
        const int length = snprintf(text + used, sizeof text - used, "%s %u thread%s, from (%u, %u, %u) on, at %s (%s)",
                                    used ? ";" : "", threads, threads == 1 ? "" : "s", x + first, y, z,
                                    wait_names[places[2] <= INTEROP_CPU_DONE ? places[2] : 0],
                                    INTEROP_SYM(cpu_place)(block, places[1], place, sizeof place));
        if (length < 0 || (size_t)length >= sizeof text - used) {
            text[used] = '\0';
            break;
        }
        used += (size_t)length;
    }
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, NULL, "deadlock: no thread of the warp can go on:%s, block (%u, %u, %u)", text, block->ctaid[0],
     block->ctaid[1], block->ctaid[2]);
}

void INTEROP_SYM(cpu_leave_if_stopped)(interop_cpu_block *block)
{
    char why[80];
    if (!INTEROP_SYM(cpu_must_stop)(block))
        return;
    if (INTEROP_SYM(cpu_stop_reason)(block->job, why, sizeof why) != NULL)
        INTEROP_SYM(cpu_report)(block, why);
    longjmp(block->leave, 1);
}

static double spin_limit(void)
{
    const char *text = getenv("INTEROP_CPU_SPIN_SECONDS");
    const double value = text != NULL ? strtod(text, NULL) : 0;
    return value > 0 ? value : 10;
}

/* A block in which every thread waits, some of them for memory: lets other workers run. Nobody is left to write that
 * memory when all workers have been in this state for a while. */
static void idle(interop_cpu_block *block, double *since, uint64_t *seen)
{
    interop_cpu_job *job = block->job;
    INTEROP_SYM(cpu_leave_if_stopped)(block);
    const uint64_t progress = atomic_load(&job->progress);
    const double now = INTEROP_SYM(cpu_seconds)();
    if (*since == 0)
        atomic_fetch_add(&job->spinning, 1);
    if (*since == 0 || progress != *seen || atomic_load(&job->spinning) < atomic_load(&job->active)) {
        *since = now;
        *seen = progress;
    } else if (now - *since > spin_limit()) {
        INTEROP_SYM(cpu_report)(block, "deadlock: all running blocks wait for memory that no thread writes");
    }
    sched_yield();
}

static void start_threads(interop_cpu_block *block)
{
    const interop_cpu_kernel *kernel = block->job->kernel;
    const uint32_t *n = block->ntid, count = n[0] * n[1] * n[2];
    const size_t padded = ((size_t)count + INTEROP_CPU_WARP - 1) / INTEROP_CPU_WARP * INTEROP_CPU_WARP;
    if (padded > block->thread_capacity) {
        free(block->threads);
        block->threads = malloc(padded * sizeof *block->threads);
        block->thread_capacity = block->threads != NULL ? (uint32_t)padded : 0;
        if (block->threads == NULL)
            INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for the threads of a block");
    }
    block->thread_count = count;
    block->chunk = NULL;
    memset(block->spare, 0, sizeof block->spare);
    block->stack_bytes = 0;
    memset(block->threads, 0, padded * sizeof *block->threads);
    memset(block->live, 0, sizeof block->live);
    memset(block->arrived, 0, sizeof block->arrived);
    memset(block->arrived_expected, 0, sizeof block->arrived_expected);
    interop_cpu_ramp ramp;
    memcpy(&ramp, &kernel->entry, sizeof ramp);
    uint32_t x = 0, y = 0, z = 0;
    for (uint32_t i = 0; i < count; i++) {
        interop_cpu_thread *thread = &block->threads[i];
        thread->tid[0] = x;
        thread->tid[1] = y;
        thread->tid[2] = z;
        thread->frame = ramp(block, block->params, thread, x, y, z);
        if (finished(thread))
            thread->wait = INTEROP_CPU_DONE;
        else
            block->live[i / INTEROP_CPU_WARP] |= UINT32_C(1) << i % INTEROP_CPU_WARP;
        if (++x == n[0]) {
            x = 0;
            if (++y == n[1]) {
                y = 0;
                z++;
            }
        }
    }
}

void INTEROP_SYM(cpu_run_coroutines)(interop_cpu_block *block)
{
    interop_cpu_job *job = block->job;
    double idle_since = 0;
    uint64_t idle_progress = 0;
    start_threads(block);
    const uint32_t warps = (block->thread_count + INTEROP_CPU_WARP - 1) / INTEROP_CPU_WARP;
    bool woken = false;
    for (;;) {
        bool progress = false;
        uint32_t live = 0, waits = 0;
        for (uint32_t index = 0; index < warps; index++) {
            progress |= run_warp(block, index, &waits);
            live |= block->live[index];
        }
        if (!live)
            break;
        INTEROP_SYM(cpu_leave_if_stopped)(block); /* here, since every thread waits somewhere now */
        /* Threads that were woken only to look at memory again have made no progress if all of them spin on. */
        progress = resolve_barriers(block, waits) || (progress && !woken);
        const bool spins = (waits & SPINS) != 0;
        if (progress) {
            if (idle_since != 0) {
                atomic_fetch_sub(&job->spinning, 1);
                idle_since = 0;
            }
            atomic_fetch_add(&job->progress, 1);
        } else if (spins) {
            idle(block, &idle_since, &idle_progress);
        } else {
            bool ready = false;
            for (uint32_t i = 0; i < block->thread_count; i++)
                ready |= block->threads[i].wait == INTEROP_CPU_READY;
            if (!ready)
                INTEROP_SYM(cpu_report)(block, "deadlock: no thread of the block can go on");
        }
        for (uint32_t i = 0; spins && i < block->thread_count; i++)
            if (block->threads[i].wait == INTEROP_CPU_SPIN)
                block->threads[i].wait = INTEROP_CPU_READY;
        woken = spins;
    }
    if (idle_since != 0)
        atomic_fetch_sub(&job->spinning, 1);
}
