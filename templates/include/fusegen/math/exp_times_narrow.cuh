#pragma once

#include <fusegen/math/exp_narrow.cuh>

namespace fusegen {

// a · e^a, and 0 where a is -inf: the least number stands for it.
__device__ __forceinline__ float exp_times_narrow(float a) { return exp_narrow(a) * fmaxf(a, -3.402823466e38f); }

}  // namespace fusegen
