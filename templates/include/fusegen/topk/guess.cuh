#pragma once
// A threshold that a sample makes likely: should too few reach it, all is done again.

#include <fusegen/topk/raise.cuh>

namespace fusegen {

// Sets the threshold of a list that is empty, if the row is long enough; then true.
template <typename List, typename KeysOf>
__device__ __forceinline__ bool guess_threshold(
    List& list, typename List::Column begin, typename List::Column end, int rank, const KeysOf& keys_of)
{
    typedef typename List::Column Column;
    constexpr int kTeam = List::kTeam, kWidth = List::kWidth;
    constexpr int kSampled = 2 * kWidth;  // of a thread: 32 bytes or more
    const Column apart = (end - begin) / kTeam;
    const float expected = static_cast<float>(List::kK) * kSampled / kWidth / (apart + 1);
    const int wanted = static_cast<int>(expected + 4.5f * sqrtf(expected)) + 2;
    if (end - begin <= 2 * List::kVectors * kTeam || 2 * wanted > kSampled * kTeam) return false;
    for (int vector = 0; vector < 2; ++vector) {
        typename List::Key keys[kWidth];
        keys_of(keys, begin + rank * apart + vector);
#pragma unroll
        for (int item = 0; item < kWidth; ++item) list.slots[(vector * kWidth + item) * kTeam + rank] = keys[item];
    }
    raise(list, list.slots, kSampled * kTeam, wanted, end, rank);
    return true;
}

}  // namespace fusegen
