#pragma once
// How the threads of a block make one state of each row of a strip.

#include <fusegen/meet/lanes.cuh>
#include <fusegen/strip/team.cuh>

namespace fusegen {

// Lanes that share rows merge their states; what they have of each row they leave for the block.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void leave_pieces(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], Held... held)
{
    constexpr int kAcross = Team::kAcross, kShare = Team::kPiece / kAcross;  // lanes that share rows
    const int across = threadIdx.x % kAcross;
#pragma unroll
    for (int r = 0; r < Team::kWidth; ++r) {
        const State total = lanes_reduce<kShare, kAcross>(mine[r], held...);
        if (threadIdx.x % Team::kPiece < kAcross)
            pieces[threadIdx.x / Team::kPiece][across * Team::kWidth + r] = total;
    }
    __syncthreads();
}

// For every row of the strip, neighbouring lanes merge its `count` states, always in the same order, and each hands
// the total on. kAhead of them are asked for at a time.
template <typename Team, typename State, int kAhead = 1, typename From, typename To, typename... Held>
__device__ __forceinline__ void merge_rows(int count, const From& from, const To& to, Held... held)
{
    constexpr int kMergers = Team::kMergers;
    for (int row = threadIdx.x / kMergers; row < Team::kRows; row += Team::kThreads / kMergers) {
        State total = State::identity();
        for (int piece = threadIdx.x % kMergers; piece < count; piece += kAhead * kMergers) {
            State some[kAhead];
#pragma unroll
            for (int i = 0; i < kAhead; ++i)
                some[i] = piece + i * kMergers < count ? from(piece + i * kMergers, row) : State::identity();
#pragma unroll
            for (int i = 0; i < kAhead; ++i)
                if (piece + i * kMergers < count) total = merge(total, some[i], held...);
        }
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
template <typename Team, int kAhead = 1, typename State, typename From, typename... Held>
__device__ __forceinline__ void total_up(int count, State (&totals)[Team::kRows], const From& from, Held... held)
{
    merge_rows<Team, State, kAhead>(count, from, [&](int row, const State& merged) {
        if (threadIdx.x % Team::kMergers == 0) totals[row] = merged;
    }, held...);
    __syncthreads();
}

// The totals of the strip's rows, which a block owns; a thread that owns rows alone has them.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ void strip_reduce(
    const State (&mine)[Team::kWidth], State (&pieces)[Team::kPieces][Team::kRows], State (&totals)[Team::kRows],
    Held... held)
{
    if constexpr (Team::kAlone) {
#pragma unroll
        for (int r = 0; r < Team::kWidth; ++r) totals[threadIdx.x * Team::kWidth + r] = mine[r];
    } else {
        leave_pieces<Team>(mine, pieces, held...);
        total_up<Team>(Team::kPieces, totals, [&](int piece, int row) { return pieces[piece][row]; }, held...);
    }
}

}  // namespace fusegen
