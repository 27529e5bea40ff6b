#pragma once
// How the warps of a block make one state of theirs.

#include <fusegen/meet/lanes.cuh>
#include <fusegen/team.cuh>

namespace fusegen {

// Warps leave their totals in shared memory, and every warp folds them all: every thread has the block's.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ State warps_reduce(const State& of_warp, State* warp_states, Held... held)
{
    if (threadIdx.x % 32 == 0) warp_states[threadIdx.x / 32] = of_warp;
    __syncthreads();
    return states_reduce<Team::kMostWarps>(warp_states, Team::threads() / 32, held...);
}

// The block's total of what its threads have.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ State block_reduce(const State& mine, State* warp_states, Held... held)
{
    return warps_reduce<Team>(lanes_reduce<32>(mine, held...), warp_states, held...);
}

// Likewise, where another total was there that some may still read.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ State block_reduce_again(const State& mine, State* warp_states, Held... held)
{
    const State of_warp = lanes_reduce<32>(mine, held...);
    __syncthreads();
    return warps_reduce<Team>(of_warp, warp_states, held...);
}

}  // namespace fusegen
