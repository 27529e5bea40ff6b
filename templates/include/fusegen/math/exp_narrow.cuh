#pragma once

namespace fusegen {

// e to the power a, with the digits that 16-bit results need, or terms of a sum whose greatest is 1:
// relative error about 1e-7 · |a|, and 0 where the result is below the normal numbers.
__device__ __forceinline__ float exp_narrow(float a)
{
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a * 1.4426950408889634f));
    return r;
}

}  // namespace fusegen
