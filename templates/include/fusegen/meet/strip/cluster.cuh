#pragma once
// How the blocks of a cluster make one state of each row of a strip.

#include <fusegen/cluster.cuh>
#include <fusegen/meet/strip/block.cuh>

namespace fusegen {

// Every block leaves what it has of a row in every block of the cluster; there, all of them are merged.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void strip_reduce_cluster(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], State (&totals)[Team::kRows],
    State (&parts)[Team::kBlocks][Team::kRows], int slice, Held... held)
{
    leave_pieces<Team>(mine, pieces, held...);
    merge_pieces<Team>(pieces, [&](int row, const State& merged) {
        for (int to = threadIdx.x % Team::kMergers; to < Team::kBlocks; to += Team::kMergers)
            *in_block(&parts[slice][row], to) = merged;
    }, held...);
    meet_cluster();
    total_up<Team>(Team::kBlocks, totals, [&](int block, int row) { return parts[block][row]; }, held...);
}

}  // namespace fusegen
