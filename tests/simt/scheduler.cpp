// Runs the threads of each block, and the barriers and warp collectives they meet at.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "machine.h"

namespace simt {

Machine* machine = nullptr;

void wait(ThreadState state, Site site) {
    Thread& thread = *machine->current;
    thread.state = state;
    thread.site = site;
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
    machine->changes += 1;
    uint32_t cluster_known = 0;
    SharedKnowledge acquired, fenced;
    for (const Thread& thread : block.threads) {
        cluster_known = std::max(cluster_known, thread.cluster_known);
        learn(acquired, thread.acquired);
        learn(fenced, thread.fenced);
    }
    for (Thread& thread : block.threads) {
        thread.state = ThreadState::ready;
        thread.cluster_known = cluster_known;
        if (thread.acquired != acquired) thread.acquired = acquired;
        if (thread.fenced != fenced) thread.fenced = fenced;
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

void collect_ready_threads(Block& block, std::vector<Thread*>& ready) {
    ready.clear();
    for (Thread& thread : block.threads) {
        if (thread.state == ThreadState::ready) ready.push_back(&thread);
    }
    if (machine->shuffling) std::shuffle(ready.begin(), ready.end(), machine->random);
}

void report_deadlock(const std::vector<Block*>& blocks) {
    const Thread* first = nullptr;
    unsigned at_barrier = 0, at_cluster_barrier = 0, at_collective = 0, exited = 0;
    for (const Block* block : blocks) {
        for (const Thread& thread : block->threads) {
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
    record_failure(first, first->site,
                   "deadlock: %u threads wait at __syncthreads, %u in warp collectives, "
                   "%u at a cluster barrier, %u have exited%s",
                   at_barrier, at_collective, at_cluster_barrier, exited,
                   describe_waits(blocks).c_str());
}

// Notices that all threads only look again and again at what nobody changes.
class SpinWatch {
public:
    // To be called after each round; the limits are far above what any thread waits for.
    bool hopeless() {
        const Machine& m = *machine;
        unchanged_ = m.changes == changes_ ? unchanged_ + 1 : 0;
        unmoved_ = m.changes == changes_ && m.looks == looks_ ? unmoved_ + 1 : 0;
        changes_ = m.changes;
        looks_ = m.looks;
        return unmoved_ > max_rounds_at_one_place || unchanged_ > max_rounds_without_change;
    }

private:
    static constexpr unsigned max_rounds_at_one_place = 2000;
    static constexpr unsigned max_rounds_without_change = 50'000;
    uint64_t changes_ = 0, looks_ = 0;
    unsigned unchanged_ = 0, unmoved_ = 0;
};

void report_spin(const std::vector<Block*>& blocks) {
    const Thread* first = nullptr;
    unsigned count = 0;
    for (const Block* block : blocks) {
        for (const Thread& thread : block->threads) {
            if (thread.state != ThreadState::yielded) continue;
            if (count++ == 0) first = &thread;
        }
    }
    record_failure(first, first->site, "endless wait: %u threads poll memory that no thread that "
                   "runs now will change%s", count, describe_waits(blocks).c_str());
}

// Notices a launch that goes on and on, its threads meeting at barriers or in collectives. What counts is
// the processor's time, not that of other work.
bool endless() {
    static const char* const said = std::getenv("SIMT_SECONDS");
    static const double most = said != nullptr ? std::atof(said) : 120;
    Machine& m = *machine;
    if (m.began == 0) m.began = std::clock();
    return ++m.turns % 1024 == 0 && double(std::clock() - m.began) > most * CLOCKS_PER_SEC;
}

// Runs the threads that can run until all have to wait; in a random order, it may also stop before,
// so that blocks overtake one another.  Returns whether any thread ran.
bool run_block(Block& block, std::vector<Thread*>& ready) {
    for (Thread& thread : block.threads) {
        if (thread.state == ThreadState::yielded) thread.state = ThreadState::ready;
    }
    bool any = false;
    for (;;) {
        collect_ready_threads(block, ready);
        if (ready.empty()) return any;
        any = true;
        if (endless()) {
            record_failure(ready.front(), ready.front()->site, "endless: threads go on meeting one another");
            return any;
        }
        make_live(block);
        for (Thread* thread : ready) {
            resume(*thread);
            if (machine->failed) return any;
        }
        if (machine->shuffling && machine->together && machine->random() % 2) return any;
    }
}

// Runs the clusters in `machine->clusters` to their ends.
void run_clusters() {
    Machine& m = *machine;
    std::vector<Block*> blocks;
    for (Cluster& cluster : m.clusters) {
        for (Block& block : cluster.blocks) blocks.push_back(&block);
    }
    std::vector<Thread*> ready;
    SpinWatch watch;
    for (;;) {
        bool progress = false;
        size_t finished = 0;
        if (m.shuffling) std::shuffle(blocks.begin(), blocks.end(), m.random);
        for (Block* block : blocks) {
            const bool pauses = m.random() % block->slowness != 0;
            progress |= pauses || run_block(*block, ready);
            if (m.failed) return;
            finished += block->exited == block->threads.size();
        }
        if (finished == blocks.size()) return;
        if (!progress) return report_deadlock(blocks);
        if (watch.hopeless()) return report_spin(blocks);
    }
}

// Whether a place is global memory, or at least nothing that belongs to a block or thread.
bool others_may_change(const void* place) {
    const Machine& m = *machine;
    if (m.stacks.contains(place) || m.shared.segment.contains(place)) return false;
    for (const Block& block : m.current->block->cluster->blocks) {
        if (AddressRange{const_cast<char*>(block.shared.data()), block.shared.size()}.contains(place))
            return false;
    }
    return true;
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
        wait(ThreadState::at_block_barrier, Site{.line = line});
    }
    return block.barrier_result;
}

// A thread that exits while others wait for it would leave them waiting.
void finish_thread() {
    Thread& thread = *machine->current;
    Block& block = *thread.block;
    if (block.at_barrier) {
        fail(block.barrier_line, "divergent barrier: exits while %u threads wait at __syncthreads",
             block.at_barrier);
    }
    check_copies_done(thread);
    check_wgmma_done(thread);
    leave_cluster(thread);
    leave_warp(thread);
    block.exited += 1;
    machine->changes += 1;
    thread.state = ThreadState::exited;
    suspend();
}

void yield(int line) {
    wait(ThreadState::yielded, Site{.line = line});
    machine->current->waits_for = {};
}

// Who waits until a time has come is not hopeless, unless it never comes.
uint64_t nanoseconds(int line) {
    constexpr uint64_t most_looks = 1'000'000, nanoseconds_of_a_look = 1000;
    Machine& m = *machine;
    m.changes += 1;
    if (++m.clock > most_looks) fail(line, "the time is looked at again and again");
    return m.clock * nanoseconds_of_a_look;
}

void let_others_run(const void* place, Site site) {
    Machine* m = machine;
    if (m == nullptr || m->current == nullptr || m->muted || !others_may_change(place)) return;
    Thread& thread = *m->current;
    if (thread.polled != place) m->looks += 1;
    thread.polled = place;
    wait(ThreadState::yielded, site);
}

void run_grid(Machine& m) {
    std::vector<unsigned> order(m.grid.x * m.grid.y * m.grid.z / m.cluster_size);
    for (unsigned i = 0; i < order.size(); ++i) order[i] = i;
    if (m.shuffling) std::shuffle(order.begin(), order.end(), m.random);
    const size_t at_once = m.clusters.size();
    for (size_t first = 0; first < order.size(); first += at_once) {
        ++m.time;
        m.live = nullptr;
        for (size_t slot = 0; slot < at_once; ++slot) start_cluster(slot, order[first + slot]);
        run_clusters();
        if (m.failed) return;
    }
}

}  // namespace simt
