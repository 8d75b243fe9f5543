/* A C host of the export tests: `host DEVICE CASE` prints "status message" or results, one number a line. */
#include <mix.h>

#include <stdio.h>
#include <stdlib.h>

static mix_module *module;

static int report(interop_status status)
{
    printf("%d %s\n", (int)status, status == INTEROP_OK ? "" : mix_last_error());
    return 0;
}

static void must(interop_status status)
{
    if (status != INTEROP_OK) {
        printf("unexpected: %d %s\n", (int)status, mix_last_error());
        exit(1);
    }
}

static float *floats(size_t count, float first, float step)
{
    float *host = malloc(count * sizeof *host);
    void *device = NULL;
    size_t i;
    for (i = 0; i < count; i++)
        host[i] = first + step * (float)i;
    must(mix_alloc(module, count * sizeof *host, &device));
    must(mix_copy_in(module, NULL, device, host, count * sizeof *host));
    free(host);
    return device;
}

static void print_floats(const float *device, size_t count)
{
    float *host = malloc(count * sizeof *host);
    size_t i;
    must(mix_copy_out(module, NULL, host, device, count * sizeof *host));
    for (i = 0; i < count; i++)
        printf("%a\n", (double)host[i]);
    free(host);
}

static interop_slice_const_f32 x;
static interop_slice_f32 y;

static int run(void)
{
    must(mix_saxpy(module, NULL, x, y, 0.3f));
    must(mix_synchronize(module, NULL));
    print_floats(y.data, (size_t)y.length);
    return 0;
}

static int short_slice(void)
{
    x.length = 3;
    y.length = 4;
    return report(mix_saxpy(module, NULL, x, y, 2.0f));
}

static int two_dimensional(void)
{
    const interop_launch_config config = {&(interop_dim3){2, 2, 1}, NULL, 0, NULL, false};
    return report(mix_saxpy_ex(module, &config, x, y, 2.0f));
}

static int wrong_block(void)
{
    const interop_launch_config config = {NULL, &(interop_dim3){128, 1, 1}, 0, NULL, false};
    return report(mix_saxpy_ex(module, &config, x, y, 2.0f));
}

static int too_many_threads(void)
{
    const interop_launch_config config = {NULL, &(interop_dim3){64, 4, 1}, 0, NULL, false};
    return report(mix_scale_ex(module, &config, y, 2.0f));
}

static int grid_shorthand(void)
{
    const interop_launch_config config = {.grid = &(interop_dim3){.x = 4}, .block = &(interop_dim3){.x = 256}};
    return report(mix_saxpy_ex(module, &config, x, y, 2.0f));
}

static int overlapping(void)
{
    x.data = y.data + 5;
    x.length = y.length = 10;
    return report(mix_saxpy(module, NULL, x, y, 2.0f));
}

static int noted_rule(void)
{
    y.length = 7;
    return report(mix_scale(module, NULL, y, 2.0f));
}

static int null_module(void) { return report(mix_saxpy(NULL, NULL, x, y, 2.0f)); }

static int null_hash(void)
{
    mix_module *other = NULL;
    return report(mix_load_checked(interop_device_cpu(), NULL, NULL, &other));
}

static int null_data(void)
{
    x.data = NULL;
    return report(mix_saxpy(module, NULL, x, y, 2.0f));
}

static int misaligned(void)
{
    x.data = (const float *)(const void *)((const char *)x.data + 2);
    x.length--;
    return report(mix_saxpy(module, NULL, x, (interop_slice_f32){y.data, 1}, 2.0f));
}

static int huge_length(void)
{
    x.length = UINT64_MAX;
    return report(mix_saxpy(module, NULL, x, y, 2.0f));
}

static int empty(void)
{
    const interop_slice_const_f32 no_x = {NULL, 0};
    const interop_slice_f32 no_y = {NULL, 0};
    return report(mix_saxpy(module, NULL, no_x, no_y, 2.0f));
}

static int grid_limit(void)
{
    const interop_launch_config config = {&(interop_dim3){1, 1, 70000}, NULL, 0, NULL, false};
    return report(mix_scale_ex(module, &config, y, 2.0f));
}

static int grid_zero(void)
{
    const interop_launch_config config = {&(interop_dim3){1, 0, 1}, NULL, 0, NULL, false};
    return report(mix_scale_ex(module, &config, y, 2.0f));
}

static int new_with_shared(uint32_t bytes)
{
    const interop_launch_config config = {NULL, &(interop_dim3){64, 1, 1}, bytes, NULL, false};
    void *values = NULL, *sums = NULL;
    must(mix_alloc(module, 64 * 8, &values));
    must(mix_alloc(module, 8, &sums));
    report(mix_new__ex(module, &config, (interop_slice_const_f64){values, 64}, (interop_slice_f64){sums, 1}));
    must(mix_free(module, values));
    must(mix_free(module, sums));
    return 0;
}

static int shared_limit(void) { return new_with_shared(300000); }
static int shared_short(void) { return new_with_shared(511); }
static int shared_enough(void) { return new_with_shared(512); }
static int shared_more(void) { return new_with_shared(520); }

