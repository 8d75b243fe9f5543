/* The half formats of types.h as functions that a test can call on arrays. */
#include <interop/types.h>

void f16_from(const float *from, uint16_t *to, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        to[i] = interop_f16_from_float(from[i]).bits;
}

void bf16_from(const float *from, uint16_t *to, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        to[i] = interop_bf16_from_float(from[i]).bits;
}

void f16_to(const uint16_t *from, float *to, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        to[i] = interop_f16_to_float((interop_f16){from[i]});
}

void bf16_to(const uint16_t *from, float *to, size_t count)
{
    size_t i;
    for (i = 0; i < count; i++)
        to[i] = interop_bf16_to_float((interop_bf16){from[i]});
}
