#pragma once
// Candidates of a row's slices on their way through device memory.

#include <fusegen/topk/list.cuh>

namespace fusegen {

// Leaves a slice's candidates in device memory, with zeros behind them.
template <typename List>
__device__ __forceinline__ void publish(typename List::Key* to, List& list, int rank)
{
    List::Team::sync();
    if (list.count > List::kKept) cut(list, rank);
    for (int j = rank; j < List::kKept; j += List::kTeam)
        to[j] = j < list.count ? list.slots[j] : typename List::Key{};
}

// Fills an empty list with what slices have left, or with the best of it.
template <typename List>
__device__ __forceinline__ void gather(List& list, const typename List::Key* from, int count, int rank)
{
    typedef typename List::Key Key;
    Key threshold{1};
    if (count > List::kSlots) threshold = select(from, count, List::kK, List::kKept, list.tally, rank);
#pragma unroll 4
    for (int j = rank; j < count; j += List::kTeam) {
        const Key key = from[j];
        if (!(key < threshold)) list.slots[atomicAdd(&list.count, 1)] = key;
    }
    List::Team::sync();
}

}  // namespace fusegen
