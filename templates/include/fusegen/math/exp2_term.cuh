#pragma once

namespace fusegen {

// 2 to the power a, of terms of a sum whose greatest is 1, and of weights: relative error about 2e-7, and 0 where the
// result is below the normal numbers.
__device__ __forceinline__ float exp2_term(float a)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

}  // namespace fusegen
