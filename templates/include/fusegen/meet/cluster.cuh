#pragma once
// How the blocks of a cluster make one state of theirs.

#include <fusegen/cluster.cuh>
#include <fusegen/meet/lanes.cuh>

namespace fusegen {

// Every warp leaves its total in every block of the cluster; there, every warp folds them all.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ State cluster_reduce(State mine, State* warp_states, Held... held)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = Team::threads() / 32;
    const int blocks = __clusterSizeInBlocks();
    mine = lanes_reduce<32>(mine, held...);
    if (lane < blocks) in_block(warp_states, lane)[__clusterRelativeBlockRank() * warps + warp] = mine;
    meet_cluster();
    mine = State::identity();
    for (int other = lane; other < blocks * warps; other += 32) mine = merge(mine, warp_states[other], held...);
    return lanes_reduce<32>(mine, held...);
}

// Warps meet in their block; the totals of the kBlocks blocks meet in every block of the cluster.
template <typename Team, int kBlocks, typename State, typename... Held>
__device__ __forceinline__ State cluster_reduce(State mine, State* warp_states, Held... held)
{
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    State* warps = warp_states + kBlocks;
    mine = lanes_reduce<32>(mine, held...);
    if (lane == 0) warps[warp] = mine;
    __syncthreads();
    if (warp == 0) {
        mine = states_reduce<Team::kMostWarps>(warps, Team::threads() / 32, held...);
        if (lane < kBlocks) in_block(warp_states, lane)[__clusterRelativeBlockRank()] = mine;
    }
    meet_cluster();
    return states_reduce<kBlocks>(warp_states, kBlocks, held...);
}

}  // namespace fusegen
