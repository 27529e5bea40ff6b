#pragma once
// A threshold that a sample makes likely: should too few reach it, all is done again.

#include <fusegen/topk/raise.cuh>

namespace fusegen {

template <typename List>
constexpr int kSampled = 2 * List::kWidth;  // items of a thread: 32 bytes or more

// How many of the sample must reach a threshold, so that the k best of so many vectors likely do.
template <typename List>
__device__ __forceinline__ int wanted_of_sample(typename List::Column vectors)
{
    const float expected =
        static_cast<float>(List::kK) * kSampled<List> / List::kWidth / (vectors / List::kTeam + 1);
    return static_cast<int>(expected + 4.5f * sqrtf(expected)) + 2;
}

// Is a row of so many vectors long enough for a guess?
template <typename List>
__device__ __forceinline__ bool may_guess(typename List::Column vectors, int wanted)
{
    return vectors > 2 * List::kVectors * List::kTeam && 2 * wanted <= kSampled<List> * List::kTeam;
}

// Sets the threshold of a list that is empty.
template <typename List, typename KeysOf>
__device__ __forceinline__ void guess_threshold(
    List& list, int wanted, typename List::Column begin, typename List::Column end, int rank, const KeysOf& keys_of)
{
    constexpr int kTeam = List::kTeam, kWidth = List::kWidth;
    const typename List::Column apart = (end - begin) / kTeam;
    for (int vector = 0; vector < 2; ++vector) {
        typename List::Key keys[kWidth];
        keys_of(keys, begin + rank * apart + vector);
#pragma unroll
        for (int item = 0; item < kWidth; ++item) list.slots[(vector * kWidth + item) * kTeam + rank] = keys[item];
    }
    raise(list, list.slots, kSampled<List> * kTeam, wanted, end, rank);
}

}  // namespace fusegen
