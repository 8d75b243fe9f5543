/* The CPU device: which memory a kernel may touch. Emitted code asks here when an access misses its own small cache;
 * what is found is put there, so that a loop over an array asks once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop_cpu_impl.h"

enum { EXECUTION = 11, NULL_PAGE = 65536 };

const char *INTEROP_SYM(cpu_place)(const interop_cpu_block *block, uint32_t line, char *text, size_t size)
{
    const interop_cpu_program *program = block->job->kernel->extra;
    uint32_t low = 0, high = program->line_count; /* the last entry that begins at or before `line` is below `low` */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (program->lines[middle].ptx <= line)
            low = middle + 1;
        else
            high = middle;
    }
    const interop_cpu_line *found = low > 0 ? &program->lines[low - 1] : NULL;
    if (found == NULL || found->line == 0 || found->file >= program->file_count) {
        snprintf(text, size, "ptx line %u", line);
    } else {
        enum { MOST = 120 }; /* the end of a path says more than its beginning */
        const char *file = program->files[found->file];
        const size_t length = strlen(file);
        snprintf(text, size, "ptx line %u, %s%s:%u", line, length > MOST ? "..." : "",
                 length > MOST ? file + length - MOST : file, found->line);
    }
    return text;
}

/* ---- what may be touched ---- */

typedef struct {
    uint64_t address, bytes;
    const char *name; /* NULL: "a buffer" */
    bool writable;
} span;

static bool inside(const span *allowed, uint64_t address, uint32_t bytes)
{
    return bytes <= allowed->bytes && address - allowed->address <= allowed->bytes - bytes;
}

/* The memory of the block, the worker and the module, one after the other; false behind the last. */
static bool own_memory(const interop_cpu_block *block, size_t index, span *found)
{
    const interop_cpu_program *program = block->job->kernel->extra;
    switch (index) {
    case 0:
        *found = (span){(uint64_t)(uintptr_t)block->shared, block->shared_bytes, "the block's shared memory", true};
        return true;
    case 1:
        *found = (span){(uint64_t)(uintptr_t)block->params, block->job->kernel->param_bytes, "the kernel's parameters",
                        false};
        return true;
    case 2: /* local variables of a plain kernel, and of functions that are called, lie on the worker's stack */
        found->address = (uint64_t)(uintptr_t)__builtin_frame_address(0);
        found->bytes = (uint64_t)(uintptr_t)block->stack - found->address;
        found->name = "local memory";
        found->writable = true;
        return true;
    default:
        break;
    }
    index -= 3;
    if (index < program->variable_count) {
        const interop_cpu_variable *variable = &program->variables[index];
        *found = (span){(uint64_t)(uintptr_t)variable->address, variable->bytes, variable->name,
                        (variable->flags & INTEROP_CPU_WRITABLE) != 0};
        return true;
    }
    index -= program->variable_count;
    const interop_cpu_chunk *chunk = block->chunks; /* frames of coroutines */
    while (chunk != NULL && index-- > 0)
        chunk = chunk->next;
    if (chunk == NULL)
        return false;
    *found = (span){(uint64_t)(uintptr_t)chunk->data, chunk->bytes, "local memory", true};
    return true;
}

static span of_range(const interop_cpu_range *range)
{
    return (span){range->address, range->bytes, range->name, (range->flags & INTEROP_CPU_WRITABLE) != 0};
}

/* The buffer that holds the access. Buffers may overlap, as a view does the whole: the search goes on to those that
 * begin earlier. */
static bool find_buffer(const interop_cpu_job *job, uint64_t address, uint32_t bytes, bool writes, span *found)
{
    size_t low = 0, high = job->range_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (job->ranges[middle].address <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0) {
        *found = of_range(&job->ranges[low]);
        if (inside(found, address, bytes) && (found->writable || !writes))
            return true;
    }
    return false;
}

static bool find(const interop_cpu_block *block, uint64_t address, uint32_t bytes, bool writes, bool local, span *found)
{
    for (size_t index = 0; own_memory(block, index, found); index++)
        if (inside(found, address, bytes) && (found->writable || !writes))
            return true;
    if (local)
        return false;
    if (block->job->ranges == NULL) {
        *found = (span){0, UINT64_MAX, NULL, true};
        return true;
    }
    return find_buffer(block->job, address, bytes, writes, found);
}

/* ---- what is said otherwise ---- */

/* How far an access is from a span: 0 where it begins inside. */
static uint64_t distance(const span *allowed, uint64_t address, uint32_t bytes)
{
    if (address - allowed->address < allowed->bytes)
        return 0;
    if (address >= allowed->address)
        return address - allowed->address - allowed->bytes;
    return address + bytes <= allowed->address ? allowed->address - address - bytes : 0;
}

