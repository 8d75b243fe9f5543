// Functions of the mathematical library, in single and double precision.
extern "C" __global__ void maths_f32(const float *x, const float *y, float *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const float u = x[i], v = y[i], p = fabsf(u) + 0.01f;
    int e;
    float part;
    const float r[] = {sinf(u),
                       cosf(u),
                       tanf(u),
                       asinf(u / 8),
                       acosf(u / 8),
                       atanf(u),
                       atan2f(u, v),
                       sinhf(u),
                       coshf(u),
                       tanhf(u),
                       asinhf(u),
                       acoshf(p + 1),
                       atanhf(u / 8),
                       expf(u),
                       exp2f(u),
                       expm1f(u),
                       exp10f(u),
                       logf(p),
                       log2f(p),
                       log10f(p),
                       log1pf(p),
                       sqrtf(p),
                       rsqrtf(p),
                       cbrtf(u),
                       hypotf(u, v),
                       powf(p, v),
                       erff(u),
                       erfcf(u),
                       lgammaf(p),
                       tgammaf(p),
                       normcdff(u),
                       floorf(u),
                       ceilf(u),
                       truncf(u),
                       rintf(u),
                       roundf(u),
                       fmodf(u, v),
                       remainderf(u, v),
                       fdimf(u, v),
                       fmaf(u, v, p),
                       copysignf(u, v),
                       ldexpf(u, 5),
                       frexpf(u, &e) * 8 + e,
                       modff(u, &part) + 2 * part,
                       u / v,
                       1 / v,
                       j0f(u),
                       sinpif(u)};
    const int rows = sizeof r / sizeof *r;
    for (int k = 0; k < rows; k++)
        out[k * n + i] = r[k];
}

extern "C" __global__ void maths_f64(const double *x, const double *y, double *out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    const double u = x[i], v = y[i], p = fabs(u) + 0.01;
    int e;
    double part;
    const double r[] = {sin(u),
                        cos(u),
                        tan(u),
                        asin(u / 8),
                        acos(u / 8),
                        atan(u),
                        atan2(u, v),
                        sinh(u),
                        cosh(u),
                        tanh(u),
                        asinh(u),
                        acosh(p + 1),
                        atanh(u / 8),
                        exp(u),
                        exp2(u),
                        expm1(u),
                        exp10(u),
                        log(p),
                        log2(p),
                        log10(p),
                        log1p(p),
                        sqrt(p),
                        rsqrt(p),
                        cbrt(u),
                        hypot(u, v),
                        pow(p, v),
                        erf(u),
                        erfc(u),
                        lgamma(p),
                        tgamma(p),
                        normcdf(u),
                        floor(u),
                        ceil(u),
                        trunc(u),
                        rint(u),
                        round(u),
                        fmod(u, v),
                        remainder(u, v),
                        fdim(u, v),
                        fma(u, v, p),
                        copysign(u, v),
                        ldexp(u, 5),
                        frexp(u, &e) * 8 + e,
                        modf(u, &part) + 2 * part,
                        u / v,
                        1 / v,
                        j0(u),
                        sinpi(u)};
    const int rows = sizeof r / sizeof *r;
    for (int k = 0; k < rows; k++)
        out[k * n + i] = r[k];
}
