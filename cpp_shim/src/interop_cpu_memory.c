/* The CPU device: memory that kernels ask for while they run. The heap behind malloc, and the stacks behind alloca in
 * kernels whose threads are coroutines. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "interop_cpu_impl.h"

enum { EXECUTION = 11 };

/* ---- the heap ----
 *
 * One range of addresses for the whole process, reserved when a kernel first asks and used from its beginning. As on a
 * device, what one kernel allocates lives on and another may free it; and one range is easy to recognise when addresses
 * are checked. Sizes are powers of two, each with a list of freed blocks. */

#define HEAP_BYTES ((size_t)1 << 30)
#define HEAP_LIVE UINT64_C(0x6865617020697320)

/* Lies right before what malloc returns. */
typedef struct {
    uint64_t check; /* HEAP_LIVE and the address while it is allocated */
    uint32_t order; /* of the power of two */
    uint32_t skip;  /* from the beginning of the block to this header */
} heap_header;

typedef struct heap_free {
    struct heap_free *next;
} heap_free;

static struct {
    pthread_mutex_t lock;
    unsigned char *base;
    size_t bytes, used;
    heap_free *spare[64];
    bool asked;
} heap = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock_heap(void) { pthread_mutex_lock(&heap.lock); }

static void unlock_heap(void) { pthread_mutex_unlock(&heap.lock); }

/* With the lock held. INTEROP_CPU_HEAP_BYTES says how large the heap may become. */
static void reserve_heap(void)
{
    const char *text = getenv("INTEROP_CPU_HEAP_BYTES");
    char *end = NULL;
    const unsigned long long wanted = text != NULL ? strtoull(text, &end, 10) : 0;
    heap.asked = true;
    heap.bytes = text != NULL && end != text && *end == '\0' ? (size_t)wanted : HEAP_BYTES;
    void *base = MAP_FAILED;
    if (heap.bytes != 0 && pthread_atfork(lock_heap, unlock_heap, unlock_heap) == 0)
        base = mmap(NULL, heap.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        heap.bytes = 0;
    else
        heap.base = base;
}

/* After the pool's threads have ended: its destructor has no priority, and those with a number run later. */
__attribute__((destructor(101))) static void release_heap(void)
{
    if (heap.base != NULL)
        munmap(heap.base, heap.bytes);
}

/* The address; 0 when there is no room, or for an alignment that is no power of two. */
uint64_t INTEROP_SYM(cpu_malloc)(uint64_t bytes, uint64_t align)
{
    if (align == 0 || (align & (align - 1)) != 0 || bytes > SIZE_MAX / 4 || align > SIZE_MAX / 8)
        return 0;
    if (align < sizeof(heap_header))
        align = sizeof(heap_header);
    /* A block begins at a multiple of 16, so that up to align - 16 bytes may be skipped. */
    const uint64_t total = sizeof(heap_header) + bytes + (align - sizeof(heap_header));
    uint32_t order = 5;
    while ((UINT64_C(1) << order) < total)
        order++;
    lock_heap();
    if (!heap.asked)
        reserve_heap();
    unsigned char *block = NULL;
    if (heap.spare[order] != NULL) {
        block = (unsigned char *)heap.spare[order];
        heap.spare[order] = heap.spare[order]->next;
    } else if (((uint64_t)1 << order) <= heap.bytes - heap.used) {
        block = heap.base + heap.used;
        heap.used += (size_t)1 << order;
    }
    uint64_t address = 0;
    if (block != NULL) {
        const uint64_t start = (uint64_t)(uintptr_t)block;
        address = (start + sizeof(heap_header) + align - 1) & ~(align - 1);
        const uint64_t skip = address - sizeof(heap_header) - start;
        const heap_header header = {HEAP_LIVE ^ address, order, (uint32_t)(skip / sizeof(heap_header))};
        memcpy(block + skip, &header, sizeof header);
    }
    unlock_heap();
    return address;
}

void INTEROP_SYM(cpu_free)(interop_cpu_block *block, uint32_t x, uint32_t y, uint32_t z, uint32_t line,
                           uint64_t address)
{
    if (address == 0)
        return;
    bool known = false;
    lock_heap();
    const uint64_t offset = address - (uint64_t)(uintptr_t)heap.base;
    if (offset >= sizeof(heap_header) && offset < heap.used && offset % sizeof(heap_header) == 0) {
        unsigned char *at = heap.base + offset - sizeof(heap_header);
        heap_header header;
        memcpy(&header, at, sizeof header);
        known = header.check == (HEAP_LIVE ^ address);
        if (known) {
            memset(at, 0, sizeof header);
            heap_free *freed = (heap_free *)(void *)(at - (size_t)header.skip * sizeof header);
            freed->next = heap.spare[header.order];
            heap.spare[header.order] = freed;
        }
    }
    unlock_heap();
    if (!known)
        INTEROP_SYM(cpu_fail)
    (block, EXECUTION, (uint32_t[]){x, y, z},
     "free of 0x%llx, which malloc did not return or which is free (ptx line %u)", (unsigned long long)address, line);
}

/* ---- stacks of coroutines ----
 *
 * A thread that is suspended keeps nothing on the host's stack. What it allocates comes from the arena in which the
 * coroutines' frames lie, in segments that are given back to the block and taken again by any of its threads. */

enum { SMALLEST = 9, STACK_LIMIT = 1 << 28 };

struct interop_cpu_segment {
    struct interop_cpu_segment *below;
    size_t bytes, used; /* of data */
    void *caller;       /* of a coroutine that lies in data */
    uint32_t order;
    _Alignas(64) unsigned char data[];
};

static interop_cpu_segment *take_segment(interop_cpu_block *block, size_t bytes)
{
    uint32_t order = SMALLEST;
    while (((size_t)1 << order) < sizeof(interop_cpu_segment) + bytes)
        order++;
    interop_cpu_segment *segment = block->spare[order];
    if (segment != NULL)
        block->spare[order] = segment->below;
    else
        segment = INTEROP_SYM(cpu_frame)(block, (uint64_t)1 << order);
    segment->order = order;
    segment->bytes = ((size_t)1 << order) - sizeof(interop_cpu_segment);
    segment->used = 0;
    block->stack_bytes += (size_t)1 << order;
    return segment;
}

static void give_segment(interop_cpu_block *block, interop_cpu_segment *segment)
{
    block->stack_bytes -= (size_t)1 << segment->order;
    segment->below = block->spare[segment->order];
    block->spare[segment->order] = segment;
}

uint64_t INTEROP_SYM(cpu_alloca)(interop_cpu_block *block, interop_cpu_thread *thread, uint32_t line, uint64_t bytes,
                                 uint64_t align)
{
    interop_cpu_segment *top = thread->stack;
    for (int attempt = 0; attempt < 2; attempt++) {
        if (top != NULL) {
            const uint64_t free = (uint64_t)(uintptr_t)(top->data + top->used);
            const uint64_t address = (free + align - 1) & ~(align - 1);
            const uint64_t end = (uint64_t)(uintptr_t)(top->data + top->bytes);
            if (address <= end && bytes <= end - address) {
                top->used = (size_t)(address + bytes - (uint64_t)(uintptr_t)top->data);
                return address;
            }
        }
        if (bytes > STACK_LIMIT || block->stack_bytes + bytes + align > STACK_LIMIT)
            break;
        top = take_segment(block, (size_t)(bytes + align));
        top->below = thread->stack;
        thread->stack = top;
    }
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, thread->tid, "the stack has no room for %llu bytes (ptx line %u)", (unsigned long long)bytes,
     line);
}

