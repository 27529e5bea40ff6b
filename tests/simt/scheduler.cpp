// Runs the threads of each block, and the barriers and warp collectives they meet at.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace simt {

Machine* machine = nullptr;

void wait(ThreadState state, int line) {
    Thread& thread = *machine->current;
    thread.state = state;
    thread.line = line;
    suspend();
}

namespace {

// ---- Barriers ----------------------------------------------------------------------------------

void release_block_barrier(Block& block) {
    const int threads = static_cast<int>(block.threads.size());
    const int votes = static_cast<int>(block.barrier_votes);
    block.barrier_result = {.count = votes, .all = votes == threads, .any = votes > 0};
    block.at_barrier = block.barrier_votes = 0;
    block.barrier_time = ++machine->time;
    for (Thread& thread : block.threads) thread.state = ThreadState::ready;
}

void release_cluster_barrier() {
    machine->at_cluster_barrier = 0;
    machine->cluster_barrier_time = ++machine->time;
    for (Block& block : machine->cluster) {
        block.barrier_time = machine->time;
        for (Thread& thread : block.threads) thread.state = ThreadState::ready;
    }
}

// ---- The run loop ------------------------------------------------------------------------------

// A block's shared memory occupies the window only while the block runs.
void make_live(Block& block) {
    Machine& m = *machine;
    if (m.live == &block) return;
    char* window = m.shared.segment.begin;
    const size_t bytes = m.shared.used_bytes();
    if (m.live != nullptr) memcpy(m.live->shared.data(), window, bytes);
    memcpy(window, block.shared.data(), bytes);
    m.live = &block;
}

void run_ready_threads(Block& block, std::vector<Thread*>& ready) {
    ready.clear();
    for (Thread& thread : block.threads) {
        if (thread.state == ThreadState::ready) ready.push_back(&thread);
    }
    if (machine->shuffling) std::shuffle(ready.begin(), ready.end(), machine->random);
    for (Thread* thread : ready) {
        resume(*thread);
        if (machine->failed) return;
    }
}

void report_deadlock() {
    const Thread* first = nullptr;
    unsigned at_barrier = 0, at_cluster_barrier = 0, at_collective = 0, exited = 0;
    for (const Block& block : machine->cluster) {
        for (const Thread& thread : block.threads) {
            at_barrier += thread.state == ThreadState::at_block_barrier;
            at_cluster_barrier += thread.state == ThreadState::at_cluster_barrier;
            at_collective += thread.state == ThreadState::at_collective;
            exited += thread.state == ThreadState::exited;
            // A thread in a collective says most: its warp-mates went elsewhere.
            const bool better = first == nullptr || (thread.state == ThreadState::at_collective &&
                                                     first->state != ThreadState::at_collective);
            if (thread.state != ThreadState::exited && better) first = &thread;
        }
    }
    record_failure(first, Site{.line = first->line},
                   "deadlock: %u threads wait at __syncthreads, %u in warp collectives, "
                   "%u at a cluster barrier, %u have exited",
                   at_barrier, at_collective, at_cluster_barrier, exited);
}

void run_cluster() {
    std::vector<Thread*> ready;
    const unsigned total = machine->cluster_size * machine->threads_per_block();
    for (;;) {
        bool progress = false;
        unsigned exited = 0;
        for (Block& block : machine->cluster) {
            make_live(block);
            do {
                run_ready_threads(block, ready);
                progress |= !ready.empty();
            } while (!ready.empty() && !machine->failed);
            if (machine->failed) return;
            exited += block.exited;
        }
        if (exited == total) return;
        if (!progress) return report_deadlock();
    }
}

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
    thread.line = 0;
    thread.seen.fill(0);
    thread.seen[thread.lane()] = 1;
    thread.stack_pointer = prepare_stack(stack_end(thread));
}

void start_block(Block& block, unsigned rank, unsigned linear_index) {
    const dim3 grid = machine->grid;
    const uint3 index = {linear_index % grid.x, linear_index / grid.x % grid.y,
                         linear_index / grid.x / grid.y};
    const unsigned threads = machine->threads_per_block();
    block.rank = rank;
    block.exited = block.at_barrier = block.barrier_votes = 0;
    block.start_time = block.barrier_time = machine->time;
    block.shared.assign(machine->shared.used_bytes(), static_cast<char>(0xff));  // NaN as a float
    block.threads.resize(threads);
    for (unsigned i = 0; i < threads; ++i) start_thread(block.threads[i], block, i, index);
    block.warps.assign((threads + warp_width - 1) / warp_width, Warp{});
    for (unsigned w = 0; w < block.warps.size(); ++w) {
        const unsigned lanes = std::min(warp_width, threads - w * warp_width);
        block.warps[w].threads = &block.threads[w * warp_width];
        block.warps[w].present = lanes == warp_width ? ~0u : (1u << lanes) - 1;
    }
}

}  // namespace

BarrierVotes block_barrier(bool predicate, int line) {
    Block& block = *machine->current->block;
    const unsigned threads = static_cast<unsigned>(block.threads.size());
    if (block.exited) {
        fail(line, "divergent barrier: %u of %u threads have exited before this __syncthreads",
             block.exited, threads);
    }
    if (block.at_barrier && block.barrier_line != line) {
        fail(line, "divergent barrier: %u threads wait at the __syncthreads of line %d",
             block.at_barrier, block.barrier_line);
    }
    block.barrier_line = line;
    block.barrier_votes += predicate;
    if (++block.at_barrier == threads) {
        release_block_barrier(block);
    } else {
        wait(ThreadState::at_block_barrier, line);
    }
    return block.barrier_result;
}

void cluster_barrier(int line) {
    unsigned exited = 0;
    for (const Block& block : machine->cluster) exited += block.exited;
    if (exited) fail(line, "divergent cluster barrier: %u threads have exited", exited);
    if (++machine->at_cluster_barrier == machine->cluster_size * machine->threads_per_block()) {
        release_cluster_barrier();
    } else {
        wait(ThreadState::at_cluster_barrier, line);
    }
}

// A thread that exits while others wait for it would leave them waiting.
void finish_thread() {
    Thread& thread = *machine->current;
    Block& block = *thread.block;
    if (block.at_barrier) {
        fail(block.barrier_line, "divergent barrier: exits while %u threads wait at __syncthreads",
             block.at_barrier);
    }
    if (machine->at_cluster_barrier) fail(0, "divergent cluster barrier: exits while others wait");
    leave_warp(thread);
    block.exited += 1;
    thread.state = ThreadState::exited;
    suspend();
}

void run_grid(Machine& m) {
    std::vector<unsigned> order(m.grid.x * m.grid.y * m.grid.z / m.cluster_size);
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    if (m.shuffling) std::shuffle(order.begin(), order.end(), m.random);
    for (unsigned cluster : order) {
        ++m.time;
        m.live = nullptr;
        m.cluster_barrier_time = m.time;
        m.at_cluster_barrier = 0;
        for (unsigned rank = 0; rank < m.cluster_size; ++rank) {
            start_block(m.cluster[rank], rank, cluster * m.cluster_size + rank);
        }
        run_cluster();
        if (m.failed) return;
    }
}

}  // namespace simt
