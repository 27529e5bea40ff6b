#pragma once

namespace fusegen {

// A real number as a T of up to 32 bits: toward zero, or the nearest of its values; NaN becomes 0. The greatest of 32
// bits is no float: the next one is, and beyond.
template <typename T, typename Real>
__device__ __forceinline__ T clamped_real(Real a, long long least, long long most)
{
    if (!(a < static_cast<Real>(most))) return a == a ? static_cast<T>(most) : 0;
    return a > static_cast<Real>(least) ? static_cast<T>(a) : static_cast<T>(least);
}

}  // namespace fusegen
