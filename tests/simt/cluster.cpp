// Clusters: the barrier of their blocks, in its two halves, and the view of another block's memory.
#include <algorithm>

#include "machine.h"

namespace simt {

namespace {

size_t threads_of(const Cluster& cluster) {
    return cluster.blocks.size() * machine->threads_per_block();
}

void release_cluster_barrier(Cluster& cluster) {
    cluster.arrived = 0;
    cluster.phases += 1;
    cluster.phase_times.push_back(++machine->time);
    machine->changes += 1;
    for (Block& block : cluster.blocks) {
        for (Thread& thread : block.threads) {
            if (thread.state == ThreadState::at_cluster_barrier) thread.state = ThreadState::ready;
        }
    }
}

// The block's shared memory is gone when its last thread has exited: each access from another block
// must happen before, hence before a barrier that some thread of the block has waited for.
void check_remote_accesses(const Thread& last) {
    const Block& block = *last.block;
    uint32_t known = 0;
    for (const Thread& thread : block.threads) known = std::max(known, thread.cluster_known);
    for (size_t i = 0; i < block.remote_accesses.size(); ++i) {
        const unsigned threads = machine->threads_per_block();
        const Thread& author = block.cluster->blocks[i / threads].threads[i % threads];
        uint32_t phase = block.remote_accesses[i];
        if (phase-- == 0) continue;
        while (phase < known && !author.cluster_arrivals[phase]) ++phase;
        if (phase >= known) {
            fail(0, "exits although thread %zu of block rank %zu accesses this block's shared "
                 "memory, and no cluster barrier is between", i % threads, i / threads);
        }
    }
}

}  // namespace

void cluster_arrive(bool release, int line) {
    Thread& thread = *machine->current;
    Cluster& cluster = *thread.block->cluster;
    unsigned exited = 0;
    for (const Block& block : cluster.blocks) exited += block.exited;
    if (exited) fail(line, "divergent cluster barrier: %u threads have exited", exited);
    if (thread.cluster_arrivals.size() > thread.cluster_waits) {
        fail(line, "arrives at the cluster barrier again without having waited");
    }
    thread.cluster_arrivals.push_back(release);
    if (++cluster.arrived == threads_of(cluster)) release_cluster_barrier(cluster);
}

void cluster_wait(int line) {
    Thread& thread = *machine->current;
    if (thread.cluster_arrivals.size() == thread.cluster_waits) {
        fail(line, "waits at the cluster barrier without having arrived");
    }
    if (thread.block->cluster->phases == thread.cluster_waits) {
        wait(ThreadState::at_cluster_barrier, Site{.line = line});
    }
    thread.cluster_waits += 1;
    thread.cluster_known = std::max(thread.cluster_known, thread.cluster_waits);
}

void leave_cluster(const Thread& thread) {
    const Block& block = *thread.block;
    if (thread.cluster_arrivals.size() > thread.cluster_waits) {
        fail(0, "exits between arriving and waiting at the cluster barrier");
    }
    if (block.cluster->arrived) fail(0, "divergent cluster barrier: exits while others wait");
    if (block.exited + 1 < block.threads.size()) return;
    check_remote_accesses(thread);
    check_bulk_copies_done(block);
}

void* map_shared_rank(void* pointer, unsigned rank, int line) {
    Machine& m = *machine;
    if (rank >= m.cluster_size) fail(line, "map_shared_rank: no rank %u in the cluster", rank);
    if (!m.shared.segment.contains(pointer)) fail(line, "map_shared_rank: not shared memory");
    Block& block = m.current->block->cluster->blocks[rank];
    if (&block == m.live) return pointer;
    return block.shared.data() + (static_cast<char*>(pointer) - m.shared.segment.begin);
}

}  // namespace simt
