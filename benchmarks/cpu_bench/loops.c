/* The loops that a C programmer writes instead of the kernels; compiled with gcc -O3 -march=native. */
#include <math.h>
#include <stdint.h>
#include <string.h>

void saxpy(const float *restrict x, float *restrict y, float a, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = a * x[i] + y[i];
}

void stencil(const float *restrict from, float *restrict to, int width, int height)
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float middle = from[y * width + x];
            float left = x > 0 ? from[y * width + x - 1] : middle;
            float right = x < width - 1 ? from[y * width + x + 1] : middle;
            float above = y > 0 ? from[(y - 1) * width + x] : middle;
            float below = y < height - 1 ? from[(y + 1) * width + x] : middle;
            to[y * width + x] = 0.5f * middle + 0.125f * (left + right + above + below);
        }
}

void softmax(const float *restrict x, float *restrict y, int rows, int columns)
{
    for (int r = 0; r < rows; r++, x += columns, y += columns) {
        float most = -INFINITY, sum = 0.0f;
        for (int i = 0; i < columns; i++)
            most = x[i] > most ? x[i] : most;
        for (int i = 0; i < columns; i++)
            sum += y[i] = expf(x[i] - most);
        for (int i = 0; i < columns; i++)
            y[i] /= sum;
    }
}

float sum(const float *x, int n)
{
    float total = 0.0f;
    for (int i = 0; i < n; i++)
        total += x[i];
    return total;
}

void matmul(const float *restrict a, const float *restrict b, float *restrict c, int n)
{
    memset(c, 0, sizeof(float) * n * n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++)
            for (int j = 0; j < n; j++)
                c[i * n + j] += a[i * n + k] * b[k * n + j];
}

void histogram(const uint8_t *restrict x, uint32_t *restrict bins, int n)
{
    for (int i = 0; i < n; i++)
        bins[x[i]]++;
}

/* The barrier kernel, its loop split at the barriers by hand. */
void barriers(float *x, int blocks, int iterations)
{
    for (int b = 0; b < blocks; b++, x += 256) {
        float s[256], neighbour[256];
        memcpy(s, x, sizeof s);
        for (int k = 0; k < iterations; k++) {
            for (int t = 0; t < 256; t++)
                neighbour[t] = s[(t + 32) & 255];
            for (int t = 0; t < 256; t++)
                s[t] = neighbour[t] + 1.0f;
        }
        memcpy(x, s, sizeof s);
    }
}

void mandelbrot(int *out, int width, int height, int limit)
{
    for (int py = 0; py < height; py++)
        for (int px = 0; px < width; px++) {
            float cx = -2.0f + 3.0f * px / width, cy = -1.5f + 3.0f * py / height, x = 0.0f, y = 0.0f;
            int k = 0;
            while (k < limit && x * x + y * y < 4.0f) {
                float next = x * x - y * y + cx;
                y = 2.0f * x * y + cy;
                x = next;
                k++;
            }
            out[py * width + px] = k;
        }
}
