#pragma once

namespace fusegen {

template <typename T>
__device__ __forceinline__ T square(T a)
{
    return a * a;
}

}  // namespace fusegen
