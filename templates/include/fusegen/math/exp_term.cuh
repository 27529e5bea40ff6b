#pragma once

#include <fusegen/math/exp2_term.cuh>

namespace fusegen {

// e to the power a, of terms of a sum whose greatest is 1: relative error about 1e-7 · |a|, and 0 where the result is
// below the normal numbers.
__device__ __forceinline__ float exp_term(float a) { return exp2_term(a * 1.4426950408889634f); }

}  // namespace fusegen
