// Four elements at a time, then the rest.
extern "C" __global__ void saxpy(const float *__restrict__ x, float *__restrict__ y, float a, int n)
{
    const int first = blockIdx.x * blockDim.x + threadIdx.x, step = gridDim.x * blockDim.x;
    const float4 *x4 = reinterpret_cast<const float4 *>(x);
    float4 *y4 = reinterpret_cast<float4 *>(y);
    for (int i = first; i < n / 4; i += step) {
        float4 u = x4[i], v = y4[i];
        v.x += a * u.x;
        v.y += a * u.y;
        v.z += a * u.z;
        v.w += a * u.w;
        y4[i] = v;
    }
    for (int i = n / 4 * 4 + first; i < n; i += step)
        y[i] += a * x[i];
}
