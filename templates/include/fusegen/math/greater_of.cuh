#pragma once

namespace fusegen {

// The greater value; NaN if either is NaN.
template <typename T>
__device__ __forceinline__ T greater_of(T a, T b)
{
    return a > b || a != a ? a : b;
}
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float greater_of(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}
#endif

}  // namespace fusegen
