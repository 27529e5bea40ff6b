#pragma once
// Blocks of a cluster.

namespace fusegen {

// Where another block of the cluster has what this block has at `mine`.
template <typename T>
__device__ __forceinline__ T* in_block(T* mine, int block)
{
    return static_cast<T*>(__cluster_map_shared_rank(mine, block));
}

// Waits for all blocks of the cluster; what they wrote before is then there to be read.
__device__ __forceinline__ void meet_cluster()
{
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
}

}  // namespace fusegen