static int negative_extent(void)
{
    const interop_tensor2_const_i32 src = {(const int32_t *)(const void *)y.data, {-1, 4}, {4, 1}};
    const interop_tensor2_i32 dst = {(int32_t *)(void *)y.data, {4, 1}, {1, 1}};
    return report(mix_transpose(module, NULL, src, dst));
}

static int transpose(void)
{
    enum { ROWS = 37, COLUMNS = 21 };
    static int32_t src[ROWS][2 * COLUMNS], dst[COLUMNS][ROWS]; /* every other column of src */
    void *from = NULL, *to = NULL;
    int row, column;
    for (row = 0; row < ROWS; row++)
        for (column = 0; column < 2 * COLUMNS; column++)
            src[row][column] = 1000 * row + column;
    must(mix_alloc(module, sizeof src, &from));
    must(mix_alloc(module, sizeof dst, &to));
    must(mix_copy_in(module, NULL, from, src, sizeof src));
    must(mix_transpose(module, NULL, (interop_tensor2_const_i32){from, {ROWS, COLUMNS}, {2 * COLUMNS, 2}},
                       (interop_tensor2_i32){to, {COLUMNS, ROWS}, {ROWS, 1}}));
    must(mix_copy_out(module, NULL, dst, to, sizeof dst));
    for (column = 0; column < COLUMNS; column++)
        for (row = 0; row < ROWS; row++)
            if (dst[column][row] != 1000 * row + 2 * column) {
                printf("dst[%d][%d] = %d\n", column, row, (int)dst[column][row]);
                return 1;
            }
    must(mix_free(module, from));
    must(mix_free(module, to));
    printf("transposed\n");
    return 0;
}

static int widths(void)
{
    struct {
        char tag;
        double where[2];
    } point = {'p', {1.5, -2.25}};
    interop_bytes_24_8 bytes;
    double host[10];
    void *out = NULL;
    int i;
    memcpy(bytes.bytes, &point, sizeof bytes.bytes);
    must(mix_alloc(module, sizeof host, &out));
    must(mix_widths(module, NULL, (interop_slice_f64){out, 10}, true, -128, 65535, INT32_MIN, UINT64_C(1) << 63,
                    interop_f16_from_float(0.1f), 0.1f, 0.1, bytes));
    must(mix_copy_out(module, NULL, host, out, sizeof host));
    for (i = 0; i < 10; i++)
        printf("%a\n", host[i]);
    must(mix_free(module, out));
    return 0;
}

static int reload(void)
{
    int i;
    for (i = 0; i < 3; i++) {
        mix_module *other = NULL;
        must(mix_load(mix_device(module), &other));
        must(mix_saxpy(other, NULL, x, y, 0.0f));
        mix_unload(other);
    }
    mix_unload(NULL);
    printf("reloaded\n");
    return 0;
}

static int other_header(void)
{
    mix_module *other = NULL;
    return report(mix_load_checked(mix_device(module), "another", "saxpy(interop_slice_f32 x, float a)\n", &other));
}

static int device(void)
{
    printf("%d %s\n%s\n", (int)mix_device(module).kind, mix_device_name(module), mix_device_note(module));
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"run", run},
    {"short_slice", short_slice},
    {"two_dimensional", two_dimensional},
    {"wrong_block", wrong_block},
    {"too_many_threads", too_many_threads},
    {"grid_shorthand", grid_shorthand},
    {"overlapping", overlapping},
    {"noted_rule", noted_rule},
    {"null_module", null_module},
    {"null_hash", null_hash},
    {"null_data", null_data},
    {"misaligned", misaligned},
    {"huge_length", huge_length},
    {"empty", empty},
    {"grid_limit", grid_limit},
    {"grid_zero", grid_zero},
    {"shared_limit", shared_limit},
    {"shared_short", shared_short},
    {"shared_enough", shared_enough},
    {"shared_more", shared_more},
    {"negative_extent", negative_extent},
    {"transpose", transpose},
    {"widths", widths},
    {"reload", reload},
    {"other_header", other_header},
    {"device", device},
};

int main(int argc, char **argv)
{
    interop_device which = interop_device_best();
    void *x_memory, *y_memory;
    size_t i;
    int result = 2;
    if (argc != 3)
        return 2;
    if (!strcmp(argv[1], "cpu"))
        which = interop_device_cpu();
    else if (!strncmp(argv[1], "cuda", 4))
        which = interop_device_cuda(argv[1][4] == ':' ? atoi(argv[1] + 5) : 0);
    if (mix_load(which, &module) != INTEROP_OK) {
        printf("load: %s\n", mix_last_error());
        return 3;
    }
    x_memory = floats(1000, 1.0f, 0.25f);
    y_memory = floats(1000, -3.0f, 0.125f);
    x = (interop_slice_const_f32){x_memory, 1000};
    y = (interop_slice_f32){y_memory, 1000};
    for (i = 0; i < sizeof cases / sizeof *cases; i++)
        if (!strcmp(argv[2], cases[i].name))
            result = cases[i].run();
    must(mix_free(module, x_memory));
    must(mix_free(module, y_memory));
    mix_unload(module);
    return result;
}
