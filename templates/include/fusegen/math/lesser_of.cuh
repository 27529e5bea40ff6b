#pragma once

namespace fusegen {

// The lesser value; NaN if either is NaN.
template <typename T>
__device__ __forceinline__ T lesser_of(T a, T b)
{
    return a < b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float lesser_of(float a, float b)
{
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#endif

}  // namespace fusegen
