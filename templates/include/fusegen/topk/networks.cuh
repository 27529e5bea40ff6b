#pragma once
// Keys in registers, sorted by networks.

namespace fusegen {

// Puts the better of two keys first.
template <typename Key>
__device__ __forceinline__ void exchange(Key& a, Key& b)
{
    const bool stays = a > b;
    const Key better = stays ? a : b, other = stays ? b : a;
    a = better, b = other;
}

// Every kStep-th of kCount keys, halves of which are in order, in order: Batcher's odd-even merge.
template <int kCount, int kStep, typename Key>
__device__ __forceinline__ void merge_halves(Key* keys)
{
    if constexpr (2 * kStep < kCount) {
        merge_halves<kCount, 2 * kStep>(keys);
        merge_halves<kCount, 2 * kStep>(keys + kStep);
#pragma unroll
        for (int i = kStep; i + kStep < kCount; i += 2 * kStep) exchange(keys[i], keys[i + kStep]);
    } else {
        exchange(keys[0], keys[kStep]);
    }
}

// Sorts a power of two of keys, the best first.
template <int kCount, typename Key>
__device__ __forceinline__ void sort(Key* keys)
{
    if constexpr (kCount > 1) {
        sort<kCount / 2>(keys);
        sort<kCount / 2>(keys + kCount / 2);
        merge_halves<kCount, 1>(keys);
    }
}

// Keys that rise and then fall, or the other way round, in order.
template <int kCount, typename Key>
__device__ __forceinline__ void straighten(Key* keys)
{
    if constexpr (kCount > 1) {
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) exchange(keys[i], keys[i + kCount / 2]);
        straighten<kCount / 2>(keys);
        straighten<kCount / 2>(keys + kCount / 2);
    }
}

}  // namespace fusegen
