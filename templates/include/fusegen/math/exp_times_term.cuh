#pragma once

#include <fusegen/math/exp_term.cuh>

namespace fusegen {

// a · e^a of such terms, and 0 where a is -inf: the least number stands for it.
__device__ __forceinline__ float exp_times_term(float a) { return exp_term(a) * fmaxf(a, -3.402823466e38f); }

}  // namespace fusegen
