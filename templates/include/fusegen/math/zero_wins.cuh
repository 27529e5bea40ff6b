#pragma once

namespace fusegen {

// a · b, but 0 wherever a is 0: a sum that is 0 stays 0 however its pivot moves.
__device__ __forceinline__ float zero_wins(float a, float b) { return a == 0 ? 0 : a * b; }
__device__ __forceinline__ double zero_wins(double a, double b) { return a == 0 ? 0 : a * b; }

}  // namespace fusegen
