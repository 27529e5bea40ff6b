#pragma once
// What all rows share, loaded a chunk early: the first while states meet, each of the others while the one before it
// is worked on.

#include <fusegen/load.cuh>

namespace fusegen {

template <typename T, int kVectors, typename Layout>
struct Early {
    typedef Chunk<T, kVectors * Layout::kWidth, Layout> Items;

    Items next;  // of a whole chunk

    // Starts with the chunk whose first vector is number `at`.
    template <typename Column>
    __device__ __forceinline__ void begin(const T* __restrict__ from, Column at, Column end)
    {
        if (at + (kVectors - 1) * Layout::Team::threads() < end) load_items(next, from, at, kVectors);
    }
    // The chunk whose first vector is number `at`; a whole one is there, and the one after it is asked for.
    template <typename Column>
    __device__ __forceinline__ Items chunk(const T* __restrict__ from, Column at, Column end, int live, bool whole)
    {
        const int apart = Layout::Team::threads();
        Items items;
        if (!whole) {
            load_items(items, from, at, live);
            return items;
        }
        items = next;
        if (at + (2 * kVectors - 1) * apart < end) load_items(next, from, at + kVectors * apart, kVectors);
        return items;
    }
};

// As for_chunks of <fusegen/walk.cuh>; what is done with a chunk is told whether it is whole.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_chunks_early(Column begin, Column end, int rank, const Visit& visit)
{
    const int apart = Team::threads();
    Column at = begin + rank;
    for (; at + (kVectors - 1) * apart < end; at += kVectors * apart) visit(at, kVectors, true);
    if constexpr (kVectors > 1) {
        if (at < end) visit(at, live_vectors<Team, kVectors - 1>(at, end), false);
    }
}

}  // namespace fusegen
