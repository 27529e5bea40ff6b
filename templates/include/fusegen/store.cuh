#pragma once
// A thread's chunk of a row: from items to memory.

#include <fusegen/items.cuh>
#include <fusegen/team.cuh>

namespace fusegen {

// The `live` vectors of a chunk, the first of which is number `at`.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void store_items(
    T* __restrict__ to, const Chunk<T, kCount, Layout>& items, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kWords = kWidth * sizeof(T) / 4;
    const int apart = Layout::Team::threads();
    T* first = to + at * kWidth;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        if (v >= live) continue;
        T* there = first + v * apart * kWidth;
        const unsigned* word = items.word + v * kWords;
        if constexpr (kWidth == 1) {
            *there = items[v];
        } else if constexpr (kWords % 4 == 0 && kWords > 0) {
#pragma unroll
            for (int w = 0; w < kWords; w += 4)
                __stwb(reinterpret_cast<uint4*>(there) + w / 4,
                       make_uint4(word[w], word[w + 1], word[w + 2], word[w + 3]));
        } else if constexpr (kWords == 2) {
            __stwb(reinterpret_cast<uint2*>(there), make_uint2(word[0], word[1]));
        } else if constexpr (kWords == 1) {
            *reinterpret_cast<unsigned*>(there) = word[0];
        } else {
#pragma unroll
            for (int e = 0; e < kWidth; ++e) there[e] = items[v * kWidth + e];
        }
    }
}

}  // namespace fusegen
