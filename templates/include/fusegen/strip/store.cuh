#pragma once
// A thread's chunk of rows that lie side by side: from items to memory.

#include <fusegen/items.cuh>
#include <fusegen/strip/team.cuh>

namespace fusegen {

// Vector v of a chunk, in accesses of up to 16 bytes.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ void store_vector(T* __restrict__ to, const Chunk<T, kCount, Layout>& items, int v)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    const unsigned* word = items.word + v * kBytes / 4;
    if constexpr (kBytes % 16 == 0) {
#pragma unroll
        for (int w = 0; w < kBytes / 4; w += 4)
            reinterpret_cast<uint4*>(to)[w / 4] = make_uint4(word[w], word[w + 1], word[w + 2], word[w + 3]);
    } else if constexpr (kBytes == 8) {
        *reinterpret_cast<unsigned long long*>(to) = word[0] | static_cast<unsigned long long>(word[1]) << 32;
    } else if constexpr (kBytes == 4) {
        *reinterpret_cast<unsigned*>(to) = word[0];
    } else {
#pragma unroll
        for (int r = 0; r < kWidth; ++r) to[r] = items[v * kWidth + r];
    }
}

// The `live` vectors of a chunk, the first of which is at column `at`.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void store_items(
    T* __restrict__ to, long long stride, const Chunk<T, kCount, Layout>& items, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth;
    to += at * stride;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v, to += Layout::Team::threads() * stride)
        if (v < live) store_vector(to, items, v);
}

}  // namespace fusegen
