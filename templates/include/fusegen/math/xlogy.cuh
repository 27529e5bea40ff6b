#pragma once

namespace fusegen {

// a · log b, and 0 where a is 0 unless b is NaN.
__device__ __forceinline__ float xlogy(float a, float b) { return a == 0 && b == b ? 0 : a * log(b); }
__device__ __forceinline__ double xlogy(double a, double b) { return a == 0 && b == b ? 0 : a * log(b); }

}  // namespace fusegen
