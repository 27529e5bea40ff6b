#pragma once

namespace fusegen {

// a · e^a, and 0 where a is -inf: the least number stands for it.
__device__ __forceinline__ float exp_times(float a) { return expf(a) * fmaxf(a, -3.402823466e38f); }
__device__ __forceinline__ double exp_times(double a) { return exp(a) * fmax(a, -1.7976931348623157e308); }

}  // namespace fusegen
