/* Launches with options from C: bounds, budgets, interrupts, polling, from several threads at once. Exits with 0. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "interop_cpu.h"

extern const interop_cpu_kernel opt_cpu_shift_x86_64_v2, opt_cpu_spin_x86_64_v2, opt_cpu_barriers_x86_64_v2;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, error.message);                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { COUNT = 1000, BLOCK = 64 };

typedef struct {
    const float *x;
    float *y;
    int32_t shift;
} shift_params;

static int32_t shift(const float *x, float *y, int32_t by, size_t known, uint32_t threads, interop_cpu_error *error)
{
    const shift_params params = {x, y, by};
    const uint32_t grid[3] = {8, 1, 1}, block[3] = {BLOCK, 1, 1};
    interop_cpu_range ranges[40] = {{(uint64_t)(uintptr_t)y, 8 * BLOCK * sizeof *y, "y", INTEROP_CPU_WRITABLE, 0},
                                    {(uint64_t)(uintptr_t)x, known * sizeof *x, NULL, 0, 0}};
    const interop_cpu_options options = {.size = sizeof options, .ranges = ranges, .range_count = known % 2 ? 2 : 40};
    return interop_cpu_launch_with(&opt_cpu_shift_x86_64_v2, &params, sizeof params, grid, block, 0, threads, &options,
                                   error);
}

static void test_bounds(uint32_t threads)
{
    interop_cpu_error error = {0};
    float *x = calloc(COUNT, sizeof *x), *y = malloc(8 * BLOCK * sizeof *y);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    for (size_t known = COUNT - 1; known <= COUNT; known++) {
        CHECK(shift(x, y, 100, known, threads, &error) == 0 && y[511] == 611);
        CHECK(shift(x, y, (int32_t)known - 500, known, threads, &error) == 11);
        CHECK(strstr(error.message, "right behind the end of a buffer (") != NULL || threads > 1);
        CHECK(strstr(error.message, "out of bounds: reads 4 bytes") != NULL);
        CHECK(shift(x, y, -1, known, threads, &error) == 11);
        CHECK(error.thread[0] == 0 && error.block[0] == 0);
    }
    free(x);
    free(y);
}

static void *many_bounds(void *unused)
{
    for (int i = 0; i < 20; i++)
        test_bounds(2);
    return unused;
}

static int32_t launch(const interop_cpu_kernel *kernel, const interop_cpu_options *options, interop_cpu_error *error)
{
    const uint32_t grid[3] = {6, 1, 1}, block[3] = {32, 1, 1};
    const void *nothing = NULL;
    return interop_cpu_launch_with(kernel, &nothing, sizeof nothing, grid, block, 0, 3, options, error);
}

static void test_budget(const interop_cpu_kernel *kernel)
{
    interop_cpu_error error = {0};
    const interop_cpu_options options = {.size = sizeof options, .budget_seconds = 0.05};
    CHECK(launch(kernel, &options, &error) == 11);
    CHECK(strncmp(error.message, "did not end within its time budget of 0.05 s", 44) == 0);
}

static interop_cpu_flag flag;

static void *set_flag(void *unused)
{
    const struct timespec wait = {0, 60000000};
    nanosleep(&wait, NULL);
    atomic_store(&flag, 1);
    return unused;
}

static void test_interrupt(const interop_cpu_kernel *kernel)
{
    interop_cpu_error error = {0};
    pthread_t other;
    const interop_cpu_options options = {.size = sizeof options, .interrupt = &flag};
    atomic_store(&flag, 0);
    pthread_create(&other, NULL, set_flag, NULL);
    CHECK(launch(kernel, &options, &error) == 11);
    CHECK(strncmp(error.message, "was interrupted", 15) == 0);
    pthread_join(other, NULL);
}

static int32_t count_down(void *user)
{
    int *left = user;
    return --*left == 0;
}

static void test_poll(const interop_cpu_kernel *kernel)
{
    interop_cpu_error error = {0};
    int left = 3;
    const interop_cpu_options options = {.size = sizeof options, .poll = count_down, .user = &left};
    CHECK(launch(kernel, &options, &error) == 11 && left == 0);
    CHECK(strncmp(error.message, "was interrupted", 15) == 0);
}

static void *many_budgets(void *kernel)
{
    for (int i = 0; i < 3; i++)
        test_budget(kernel);
    return NULL;
}

static void test_refusals(void)
{
    interop_cpu_error error = {0};
    interop_cpu_options options = {.size = sizeof options, .flags = 1};
    CHECK(launch(&opt_cpu_spin_x86_64_v2, &options, &error) != 0 && strstr(error.message, "another version") != NULL);
    options = (interop_cpu_options){.size = 8};
    CHECK(launch(&opt_cpu_spin_x86_64_v2, &options, &error) != 0 && strstr(error.message, "another version") != NULL);
    options = (interop_cpu_options){.size = sizeof options, .budget_seconds = -1};
    CHECK(launch(&opt_cpu_spin_x86_64_v2, &options, &error) == 2 && strstr(error.message, "time budget") != NULL);
}

int main(void)
{
    const interop_cpu_kernel *endless[] = {&opt_cpu_spin_x86_64_v2, &opt_cpu_barriers_x86_64_v2};
    pthread_t threads[4];
    test_refusals();
    test_bounds(1);
    for (int i = 0; i < 2; i++) {
        test_budget(endless[i]);
        test_interrupt(endless[i]);
        test_poll(endless[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, i < 2 ? many_bounds : many_budgets,
                       i < 2 ? NULL : (void *)(uintptr_t)endless[i - 2]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts("fine");
    return 0;
}
