/* The CPU device: blocks whose threads run as strands, several lanes at a time in vectors. A kernel with barriers is a
 * coroutine for each strand; a strand waits as a whole, so that there is little to do between two barriers.
 *
 * A strand has an interop_cpu_thread: `tid` is its first lane, `c` the lanes that wait, `value` the predicates that a
 * reducing barrier is given, a bit for each lane.
 */
#include <stdlib.h>
#include <string.h>

#include "interop_cpu_impl.h"

enum { OUT_OF_MEMORY = 10, EXECUTION = 11 };

typedef void *(*strand_ramp)(interop_cpu_block *block, const void *params, interop_cpu_thread *strand, uint32_t x,
                             uint32_t y, uint32_t z, uint32_t live);

static bool finished(const interop_cpu_thread *strand)
{
    void *resume;
    memcpy(&resume, strand->frame, sizeof resume);
    return resume == NULL;
}

static uint32_t count_bits(uint64_t value)
{
    uint32_t count = 0;
    for (; value; value &= value - 1)
        count++;
    return count;
}

static void start(interop_cpu_block *block)
{
    const interop_cpu_kernel *kernel = block->job->kernel;
    const uint32_t *n = block->ntid, lanes = kernel->lanes;
    const uint32_t count = (n[0] + lanes - 1) / lanes * n[1] * n[2];
    if (count > block->thread_capacity) {
        free(block->threads);
        block->threads = malloc(count * sizeof *block->threads);
        block->thread_capacity = block->threads != NULL ? count : 0;
        if (block->threads == NULL)
            INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for the threads of a block");
    }
    block->thread_count = count;
    block->chunk = NULL;
    strand_ramp ramp;
    memcpy(&ramp, &kernel->entry, sizeof ramp);
    interop_cpu_thread *strand = block->threads;
    for (uint32_t z = 0; z < n[2]; z++)
        for (uint32_t y = 0; y < n[1]; y++)
            for (uint32_t x = 0; x < n[0]; x += lanes, strand++) {
                const uint32_t left = n[0] - x;
                const uint32_t live = left >= 32 ? UINT32_MAX : (UINT32_C(1) << left) - 1;
                strand->wait = INTEROP_CPU_READY;
                strand->mode = 0;
                strand->tid[0] = x;
                strand->tid[1] = y;
                strand->tid[2] = z;
                strand->frame =
                    ramp(block, block->params, strand, x, y, z, lanes < 32 ? live & ((1u << lanes) - 1) : live);
                if (finished(strand))
                    strand->wait = INTEROP_CPU_DONE;
            }
}

static bool at_barrier(const interop_cpu_thread *strand, uint32_t barrier)
{
    return (strand->wait == INTEROP_CPU_BARRIER || strand->wait == INTEROP_CPU_BARRIER_RED) && strand->mask == barrier;
}

/* Lets the strands at `barrier` go on, with what a reducing barrier yields. */
static void release(interop_cpu_block *block, uint32_t barrier)
{
    uint32_t set = 0, total = 0;
    for (uint32_t i = 0; i < block->thread_count; i++)
        if (at_barrier(&block->threads[i], barrier) && block->threads[i].wait == INTEROP_CPU_BARRIER_RED) {
            total += count_bits(block->threads[i].c);
            set += count_bits(block->threads[i].value);
        }
    for (uint32_t i = 0; i < block->thread_count; i++) {
        interop_cpu_thread *strand = &block->threads[i];
        if (!at_barrier(strand, barrier))
            continue;
        strand->result = set;
        strand->flag = strand->b == INTEROP_CPU_RED_AND ? set == total : set != 0;
        strand->wait = INTEROP_CPU_READY;
    }
}

/* All strands wait. A barrier without a count goes on when every thread that lives has come to it. */
static void resolve(interop_cpu_block *block)
{
    const interop_cpu_thread *first = NULL;
    bool together = true;
    for (uint32_t i = 0; i < block->thread_count; i++) {
        const interop_cpu_thread *strand = &block->threads[i];
        if (strand->wait == INTEROP_CPU_DONE)
            continue;
        if (strand->mask >= INTEROP_CPU_BARRIERS)
            INTEROP_SYM(cpu_fail)(block, EXECUTION, strand->tid, "barrier %u does not exist", strand->mask);
        if (first == NULL)
            first = strand;
        together = together && strand->mask == first->mask;
    }
    if (first != NULL && together) {
        release(block, first->mask);
        return;
    }
    INTEROP_SYM(cpu_report)(block, "deadlock: no thread of the block can go on");
}

void INTEROP_SYM(cpu_run_strands)(interop_cpu_block *block)
{
    start(block);
    interop_cpu_thread *const end = block->threads + block->thread_count;
    for (;;) {
        uint32_t live = 0, unlike = 0, barrier = UINT32_MAX;
        for (interop_cpu_thread *strand = block->threads; strand < end; strand++) {
            if (strand->wait == INTEROP_CPU_DONE)
                continue;
            if (strand->wait == INTEROP_CPU_READY) {
                void (*resume)(void *);
                memcpy(&resume, strand->frame, sizeof resume);
                resume(strand->frame);
                if (finished(strand)) {
                    strand->wait = INTEROP_CPU_DONE;
                    continue;
                }
            }
            if (live++ == 0)
                barrier = strand->mask;
            unlike |= (strand->mask ^ barrier) | (strand->wait ^ INTEROP_CPU_BARRIER);
        }
        if (live == 0)
            return;
        INTEROP_SYM(cpu_leave_if_stopped)(block);
        if (unlike == 0 && barrier < INTEROP_CPU_BARRIERS) {
            for (interop_cpu_thread *strand = block->threads; strand < end; strand++)
                if (strand->wait != INTEROP_CPU_DONE)
                    strand->wait = INTEROP_CPU_READY;
        } else {
            resolve(block);
        }
    }
}

/* ---- versions of a kernel ---- */

/* How many lanes suit rows of `extent` threads, best first; the same as preferred_lanes() of the translator. */
static void prefer(uint32_t extent, uint32_t lanes[2])
{
    lanes[0] = lanes[1] = 0;
    if (extent % 32 == 0 || extent > 64)
        lanes[0] = 32;
    else if (extent % 16 == 0)
        lanes[0] = 16, lanes[1] = 32;
    else if (extent % 8 == 0)
        lanes[0] = 8, lanes[1] = 32;
    else if (extent > 16)
        lanes[0] = 32;
    else if (extent > 2)
        lanes[0] = extent > 8 ? 16 : 8, lanes[1] = 32;
}

static bool suits(const interop_cpu_kernel *version, uint32_t lanes, bool whole, const uint32_t block[3])
{
    if (version->lanes != lanes || whole != ((version->flags & INTEROP_CPU_WHOLE) != 0))
        return false;
    return !(version->flags & INTEROP_CPU_WARPS) || block[0] % INTEROP_CPU_WARP == 0 || block[1] * block[2] == 1;
}

const interop_cpu_kernel *INTEROP_SYM(cpu_version_for)(const interop_cpu_kernel *kernel, const uint32_t block[3])
{
    const interop_cpu_program *program = kernel->extra;
    uint32_t lanes[2];
    if (program->version_count == 0)
        return kernel;
    prefer(block[0], lanes);
    for (uint32_t choice = 0; choice < 2 && lanes[choice] != 0; choice++)
        for (int whole = block[0] % lanes[choice] == 0; whole >= 0; whole--)
            for (uint32_t i = 0; i < program->version_count; i++)
                if (suits(program->versions[i], lanes[choice], whole, block))
                    return program->versions[i];
    return kernel;
}
