#pragma once
// Sums over the index of long vectors of 16 bits.

#include <fusegen/tiles/fragment.cuh>

namespace fusegen {

// For four lanes of a row: each one's share of a sum of `term` over the numbers of kVectors vectors, which begin at
// multiples of 16 bytes.
template <int kLength, int kVectors, typename T, typename Read, typename Term>
__device__ __forceinline__ float sum_of_lanes(const T* const (&vectors)[kVectors], Read read, Term term)
{
    static_assert(sizeof(T) == 2 && kLength % 8 == 0, "16 bytes at a time");
    struct alignas(16) Eight {
        T numbers[8];
    };
    float sum = 0;
#pragma unroll 16
    for (int i = threadIdx.x % kRowLanes; i < kLength / 8; i += kRowLanes) {
        Eight some[kVectors];
#pragma unroll
        for (int v = 0; v < kVectors; ++v) some[v] = reinterpret_cast<const Eight*>(vectors[v])[i];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            float items[kVectors];
#pragma unroll
            for (int v = 0; v < kVectors; ++v) items[v] = read(some[v].numbers[j]);
            sum += term(items);
        }
    }
    return sum;
}

}  // namespace fusegen
