/* The CPU device: mbarrier objects, and copies that arrive only when they are waited for. All threads of a block share
 * one thread of the host, so that neither needs atomics.
 */
#include <stdlib.h>
#include <string.h>

#include "interop_cpu_impl.h"

enum { OUT_OF_MEMORY = 10, EXECUTION = 11 };

/* ---- mbarrier: PTX ISA 9.7.13.15 ---- */

/* An mbarrier object, whose 64 bits are the implementation's own. A state is such an object as it was. */
enum { COUNT_BITS = 20, MAX_COUNT = (1 << COUNT_BITS) - 1, PHASE_BIT = 63, TRANSACTIONS_AT = 2 * COUNT_BITS };

typedef struct barrier {
    uint32_t pending;  /* arrivals that the phase still waits for */
    uint32_t expected; /* arrivals of each phase to come */
    int32_t bytes;     /* that transactions have yet to bring, in this phase */
    bool odd;          /* the phase's parity */
} barrier;

static barrier unpack(uint64_t object)
{
    const uint32_t bytes = (uint32_t)(object >> TRANSACTIONS_AT) & ((2u << COUNT_BITS) - 1);
    const barrier b = {
        .pending = (uint32_t)object & MAX_COUNT,
        .expected = (uint32_t)(object >> COUNT_BITS) & MAX_COUNT,
        .bytes = bytes >> COUNT_BITS ? (int32_t)bytes - (2 << COUNT_BITS) : (int32_t)bytes,
        .odd = object >> PHASE_BIT,
    };
    return b;
}

static uint64_t pack(barrier b)
{
    return b.pending | (uint64_t)b.expected << COUNT_BITS |
           (uint64_t)((uint32_t)b.bytes & ((2u << COUNT_BITS) - 1)) << TRANSACTIONS_AT | (uint64_t)b.odd << PHASE_BIT;
}

typedef struct place {
    interop_cpu_block *block;
    uint32_t tid[3], line;
} place;

INTEROP_CPU_NORETURN static void wrong(const place *at, const char *what)
{
    INTEROP_SYM(cpu_fail)(at->block, EXECUTION, at->tid, "%s (ptx line %u)", what, at->line);
}

static barrier read_barrier(const place *at, const void *object)
{
    uint64_t bits;
    if ((uintptr_t)object % sizeof bits != 0)
        wrong(at, "the address of an mbarrier is not aligned to 8 bytes");
    memcpy(&bits, object, sizeof bits);
    return unpack(bits);
}

static void write_barrier(void *object, barrier b)
{
    const uint64_t bits = pack(b);
    memcpy(object, &bits, sizeof bits);
}

static void add_transactions(const place *at, barrier *b, int64_t bytes)
{
    const int64_t total = b->bytes + bytes;
    if (total < -MAX_COUNT || total > MAX_COUNT)
        wrong(at, "the transactions of an mbarrier exceed what it counts");
    b->bytes = (int32_t)total;
}

/* The next phase begins when nobody and nothing is waited for any more. */
static bool end_phase(barrier *b)
{
    if (b->pending != 0 || b->bytes != 0)
        return false;
    b->pending = b->expected;
    b->odd = !b->odd;
    return true;
}

void INTEROP_SYM(cpu_mbarrier_init)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                    void *object, uint32_t count)
{
    const place at = {block, {x, y, z}, line};
    read_barrier(&at, object);
    if (count == 0 || count > MAX_COUNT)
        wrong(&at, "an mbarrier counts 1 to 1048575 arrivals");
    write_barrier(object, (barrier){.pending = count, .expected = count});
}

uint64_t INTEROP_SYM(cpu_mbarrier_arrive)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                          void *object, uint32_t count, uint32_t bytes, uint32_t how)
{
    const place at = {block, {x, y, z}, line};
    barrier b = read_barrier(&at, object);
    const uint64_t state = pack(b);
    if (how & INTEROP_CPU_EXPECT)
        add_transactions(&at, &b, bytes);
    if (count == 0 || count > b.pending)
        wrong(&at, "more arrivals than the mbarrier waits for, or none");
    b.pending -= count;
    if (how & INTEROP_CPU_DROP)
        b.expected -= count < b.expected ? count : b.expected;
    if (end_phase(&b) && (how & INTEROP_CPU_INCOMPLETE))
        wrong(&at, "an arrival with .noComplete completes the phase");
    write_barrier(object, b);
    return state;
}

