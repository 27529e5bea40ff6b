// How threads, blocks and clusters begin.
#include <algorithm>

#include "machine.h"

namespace simt {

namespace {

void start_thread(Thread& thread, Block& block, unsigned index, uint3 block_index) {
    const dim3 size = machine->block;
    thread.context = {
        .thread_index = {index % size.x, index / size.x % size.y, index / size.x / size.y},
        .block_index = block_index,
        .block_dim = size,
        .grid_dim = machine->grid,
        .cluster_rank = block.rank,
        .cluster_size = machine->cluster_size,
    };
    thread.block = &block;
    thread.index = index;
    thread.cluster_index = block.rank * machine->threads_per_block() + index;
    thread.state = ThreadState::ready;
    thread.site = {};
    thread.polled = nullptr;
    thread.waits_for = {};
    thread.copies.clear();
    thread.copy_groups = 0;
    thread.wgmma_start = thread.wgmma_fences = thread.wgmma_groups_done = *machine->latest_wgmma;
    thread.proxy_fence = thread.mbarrier_fence = 0;
    thread.cluster_arrivals.clear();
    thread.cluster_waits = thread.cluster_known = 0;
    thread.acquired = thread.observed = thread.fenced = nullptr;
    thread.seen.fill(0);
    thread.seen[thread.lane()] = 1;
}

void start_block(Block& block, unsigned rank, unsigned linear_index) {
    const Machine& m = *machine;
    const dim3 grid = m.grid;
    const uint3 index = {linear_index % grid.x, linear_index / grid.x % grid.y,
                         linear_index / grid.x / grid.y};
    const unsigned threads = m.threads_per_block();
    block.rank = rank;
    block.exited = block.at_barrier = block.barrier_votes = 0;
    block.remote_accesses.assign(m.cluster_size * threads, 0);
    block.mbarriers.clear();
    block.start_time = block.barrier_time = machine->time;
    block.shared.assign(m.shared.used_bytes(), static_cast<char>(0xff));  // NaN as a float
    block.threads.resize(threads);
    for (unsigned i = 0; i < threads; ++i) start_thread(block.threads[i], block, i, index);
    block.warps.assign((threads + warp_width - 1) / warp_width, Warp{});
    for (unsigned w = 0; w < block.warps.size(); ++w) {
        const unsigned lanes = std::min(warp_width, threads - w * warp_width);
        block.warps[w].threads = &block.threads[w * warp_width];
        block.warps[w].present = lanes == warp_width ? ~0u : (1u << lanes) - 1;
        block.warps[w].registers = registers_of_launch();
    }
    block.registers_free = 0;
    block.named = {};
    block.warpgroups.assign((block.warps.size() + 3) / 4, Warpgroup{});
    for (Warpgroup& group : block.warpgroups) {
        group.engine = new_engine(*block.cluster);
        group.committed.fill(*m.latest_wgmma);
    }
}

}  // namespace

// As far apart as warps are, which races.cpp tells from each other.
uint16_t new_engine(Cluster& cluster) {
    return static_cast<uint16_t>(first_engine + warp_width * cluster.engines++);
}

void start_cluster(size_t slot, unsigned number) {
    Machine& m = *machine;
    Cluster& cluster = m.clusters[slot];
    cluster.number = number;
    cluster.arrived = cluster.phases = cluster.engines = 0;
    cluster.phase_times.clear();
    const size_t threads = m.threads_per_block();
    for (unsigned rank = 0; rank < m.cluster_size; ++rank) {
        Block& block = cluster.blocks[rank];
        block.cluster = &cluster;
        start_block(block, rank, number * m.cluster_size + rank);
        block.slowness = m.shuffling && m.together ? 1u << m.random() % 6 : 1;
        char* stacks = m.stacks.begin + (slot * m.cluster_size + rank) * threads * stack_bytes;
        for (Thread& thread : block.threads) {
            thread.stack = stacks + thread.index * stack_bytes;
            thread.stack_pointer = prepare_stack(stack_end(thread));
        }
    }
}

}  // namespace simt
