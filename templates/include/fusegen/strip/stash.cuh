#pragma once
// A thread's vectors of rows that lie side by side, in shared memory: a block's threads apart.

#include <fusegen/copy.cuh>
#include <fusegen/strip/load.cuh>

namespace fusegen {

// Starts the copies of a group of kVectors vectors; `at` is the column of the first vector there.
template <typename Layout, int kVectors, typename T, typename Column>
__device__ __forceinline__ void fetch_group(
    T* stash, const T* __restrict__ from, long long stride, Column at, Column end, int group)
{
    constexpr int kBytes = Layout::kWidth * sizeof(T), kApart = Layout::Team::kThreads * kBytes;
    const int apart = Layout::Team::threads();
    Column column = at + group * kVectors * apart;
    const Column after = column + kVectors * apart;
    if (after < end) end = after;
    unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(stash)) + group * kVectors * kApart;
    const T* source = from + column * stride;
#pragma unroll 1
    for (; column < end; column += apart, slot += kApart, source += apart * stride)
        copy_vector<kBytes>(slot, reinterpret_cast<const char*>(source));
}

// A chunk from there, `slot` vectors after the first one.
template <typename T, int kCount, typename Layout>
__device__ __forceinline__ void read_stash(Chunk<T, kCount, Layout>& items, const T* stash, int slot, int live)
{
    constexpr int kWidth = Layout::kWidth;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v)
        if (v < live) load_vector(items, v, stash + (slot + v) * (Layout::Team::kThreads * kWidth));
}

}  // namespace fusegen
