// The built-in functions of thread block clusters, which cooperative groups are made of.
#pragma once

SIMT_INLINE unsigned __clusterSizeInBlocks() { return simt::context.cluster_size; }
SIMT_INLINE unsigned __clusterRelativeBlockRank() { return simt::context.cluster_rank; }
SIMT_INLINE void __cluster_barrier_arrive(SIMT_LINE) { simt::cluster_arrive(true, line); }
SIMT_INLINE void __cluster_barrier_arrive_relaxed(SIMT_LINE) { simt::cluster_arrive(false, line); }
SIMT_INLINE void __cluster_barrier_wait(SIMT_LINE) { simt::cluster_wait(line); }
SIMT_INLINE void* __cluster_map_shared_rank(const void* pointer, unsigned rank, SIMT_LINE) {
    return simt::map_shared_rank(const_cast<void*>(pointer), rank, line);
}
