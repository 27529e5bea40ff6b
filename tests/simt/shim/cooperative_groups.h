// The part of cooperative groups that thread block clusters need.
#pragma once

namespace cooperative_groups {

struct thread_block {
    static void sync(SIMT_LINE) { simt::block_barrier(false, line); }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned thread_rank() {
        return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    }
};

struct cluster_group {
    static void sync(SIMT_LINE) {
        simt::cluster_arrive(true, line);
        simt::cluster_wait(line);
    }
    static unsigned block_rank() { return simt::context.cluster_rank; }
    static unsigned num_blocks() { return simt::context.cluster_size; }
    template <class T>
    static T* map_shared_rank(T* pointer, unsigned rank, SIMT_LINE) {
        return static_cast<T*>(simt::map_shared_rank(pointer, rank, line));
    }
};

static inline thread_block this_thread_block() { return {}; }
static inline cluster_group this_cluster() { return {}; }

}  // namespace cooperative_groups
