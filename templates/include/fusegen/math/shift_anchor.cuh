#pragma once

namespace fusegen {

// The pivot, or 0 where it is no finite number.
__device__ __forceinline__ float shift_anchor(float pivot) { return isfinite(pivot) ? pivot : 0; }
__device__ __forceinline__ double shift_anchor(double pivot) { return isfinite(pivot) ? pivot : 0; }

}  // namespace fusegen
