#pragma once

#include <fusegen/math/exp2_term.cuh>

namespace fusegen {

// e to the power a, with the digits that 16-bit results need: relative error about 2e-7 · |a|, down to the least
// number, as the square of its root, which is a normal number.
__device__ __forceinline__ float exp_narrow(float a)
{
    const float root = exp2_term(a * 0.72134752044448170f);
    return root * root;
}

}  // namespace fusegen
