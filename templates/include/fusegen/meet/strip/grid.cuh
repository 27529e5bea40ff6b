#pragma once
// How blocks all over the device make one state of each row of a strip, through device memory.

#include <fusegen/meet/strip/block.cuh>
#include <fusegen/tickets.cuh>

namespace fusegen {

// Every block leaves what it has of the strip's rows where all of them are `left`.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void leave_strip(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], State* left, int slice,
    Held... held)
{
    leave_pieces<Team>(mine, pieces, held...);
    merge_pieces<Team>(pieces, [&](int row, const State& merged) {
        if (threadIdx.x % Team::kMergers == 0) left[slice * Team::kRows + row] = merged;
    }, held...);
}

// States of a row that a lane asks device memory for at a time, as each takes longer to come than to merge.
constexpr int kLeftAhead = 4;

// The blocks of a strip wait for one another and merge what they all left.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void strip_reduce_grid(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], State (&totals)[Team::kRows],
    State* left, unsigned long long* here, int slice, Held... held)
{
    leave_strip<Team>(mine, pieces, left, slice, held...);
    await_blocks<Team::kBlocks>(here, slice);
    total_up<Team, kLeftAhead>(
        Team::kBlocks, totals, [&](int block, int row) { return left[block * Team::kRows + row]; }, held...);
}

// The last block of a strip to come here merges what they all left; false in the others.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ bool strip_reduce_last(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], State (&totals)[Team::kRows],
    State* left, unsigned long long* ticket, int slice, Held... held)
{
    leave_strip<Team>(mine, pieces, left, slice, held...);
    if (!last_of_row(ticket, Team::kBlocks)) return false;
    total_up<Team, kLeftAhead>(
        Team::kBlocks, totals, [&](int block, int row) { return left[block * Team::kRows + row]; }, held...);
    return true;
}

}  // namespace fusegen