static void relate(const span *near, uint64_t address, uint32_t bytes, char *text, size_t size)
{
    const char *name = near->name != NULL ? near->name : "a buffer";
    const unsigned long long whole = near->bytes;
    if (inside(near, address, bytes)) {
        snprintf(text, size, "in %.60s, which is only read", name);
    } else if (address - near->address < near->bytes) {
        snprintf(text, size, "across the end of %.60s (%llu bytes), of which %llu are left there", name, whole,
                 (unsigned long long)(near->bytes - (address - near->address)));
    } else if (address == near->address + near->bytes) {
        snprintf(text, size, "right behind the end of %.60s (%llu bytes)", name, whole);
    } else if (address >= near->address) {
        snprintf(text, size, "%llu bytes behind the end of %.60s (%llu bytes)",
                 (unsigned long long)(address - near->address - near->bytes), name, whole);
    } else {
        snprintf(text, size, "%llu bytes before the beginning of %.60s (%llu bytes)",
                 (unsigned long long)(near->address - address), name, whole);
    }
}

/* Relates an address to the buffer that is nearest. */
static void describe(const interop_cpu_block *block, uint64_t address, uint32_t bytes, bool local, char *text,
                     size_t size)
{
    span candidate, near = {0};
    uint64_t best = UINT64_MAX;
    if (address < NULL_PAGE) {
        snprintf(text, size, "at the null pointer plus %llu", (unsigned long long)address);
        return;
    }
    for (size_t index = 0; !local && index < block->job->range_count; index++) {
        candidate = of_range(&block->job->ranges[index]);
        if (distance(&candidate, address, bytes) < best) {
            near = candidate;
            best = distance(&near, address, bytes);
        }
    }
    for (size_t index = 0; own_memory(block, index, &candidate); index++)
        if (distance(&candidate, address, bytes) < best) {
            near = candidate;
            best = distance(&near, address, bytes);
        }
    enum { FAR = 1 << 30 };
    if (best <= FAR)
        relate(&near, address, bytes, text, size);
    else
        snprintf(text, size, "at 0x%llx, far from every buffer that was passed", (unsigned long long)address);
}

static const char *const verbs[] = {"reads", "writes", "updates"};

INTEROP_CPU_NORETURN static void refuse(interop_cpu_block *block, uint64_t address, uint32_t bytes, uint32_t access,
                                        const uint32_t tid[3], uint32_t line)
{
    char place[INTEROP_CPU_PLACE], text[200];
    if (access & INTEROP_CPU_SHARED) {
        const span window = {0, block->shared_bytes, "the block's shared memory", true};
        relate(&window, address, bytes, text, sizeof text);
    } else {
        describe(block, address, bytes, (access & INTEROP_CPU_LOCAL) != 0, text, sizeof text);
    }
    INTEROP_SYM(cpu_fail)
    (block, EXECUTION, tid, "out of bounds: %s %u byte%s %s (%s)", verbs[access & 3], bytes, bytes == 1 ? "" : "s",
     text, INTEROP_SYM(cpu_place)(block, line, place, sizeof place));
}

/* ---- called by emitted code ---- */

/* `address` of an access to shared memory counts from the block's window; such accesses have no cache. */
void INTEROP_SYM(cpu_bounds)(interop_cpu_block *block, uint32_t site, uint64_t address, uint32_t bytes, uint32_t access,
                             uint32_t x, uint32_t y, uint32_t z, uint32_t line)
{
    span found;
    const bool writes = (access & 3) != INTEROP_CPU_READ;
    if (access & INTEROP_CPU_SHARED) {
        if (bytes <= block->shared_bytes && address <= block->shared_bytes - bytes)
            return;
    } else if (find(block, address, bytes, writes, (access & INTEROP_CPU_LOCAL) != 0, &found)) {
        block->sites[site].base = found.address;
        block->sites[site].count = found.bytes - bytes + 1;
        return;
    }
    refuse(block, address, bytes, access, (const uint32_t[]){x, y, z}, line);
}

/* The same for the lanes of `mask`. `first_x`, `y`, `z` is the thread of lane 0; lanes run on into the next rows. */
void INTEROP_SYM(cpu_bounds_lanes)(interop_cpu_block *block, uint32_t site, const uint64_t *addresses, uint32_t lanes,
                                   uint32_t mask, uint32_t bytes, uint32_t access, uint32_t first_x, uint32_t y,
                                   uint32_t z, uint32_t line)
{
    const interop_cpu_site *cache = &block->sites[site];
    uint32_t x = first_x;
    for (uint32_t lane = 0; lane < lanes; lane++, x++) {
        while (x >= block->ntid[0]) {
            x -= block->ntid[0];
            if (++y >= block->ntid[1]) {
                y = 0;
                z++;
            }
        }
        if (!(mask >> lane & 1))
            continue;
        if (!(access & INTEROP_CPU_SHARED) && addresses[lane] - cache->base < cache->count)
            continue;
        INTEROP_SYM(cpu_bounds)(block, site, addresses[lane], bytes, access, x, y, z, line);
    }
}
