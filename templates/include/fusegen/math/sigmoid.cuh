#pragma once

namespace fusegen {

// 1 / (1 + e^-a), of an exponential that is not above 1. The divisor lies between 1 and 2: no scale is needed for a
// product with its inverse, corrected once (Markstein 1990), to be the quotient; of all floats one is off, by a digit.
__device__ __forceinline__ float sigmoid(float a)
{
    const float t = exp(-fabsf(a)), dividend = a < 0 ? t : 1, divisor = 1 + t;
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(divisor));
    inverse = fmaf(fmaf(-divisor, inverse, 1.0f), inverse, inverse);
    const float quotient = dividend * inverse;
    return fmaf(fmaf(-quotient, divisor, dividend), inverse, quotient);
}
__device__ __forceinline__ double sigmoid(double a)
{
    const double t = exp(-fabs(a));
    return (a < 0 ? t : 1) / (1 + t);
}

}  // namespace fusegen
