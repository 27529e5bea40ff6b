#pragma once
// How the threads of a block make one state of each row of a strip.

#include <fusegen/meet/lanes.cuh>
#include <fusegen/strip/team.cuh>

namespace fusegen {

// Lanes that share rows merge their states; what a warp has of each row it leaves for the block.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void leave_pieces(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], Held... held)
{
    constexpr int kAcross = Team::kAcross, kShare = 32 / kAcross;  // lanes that share rows
    const int across = threadIdx.x % kAcross;
#pragma unroll
    for (int r = 0; r < Team::kWidth; ++r) {
        const State total = lanes_reduce<kShare, kAcross>(mine[r], held...);
        if (threadIdx.x % 32 < kAcross) pieces[threadIdx.x / 32][across * Team::kWidth + r] = total;
    }
    __syncthreads();
}

// For every row of the strip, neighbouring lanes merge its `count` states, always in the same order, and each hands
// the total on.
template <typename Team, typename State, typename From, typename To, typename... Held>
__device__ __forceinline__ void merge_rows(int count, const From& from, const To& to, Held... held)
{
    constexpr int kMergers = Team::kMergers;
    for (int row = threadIdx.x / kMergers; row < Team::kRows; row += Team::kThreads / kMergers) {
        State total = State::identity();
        for (int piece = threadIdx.x % kMergers; piece < count; piece += kMergers)
            total = merge(total, from(piece, row), held...);
        to(row, lanes_reduce<kMergers>(total, held...));
    }
}

// What a block has of every row: merged, and handed on by its lanes.
template <typename Team, typename State, typename To, typename... Held>
__device__ __forceinline__ void merge_pieces(
    const State (&pieces)[Team::kPieces][Team::kRows], const To& to, Held... held)
{
    merge_rows<Team, State>(Team::kPieces, [&](int piece, int row) { return pieces[piece][row]; }, to, held...);
}

// The states of `count` parts of every row, merged: to be read once the block has met.
template <typename Team, typename State, typename From, typename... Held>
__device__ __forceinline__ void total_up(int count, State (&totals)[Team::kRows], const From& from, Held... held)
{
    merge_rows<Team, State>(count, from, [&](int row, const State& merged) {
        if (threadIdx.x % Team::kMergers == 0) totals[row] = merged;
    }, held...);
    __syncthreads();
}

// The totals of the strip's rows, which a block owns.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void strip_reduce(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], State (&totals)[Team::kRows],
    Held... held)
{
    leave_pieces<Team>(mine, pieces, held...);
    total_up<Team>(Team::kPieces, totals, [&](int piece, int row) { return pieces[piece][row]; }, held...);
}

}  // namespace fusegen
