#pragma once

namespace fusegen {

// A real number as a T of 8 or 16 bits: toward zero, or the nearest of its values; NaN becomes 0.
template <typename T>
__device__ __forceinline__ T clamped_real(float a, int least, int most)
{
    const float inside = fminf(fmaxf(a, least), most);
    return static_cast<T>(a == a ? static_cast<int>(inside) : 0);
}
template <typename T>
__device__ __forceinline__ T clamped_real(double a, int least, int most)
{
    const double inside = fmin(fmax(a, least), most);
    return static_cast<T>(a == a ? static_cast<int>(inside) : 0);
}

}  // namespace fusegen
