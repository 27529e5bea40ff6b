#pragma once
// A thread's vectors of rows that lie side by side, held in registers.

#include <fusegen/strip/load.cuh>

namespace fusegen {

// Some of them, from number `slot` on, whether or not they are `live`.
template <typename T, int kCount, int kHeld, typename Layout>
__device__ __forceinline__ void read_held(
    Chunk<T, kCount, Layout>& items, const Chunk<T, kHeld, Layout>& held, int slot, int live)
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) items.set(i, held[slot * Layout::kWidth + i]);
}

// Vectors `slot` …, kVectors at most, of the next strip, as far as they lie before `end`; the others stay.
template <int kVectors, typename T, int kHeld, typename Layout, typename Column>
__device__ __forceinline__ void refill(
    Chunk<T, kHeld, Layout>& held, int slot, const T* __restrict__ from, long long stride, Column at, Column end)
{
    const int apart = Layout::Team::threads();
    from += at * stride;
#pragma unroll
    for (int v = 0; v < kVectors; ++v, from += apart * stride)
        if (at + v * apart < end) load_vector(held, slot + v, from);
}

}  // namespace fusegen
