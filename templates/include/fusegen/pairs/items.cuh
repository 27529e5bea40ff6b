#pragma once
// Items of 16 bits, two at a time. Some of pairs/half.cuh, pairs/bfloat16.cuh stands before it.

#include <fusegen/items.cuh>
#include <fusegen/math/greater_of.cuh>

namespace fusegen {

// The greatest of a chunk's items; NaN if there is one, -inf if there is none.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ float greatest_item(const Chunk<T, kCount, Layout>& items, int n_live)
{
    const float none = __int_as_float(0xff800000);
    if constexpr (kCount == 1) return n_live > 0 ? static_cast<float>(items[0]) : none;
    if (n_live <= 0) return none;
    auto greatest = pair_of(T{}, items.word[0]);
#pragma unroll
    for (int w = 1; w < (kCount + 1) / 2; ++w) {
        if (2 * w / Layout::kWidth >= n_live) break;
        greatest = __hmax2_nan(greatest, pair_of(T{}, items.word[w]));
    }
    return greater_of(__low2float(greatest), __high2float(greatest));
}

// Which items are not less than `bar`, which is of their type: a bit each, those of even numbers first.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ unsigned reaching_items(const Chunk<T, kCount, Layout>& items, float bar, int n_live)
{
    unsigned found = 0;
#pragma unroll
    for (int w = 0; w < kCount / 2; ++w) {
        if (2 * w / Layout::kWidth >= n_live) break;
        found |= reaching_halves(T{}, items.word[w], bar) & 0x10001u << w;
    }
    return found;
}
__device__ __forceinline__ int item_of_bit(int bit) { return bit % 16 * 2 + bit / 16; }
__device__ __forceinline__ int bit_of_item(int i) { return i / 2 + i % 2 * 16; }

}  // namespace fusegen
