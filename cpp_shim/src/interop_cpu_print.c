/* The CPU device: printf of kernels. Arguments lie in the buffer as CUDA's vprintf packs them: each aligned to its
 * size, int 4 bytes, long and pointers 8, floating point as double. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interop_cpu_impl.h"

enum { OUT_OF_MEMORY = 10, FLUSH_AT = 1 << 20 };

void INTEROP_SYM(cpu_flush_print)(interop_cpu_block *block)
{
    const size_t used = block->print_used;
    block->print_used = 0;
    if (used)
        INTEROP_SYM(cpu_emit_print)(block->print, used);
}

/* Room for `bytes` more at the end of the buffer. */
static char *reserve(interop_cpu_block *block, size_t bytes)
{
    if (block->print_used + bytes > block->print_capacity) {
        const size_t capacity = (block->print_used + bytes) * 2;
        char *larger = realloc(block->print, capacity);
        if (larger == NULL)
            INTEROP_SYM(cpu_fail)(block, OUT_OF_MEMORY, NULL, "no memory for what the kernel prints");
        block->print = larger;
        block->print_capacity = capacity;
    }
    return block->print + block->print_used;
}

static void append(interop_cpu_block *block, const char *text, size_t bytes)
{
    memcpy(reserve(block, bytes), text, bytes);
    block->print_used += bytes;
}

typedef struct {
    const unsigned char *base;
    size_t offset;
} argument_list;

static uint32_t next32(argument_list *list)
{
    uint32_t value;
    list->offset = (list->offset + 3) & ~(size_t)3;
    memcpy(&value, list->base + list->offset, sizeof value);
    list->offset += 4;
    return value;
}

static uint64_t next64(argument_list *list)
{
    uint64_t value;
    list->offset = (list->offset + 7) & ~(size_t)7;
    memcpy(&value, list->base + list->offset, sizeof value);
    list->offset += 8;
    return value;
}

typedef struct {
    char flags[16]; /* flags, width and precision, with `*` replaced by its value */
    size_t length;
    bool wide;  /* the argument has 64 bits */
    int narrow; /* 1: h, 2: hh */
    char conversion;
} specification;

static void add(specification *spec, char c)
{
    if (spec->length + 1 < sizeof spec->flags - 1)
        spec->flags[spec->length++] = c;
}

/* Reads what stands behind a `%`; returns the first character behind the specification. */
static const char *read_specification(const char *at, specification *spec, argument_list *list)
{
    memset(spec, 0, sizeof *spec);
    while (*at != '\0' && strchr("-+ #0123456789.*", *at) != NULL) {
        if (*at == '*') {
            char number[16];
            snprintf(number, sizeof number, "%d", (int)next32(list));
            for (const char *digit = number; *digit != '\0'; digit++)
                add(spec, *digit);
        } else {
            add(spec, *at);
        }
        at++;
    }
    while (*at != '\0' && strchr("hlLqjzt", *at) != NULL) {
        if (*at == 'h')
            spec->narrow++;
        else
            spec->wide = true;
        at++;
    }
    spec->conversion = *at;
    return *at == '\0' ? at : at + 1;
}

static int format_integer(char *out, size_t size, const specification *spec, argument_list *list)
{
    char format[32];
    const uint64_t raw = spec->wide ? next64(list) : next32(list);
    snprintf(format, sizeof format, "%%%sll%c", spec->flags, spec->conversion);
    if (spec->conversion == 'd' || spec->conversion == 'i') {
        int64_t value = spec->wide ? (int64_t)raw : (int64_t)(int32_t)raw;
        if (spec->narrow == 1)
            value = (int16_t)value;
        if (spec->narrow > 1)
            value = (int8_t)value;
        return snprintf(out, size, format, (long long)value);
    }
    const uint64_t mask = spec->narrow == 0 ? UINT64_MAX : spec->narrow == 1 ? 0xffff : 0xff;
    return snprintf(out, size, format, (unsigned long long)(raw & mask));
}

static int format_one(char *out, size_t size, const specification *spec, argument_list *list)
{
    char format[32];
    snprintf(format, sizeof format, "%%%s%c", spec->flags, spec->conversion);
    switch (spec->conversion) {
    case 'c':
        return snprintf(out, size, format, (int)next32(list));
    case 's': {
        const char *text = (const char *)(uintptr_t)next64(list);
        return snprintf(out, size, format, text != NULL ? text : "(null)");
    }
    case 'p':
        return snprintf(out, size, format, (void *)(uintptr_t)next64(list));
    default: {
        const uint64_t bits = next64(list);
        double value;
        memcpy(&value, &bits, sizeof value);
        return snprintf(out, size, format, value);
    }
    }
}

int32_t INTEROP_SYM(cpu_vprintf)(interop_cpu_block *block, const char *format, const unsigned char *arguments)
{
    argument_list list = {arguments, 0};
    int32_t count = 0;
    while (*format != '\0') {
        const size_t plain = strcspn(format, "%");
        append(block, format, plain);
        format += plain;
        if (*format == '\0')
            break;
        if (format[1] == '%') {
            append(block, "%", 1);
            format += 2;
            continue;
        }
        specification spec;
        const char *behind = read_specification(format + 1, &spec, &list);
        const bool integer = spec.conversion != '\0' && strchr("diouxX", spec.conversion) != NULL;
        if (spec.conversion == '\0' || (!integer && strchr("csaAeEfFgGp", spec.conversion) == NULL)) {
            append(block, format, (size_t)(behind - format)); /* not a conversion: as it stands, like CUDA */
            format = behind;
            continue;
        }
        argument_list again = list;
        size_t room = 64;
        int length = integer ? format_integer(reserve(block, room), room, &spec, &list)
                             : format_one(reserve(block, room), room, &spec, &list);
        if (length >= (int)room) {
            room = (size_t)length + 1;
            list = again;
            length = integer ? format_integer(reserve(block, room), room, &spec, &list)
                             : format_one(reserve(block, room), room, &spec, &list);
        }
        if (length < 0)
            return -1;
        block->print_used += (size_t)length;
        count++;
        format = behind;
    }
    if (block->print_used > FLUSH_AT)
        INTEROP_SYM(cpu_flush_print)(block);
    return count;
}
