#pragma once
// Items of 16 bits, two at a time. Some of pairs/half.cuh, pairs/bfloat16.cuh stands before it.

#include <fusegen/items.cuh>
#include <fusegen/math/greater_of.cuh>

namespace fusegen {

// Two items of which the second is not there: the first twice.
__device__ __forceinline__ unsigned first_alone(unsigned pair) { return __byte_perm(pair, pair, 0x1010); }

// The greatest of a chunk's items; NaN if there is one, -inf if there is none.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ float greatest_item(const Chunk<T, kCount, Layout>& items, int n_live)
{
    const float none = __int_as_float(0xff800000);
    if constexpr (kCount == 1) return n_live > 0 ? static_cast<float>(items[0]) : none;
    if (n_live <= 0) return none;
    auto greatest = pair_of(T{}, Layout::kWidth > 1 || n_live > 1 ? items.word[0] : first_alone(items.word[0]));
#pragma unroll
    for (int w = 1; w < (kCount + 1) / 2; ++w) {
        if (2 * w / Layout::kWidth >= n_live) break;
        const bool both = Layout::kWidth > 1 || 2 * w + 1 < n_live;
        greatest = __hmax2_nan(greatest, pair_of(T{}, both ? items.word[w] : first_alone(items.word[w])));
    }
    return greater_of(__low2float(greatest), __high2float(greatest));
}

// Which of 32 items, from word number `begin` on, are not less than `bar`, which is of their type: a bit each, those of
// even numbers first.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ unsigned reaching_items(
    const Chunk<T, kCount, Layout>& items, float bar, int n_live, int begin = 0)
{
    unsigned found = 0;
#pragma unroll
    for (int w = 0; w < 16 && begin + w < (kCount + 1) / 2; ++w) {
        const int item = 2 * (begin + w);
        if (item / Layout::kWidth >= n_live) break;
        unsigned mask = reaching_halves(T{}, items.word[begin + w], bar) & 0x10001u << w;
        if (Layout::kWidth == 1 && item + 1 >= n_live) mask &= 0xffffu;
        found |= mask;
    }
    return found;
}
__device__ __forceinline__ int item_of_bit(int bit) { return bit % 16 * 2 + bit / 16; }
__device__ __forceinline__ int bit_of_item(int i) { return i / 2 + i % 2 * 16; }

// The lowest number of a chunk's items that have the value `best`, which none exceeds, NaN that of NaN; -1: none of the
// first `n_live` vectors' has it.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ int first_greatest(const Chunk<T, kCount, Layout>& items, float best, int n_live)
{
    int first = -1;
    if (kCount == 1 || best != best) {
#pragma unroll
        for (int i = kCount - 1; i >= 0; --i) {
            const float item = static_cast<float>(items[i]);
            if (i / Layout::kWidth < n_live && (item == best || (item != item && best != best))) first = i;
        }
        return first;
    }
    constexpr int kWords = (kCount + 1) / 2;
#pragma unroll
    for (int begin = (kWords - 1) / 16 * 16; begin >= 0; begin -= 16) {
        const unsigned found = reaching_items(items, best, n_live, begin);
        if (!found) continue;
        const int word = __ffs((found | found >> 16) & 0xffffu) - 1;
        first = 2 * (begin + word) + (found >> word & 1 ? 0 : 1);
    }
    return first;
}

}  // namespace fusegen
