#pragma once

namespace fusegen {

// a · b, but 0 wherever either is 0: a sum that is 0 stays 0 however its pivot moves, and a factor of 0 leaves nothing
// of one that has left the range. A NaN in a stays.
__device__ __forceinline__ float zeros_win(float a, float b) { return a == 0 || (b == 0 && a == a) ? 0 : a * b; }
__device__ __forceinline__ double zeros_win(double a, double b) { return a == 0 || (b == 0 && a == a) ? 0 : a * b; }

}  // namespace fusegen
