#pragma once
// Two __nv_bfloat16 of a register.

#include <cuda_bf16.h>

namespace fusegen {

__device__ __forceinline__ __nv_bfloat162 pair_of(const __nv_bfloat16&, unsigned word)
{
    __nv_bfloat162 pair;
    memcpy(&pair, &word, sizeof pair);
    return pair;
}
__device__ constexpr unsigned infinity_bits(const __nv_bfloat16*) { return 0x7f80u; }
// Bits of the halves that are not less than `bar`, in all 16 bits of each.
__device__ __forceinline__ unsigned reaching_halves(const __nv_bfloat16&, unsigned word, float bar)
{
    return __hgeu2_mask(pair_of(__nv_bfloat16{}, word), __float2bfloat162_rn(bar));
}

}  // namespace fusegen
