#pragma once

#include <fusegen/math/exp2_term.cuh>

namespace fusegen {

// The hyperbolic tangent, with the digits that 16-bit results need: absolute error about 2e-7, and relative error
// below 2^-12, since a is its own tangent where it is small.
__device__ __forceinline__ float tanh_narrow(float a)
{
    const float far = 1.0f - __fdividef(2.0f, 1.0f + exp2_term(a * 2.8853900817779268f));
    return fabsf(a) < 0x1p-10f ? a : far;
}

}  // namespace fusegen
