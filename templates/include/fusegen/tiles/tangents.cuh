#pragma once
// Hyperbolic tangents of scores, with the digits that 16-bit results need.

#include <fusegen/tiles/instructions.cuh>

namespace fusegen {

// Of four numbers, as 1 - 2 / (1 + e^2a): they share one reciprocal, since a GPU makes few of them at a time. Beyond
// 10 it is 1 in any case, which keeps the product of all four in range. Absolute error about 3e-7, and relative error
// below 2^-12, since a small number is its own tangent; NaN is the result of NaN alone.
__device__ __forceinline__ void tangents_of(float (&numbers)[4])
{
    float below[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        below[i] = 1.0f + exp2_approximate(fminf(numbers[i] * 2.8853900817779268f, 30.0f));
    const float first = below[0] * below[1], second = below[2] * below[3];
    const float inverse = __fdividef(1.0f, first * second);
    const float of_first = inverse * second, of_second = inverse * first;
    const float inverses[4] = {of_first * below[1], of_first * below[0], of_second * below[3], of_second * below[2]};
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (fabsf(numbers[i]) >= 0x1p-9f) numbers[i] = fmaf(-2.0f, inverses[i], 1.0f);
}

}  // namespace fusegen
