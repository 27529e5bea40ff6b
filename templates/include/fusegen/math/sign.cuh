#pragma once

namespace fusegen {

// -1, 0 or 1; NaN of NaN.
template <typename T>
__device__ __forceinline__ T sign(T a)
{
    return a != a ? a : T((a > 0) - (a < 0));
}

}  // namespace fusegen
