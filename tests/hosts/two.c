/* Two exported libraries in one program. */
#include <mix.h>
#include <second.h>

#include <stdio.h>

int main(void)
{
    mix_module *one = NULL;
    second_module *two = NULL;
    float values[2] = {1.0f, 2.0f};
    const interop_slice_f32 y = {values, 2}, odd = {values, 1};
    if (mix_load(interop_device_cpu(), &one) != INTEROP_OK || second_load(interop_device_cpu(), &two) != INTEROP_OK)
        return 1;
    if (mix_scale(one, NULL, y, 3.0f) != INTEROP_OK || second_scale(two, NULL, y, 5.0f) != INTEROP_OK)
        return 2;
    if (mix_scale(one, NULL, odd, 3.0f) != INTEROP_ERROR_CONTRACT)
        return 3;
    printf("%g %g\n%s\n%s\n", (double)values[0], (double)values[1], mix_last_error(), second_last_error());
    second_unload(two);
    mix_unload(one);
    return 0;
}
