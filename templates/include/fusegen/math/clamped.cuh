#pragma once

namespace fusegen {

// `a` as a T, or the nearest of its values.
template <typename T>
__device__ __forceinline__ T clamped(long long a, long long least, long long most)
{
    return static_cast<T>(a < least ? least : a > most ? most : a);
}

}  // namespace fusegen
