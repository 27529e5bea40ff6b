#pragma once
// A threshold from a sample of what is left of a row.

#include <fusegen/topk/raise.cuh>

namespace fusegen {

// Raises the threshold by a sample of what is left of a row: vectors in some places, 64 bytes of each, as memory
// brings them. The best items of k vectors reach what k items do; so do all items of fewer places, which is
// more where the row is in order.
template <typename List, typename KeysOf>
__device__ __noinline__ void look_ahead(
    List& list, typename List::Column first, typename List::Column end, int rank, const KeysOf& keys_of)
{
    typedef typename List::Key Key;
    typedef typename List::Column Column;
    constexpr int kTeam = List::kTeam, kWidth = List::kWidth;
    constexpr int kSamples = List::kSamples, kEach = 4, kPlaces = kSamples / kEach;
    static_assert(List::kCutAt + kSamples + kPlaces <= List::kSlots, "no room behind the candidates");
    if (end - first < kSamples) return;
    const float apart = static_cast<float>(end - first) / kPlaces;
    Key *best = list.slots + list.count, *least = best + kSamples;
#pragma unroll 1
    for (int place = rank; place < kPlaces; place += kTeam) {
        Key worst = ~Key{};
#pragma unroll
        for (int v = 0; v < kEach; ++v) {
            Key keys[kWidth], greatest{};
            keys_of(keys, first + static_cast<Column>(place * apart) + v);
#pragma unroll
            for (int e = 0; e < kWidth; ++e) {
                if (greatest < keys[e]) greatest = keys[e];
                if (keys[e] < worst) worst = keys[e];
            }
            best[place * kEach + v] = greatest;
        }
        least[place] = worst;
    }
    raise(list, best, kSamples, List::kK, end, rank);
    raise(list, least, kPlaces, share_of(List::kK, kEach * kWidth), end, rank);
}

}  // namespace fusegen
