#pragma once
// How a thread goes over its vectors of a row, chunk by chunk. What is done with a chunk is told how many of its
// vectors there are: kVectors as a constant, where it is whole.

#include <fusegen/load.cuh>

namespace fusegen {

// Chunks of kVectors vectors among `begin` … `end`, the first of them from number begin + rank on; then what is left,
// which is no whole one: compilers that are told make less of it.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_chunks(Column begin, Column end, int rank, const Visit& visit)
{
    const int apart = Team::threads();
    Column at = begin + rank;
    for (; at + (kVectors - 1) * apart < end; at += kVectors * apart) visit(at, kVectors);
    if constexpr (kVectors > 1) {
        if (at < end) visit(at, live_vectors<Team, kVectors - 1>(at, end));
    }
}

// One chunk that a thread holds. `whole`: it is, in every lane of the warp.
template <int kVectors, typename Visit>
__device__ __forceinline__ void for_held(bool whole, int live, const Visit& visit)
{
    if (whole)
        visit(kVectors);
    else
        visit(live);
}

// A thread's chunk of a tile, the chunks of a whole team. Warps do not part: a lane's chunk counts as whole if the
// last lane's is.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_tile(Column tile, Column end, int rank, int live, const Visit& visit)
{
    const int last = Team::kThreads % 32 == 0 ? rank | 31 : rank;
    if (tile + last + (kVectors - 1) * Team::threads() < end)
        visit(kVectors);
    else if (live > 0)
        visit(live);
}

}  // namespace fusegen