void INTEROP_SYM(cpu_mbarrier_transact)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                        void *object, uint32_t bytes, uint32_t complete)
{
    const place at = {block, {x, y, z}, line};
    barrier b = read_barrier(&at, object);
    add_transactions(&at, &b, complete ? -(int64_t)bytes : (int64_t)bytes);
    if (complete)
        end_phase(&b);
    write_barrier(object, b);
}

/* Whether the phase of `state`, or with `parity` the last one of that parity (bit 0 of `state`), is over. */
uint32_t INTEROP_SYM(cpu_mbarrier_test)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                                        const void *object, uint64_t state, uint32_t parity)
{
    const place at = {block, {x, y, z}, line};
    const bool waited = parity ? state & 1 : unpack(state).odd;
    return read_barrier(&at, object).odd != waited;
}

uint32_t INTEROP_SYM(cpu_mbarrier_pending)(uint64_t state) { return unpack(state).pending; }

/* ---- cp.async ---- */

/* A copy by each lane of `mask`; where `used` is given, only so many bytes are read, and the rest becomes zero. */
void INTEROP_SYM(cpu_copy_lanes)(const uint64_t *to, const uint64_t *from, const uint32_t *used, uint32_t mask,
                                 uint32_t bytes)
{
    for (uint32_t lane = 0; lane < INTEROP_CPU_WARP; lane++) {
        if (!(mask >> lane & 1))
            continue;
        char *target = (char *)(uintptr_t)to[lane];
        const char *source = (const char *)(uintptr_t)from[lane];
        const uint32_t count = used != NULL ? used[lane] : bytes;
        if (count == 16) {
            memcpy(target, source, 16);
        } else {
            memcpy(target, source, count);
            memset(target + count, 0, bytes - count);
        }
    }
}

/* ---- cp.async in the strict mode ---- */

typedef struct copy {
    void *to;
    const void *from;
    uint32_t thread, group;
    uint32_t bytes, used; /* the rest becomes zero */
} copy;

/* Copies that have been issued and not been waited for, in order. */
struct interop_cpu_copies {
    uint32_t groups[INTEROP_CPU_MAX_THREADS]; /* that each thread has committed */
    size_t count, capacity;
    copy *list;
};

void INTEROP_SYM(cpu_clear_copies)(interop_cpu_block *block)
{
    memset(block->copies->groups, 0, sizeof block->copies->groups);
    block->copies->count = 0;
}

void INTEROP_SYM(cpu_free_copies)(interop_cpu_block *block)
{
    if (block->copies != NULL)
        free(block->copies->list);
    free(block->copies);
}

static uint32_t thread_index(const interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z)
{
    return x + block->ntid[0] * (y + block->ntid[1] * z);
}

static struct interop_cpu_copies *copies_of(interop_cpu_block *block, bool room)
{
    struct interop_cpu_copies *all = block->copies;
    if (all == NULL)
        all = block->copies = calloc(1, sizeof *all);
    if (all != NULL && room && all->count == all->capacity) {
        const size_t capacity = all->capacity ? 2 * all->capacity : 1024;
        copy *list = realloc(all->list, capacity * sizeof *list);
        if (list != NULL) {
            all->list = list;
            all->capacity = capacity;
        } else {
            all = NULL;
        }
    }
    if (all == NULL)
        INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for copies that wait");
    return all;
}

void INTEROP_SYM(cpu_copy_later)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, void *to,
                                 const void *from, uint32_t bytes, uint32_t used)
{
    struct interop_cpu_copies *all = copies_of(block, true);
    const uint32_t thread = thread_index(block, x, y, z);
    all->list[all->count++] = (copy){to, from, thread, all->groups[thread], bytes, used};
}

void INTEROP_SYM(cpu_commit_copies)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z)
{
    copies_of(block, false)->groups[thread_index(block, x, y, z)]++;
}

/* Performs the thread's copies but those of its `open` latest groups, and those that no group has yet. UINT32_MAX: all
 * of them, without exception. */
void INTEROP_SYM(cpu_wait_copies)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t open)
{
    struct interop_cpu_copies *all = copies_of(block, false);
    const uint32_t thread = thread_index(block, x, y, z), groups = all->groups[thread];
    const uint32_t past = open == UINT32_MAX ? groups + 1 : groups > open ? groups - open : 0;
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        const copy *c = &all->list[i];
        if (c->thread != thread || c->group >= past) {
            all->list[kept++] = *c;
            continue;
        }
        memcpy(c->to, c->from, c->used);
        memset((char *)c->to + c->used, 0, c->bytes - c->used);
    }
    all->count = kept;
}
