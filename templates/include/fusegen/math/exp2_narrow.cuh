#pragma once

#include <fusegen/math/exp2_term.cuh>

namespace fusegen {

// 2 to the power a: relative error about 4e-7, down to the least number, as the square of its root, which is a normal
// number.
__device__ __forceinline__ float exp2_narrow(float a)
{
    const float root = exp2_term(0.5f * a);
    return root * root;
}

}  // namespace fusegen
