#pragma once
// Two __half of a register.

#include <cuda_fp16.h>

namespace fusegen {

__device__ __forceinline__ __half2 pair_of(const __half&, unsigned word)
{
    __half2 pair;
    memcpy(&pair, &word, sizeof pair);
    return pair;
}
__device__ constexpr unsigned infinity_bits(const __half*) { return 0x7c00u; }
// Bits of the halves that are not less than `bar`, in all 16 bits of each.
__device__ __forceinline__ unsigned reaching_halves(const __half&, unsigned word, float bar)
{
    return __hgeu2_mask(pair_of(__half{}, word), __float2half2_rn(bar));
}

}  // namespace fusegen
