#pragma once
// A row's list in order.

#include <fusegen/topk/bins.cuh>
#include <fusegen/topk/list.cuh>

namespace fusegen {

// Sorts a few keys: each finds its place by counting those that are greater. The first `wanted` matter.
template <typename Team, typename Key>
__device__ __forceinline__ const Key* sort_by_counting(const Key* keys, Key* to, int count, int wanted, int rank)
{
    for (int j = rank; j < count; j += Team::kThreads) {
        const Key mine = keys[j];
        int place = 0;
#pragma unroll 8
        for (int other = 0; other < count; ++other) place += keys[other] > mine;
        if (place < wanted) to[place] = mine;
    }
    Team::sync();
    return to;
}

// The list's K best, in order; of a row that may be shorter, those that there are. Every thread of the team
// takes part, after a barrier.
template <typename List>
__device__ __noinline__ const typename List::Key* finish(List& list, int rank)
{
    constexpr bool kMany = List::kCutAt > List::kCountable;
    static_assert(kMany || List::kKept <= List::kCountable, "no room to count");
    if (list.count > (kMany ? List::kBeside : List::kCountable)) cut(list, rank);
    int count = list.count;
    typename List::Key* beside = list.slots + List::kBeside;
    if constexpr (kMany) {
        if (count > List::kCountable) {
            constexpr int kRoom = List::kSlots - List::kBeside, kFullBin = List::kFullBin;
            if (!sort_by_bins<kRoom, kFullBin>(list.slots, beside, count, List::kK, list.tally, rank)) {
                cut(list, rank);
                sort_by_bins<kRoom, kFullBin>(list.slots, beside, list.count, List::kK, list.tally, rank);
            }
            return list.slots;
        }
    }
    return sort_by_counting<typename List::Team>(list.slots, beside, count, List::kK, rank);
}

}  // namespace fusegen