/* Where the thread's stack ends; 0 while it is empty. */
uint64_t INTEROP_SYM(cpu_stack_save)(const interop_cpu_thread *thread)
{
    return thread->stack == NULL ? 0 : (uint64_t)(uintptr_t)(thread->stack->data + thread->stack->used);
}

/* Gives back what was allocated since `cpu_stack_save` returned `top`. */
void INTEROP_SYM(cpu_stack_restore)(interop_cpu_block *block, interop_cpu_thread *thread, uint64_t top)
{
    while (thread->stack != NULL) {
        interop_cpu_segment *segment = thread->stack;
        const uint64_t used = top - (uint64_t)(uintptr_t)segment->data;
        if (used <= segment->used) {
            segment->used = (size_t)used;
            return;
        }
        thread->stack = segment->below;
        give_segment(block, segment);
    }
}

/* ---- functions that are coroutines of their own ---- */

static interop_cpu_segment *segment_of(void *frame)
{
    return (interop_cpu_segment *)(void *)((unsigned char *)frame - offsetof(interop_cpu_segment, data));
}

/* Memory for the frame of a callee, which the scheduler resumes from now on, until cpu_call_return. */
void *INTEROP_SYM(cpu_call_frame)(interop_cpu_block *block, interop_cpu_thread *thread, uint32_t line, uint64_t bytes)
{
    if (bytes > STACK_LIMIT || block->stack_bytes + bytes > STACK_LIMIT)
        INTEROP_SYM(cpu_fail)
    (block, EXECUTION, thread->tid, "a function calls itself until the stack is full (ptx line %u)", line);
    interop_cpu_segment *segment = take_segment(block, (size_t)bytes);
    segment->caller = thread->innermost;
    thread->innermost = segment->data;
    return segment->data;
}

/* The innermost callee is done. */
void INTEROP_SYM(cpu_call_return)(interop_cpu_thread *thread)
{
    thread->innermost = segment_of(thread->innermost)->caller;
}

void INTEROP_SYM(cpu_call_end)(interop_cpu_block *block, void *frame) { give_segment(block, segment_of(frame)); }
