#pragma once
// How a thread goes down the columns of rows that lie side by side, chunk by chunk. What is done with a chunk is told
// how many of its vectors there are: all of them as a constant, where it is whole.

#include <fusegen/strip/load.cuh>

namespace fusegen {

// A chunk of which `live` vectors there are.
template <int kVectors, typename Visit>
__device__ __forceinline__ void for_some(int live, const Visit& visit)
{
    if (live == kVectors)
        visit(kVectors);
    else if (live > 0)
        visit(live);
}

// Chunks of kVectors vectors from column `first` on; then what is left. One at a time: registers are for its loads.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_columns(Column first, Column end, const Visit& visit)
{
    const int apart = Team::threads();
    Column at = first;
#pragma unroll 1
    for (; at + (kVectors - 1) * apart < end; at += kVectors * apart) visit(at, kVectors);
    if (at < end) visit(at, live_vectors<Team, kVectors>(at, end));
}

}  // namespace fusegen
