#pragma once

namespace fusegen {

// a / n, off by a rounding or two, where n is how many there are of something: nothing, or a normal number whose
// inverse is one, so that no scale has to keep it from overflow.
__device__ __forceinline__ float over_count(float a, float n)
{
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(n));
    return a * inverse;
}

}  // namespace fusegen
