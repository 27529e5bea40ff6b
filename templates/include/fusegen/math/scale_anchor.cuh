#pragma once

namespace fusegen {

// The pivot, or 1 where it cannot divide.
__device__ __forceinline__ float scale_anchor(float pivot) { return isfinite(pivot) && pivot != 0 ? pivot : 1; }
__device__ __forceinline__ double scale_anchor(double pivot) { return isfinite(pivot) && pivot != 0 ? pivot : 1; }

}  // namespace fusegen
