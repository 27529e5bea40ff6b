// Barriers that are objects in shared memory (mbarrier), and the bulk copies that complete on them.
//
// A bulk copy takes effect when a thread looks at its mbarrier.  It is then known, like whatever was
// done before an arrival, to those who have seen the phase complete, and to whom they pass it on.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace simt {

// ---- What threads know -------------------------------------------------------------------------

SharedKnowledge join(const SharedKnowledge& a, const SharedKnowledge& b) {
    if (a == b || b == nullptr) return a;
    if (a == nullptr) return b;
    auto joined = std::make_shared<Knowledge>(*a);
    for (const auto& [warp, clocks] : b->clocks) {
        auto& known = joined->clocks[warp];
        for (unsigned i = 0; i < warp_width; ++i) known[i] = std::max(known[i], clocks[i]);
    }
    for (const auto& [rank, time] : b->times) {
        joined->times[rank] = std::max(joined->times[rank], time);
    }
    joined->cluster_phases = std::max(joined->cluster_phases, b->cluster_phases);
    return joined;
}

namespace {

// Bulk copies take the place of a warp of their own for each mbarrier, after those of all blocks.
constexpr uint16_t first_engine = 1 << 15;

uint16_t warp_id(unsigned rank, unsigned thread) {
    const unsigned warps = (machine->threads_per_block() + warp_width - 1) / warp_width;
    return rank * warps + thread / warp_width;
}

// What the thread did until now, and what it knows.
SharedKnowledge publish(Thread& thread) {
    auto own = std::make_shared<Knowledge>();
    own->clocks[warp_id(thread.block->rank, thread.index)] = thread.seen;
    own->times[thread.block->rank] = thread.block->barrier_time;
    own->cluster_phases = thread.cluster_known;
    thread.seen[thread.lane()] += 1;
    return join(own, thread.acquired);
}

}  // namespace

bool by_bulk_copy(const SharedAccess& access) { return access.thread >= first_engine; }

bool ordered_by_mbarrier(const SharedAccess& earlier, const Thread& thread) {
    if (thread.acquired == nullptr) return false;
    unsigned warp = earlier.thread, lane = 0;
    if (!by_bulk_copy(earlier)) {
        const unsigned rank = earlier.thread / machine->threads_per_block();
        const unsigned index = earlier.thread % machine->threads_per_block();
        const auto time = thread.acquired->times.find(rank);
        if (time != thread.acquired->times.end() && earlier.time < time->second) return true;
        warp = warp_id(rank, index);
        lane = index % warp_width;
    }
    const auto clocks = thread.acquired->clocks.find(warp);
    return clocks != thread.acquired->clocks.end() && earlier.lane_clock <= clocks->second[lane];
}

// ---- The barrier -------------------------------------------------------------------------------

namespace {

// Every use but the first initialisation counts as an atomic access to the eight bytes.
MBarrier& find_mbarrier(Space space, uint64_t address, const char* operation, int line) {
    char* pointer = static_cast<char*>(locate(space, address, line));
    require_aligned(pointer, sizeof(uint64_t), operation, line);
    check_access(pointer, sizeof(uint64_t), AccessKind::atomic, Site{.line = line});
    for (Block& block : machine->current->block->cluster->blocks) {
        const bool live = &block == machine->live;
        const char* base = live ? machine->shared.segment.begin : block.shared.data();
        const auto found = block.mbarriers.find(pointer - base);
        if (found != block.mbarriers.end()) return found->second;
    }
    fail(line, "%s: no mbarrier was initialised there", operation);
}

void complete_phase(MBarrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes_expected != 0) return;
    barrier.phase += 1;
    barrier.pending = barrier.count;
    barrier.released = barrier.gathered;
    machine->changes += 1;
}

void land_copies(MBarrier& barrier) {
    for (const BulkCopy& copy : barrier.copies) {
        memcpy(machine->shared.segment.begin + copy.offset, copy.data.data(), copy.data.size());
        barrier.bytes_expected -= static_cast<int64_t>(copy.data.size());
        barrier.landed += 1;
        if (!machine->checking) continue;
        for (size_t i = 0; i < copy.data.size(); ++i) {
            SharedAccess& write = machine->live->shadow[copy.offset + i].write;
            write = {.time = machine->time, .lane_clock = barrier.landed, .thread = barrier.engine};
        }
    }
    if (barrier.copies.empty()) return;
    auto landed = std::make_shared<Knowledge>();
    landed->clocks[barrier.engine].fill(barrier.landed);
    barrier.gathered = join(barrier.gathered, landed);
    barrier.copies.clear();
    complete_phase(barrier);
}

}  // namespace

void init_mbarrier(uint64_t address, uint32_t count, int line) {
    Block& block = *machine->current->block;
    char* pointer = static_cast<char*>(locate(Space::shared_cta, address, line));
    require_aligned(pointer, sizeof(uint64_t), "mbarrier.init", line);
    check_access(pointer, sizeof(uint64_t), AccessKind::write, Site{.line = line});
    if (count == 0) fail(line, "mbarrier.init: the count of arrivals is zero");
    MBarrier& barrier = block.mbarriers[pointer - machine->shared.segment.begin];
    const auto engine = static_cast<uint16_t>(first_engine + block.cluster->mbarriers++);
    barrier = {.count = count, .pending = count, .engine = engine};
}

void expect_bytes(uint64_t address, uint32_t bytes, int line) {
    find_mbarrier(Space::shared_cta, address, "mbarrier.expect_tx", line).bytes_expected += bytes;
}

void arrive_mbarrier(Space space, uint64_t address, uint32_t count, int line) {
    MBarrier& barrier = find_mbarrier(space, address, "mbarrier.arrive", line);
    if (count > barrier.pending) {
        fail(line, "mbarrier.arrive: more arrivals in this phase than the %u it was initialised for",
             barrier.count);
    }
    barrier.pending -= count;
    barrier.gathered = join(barrier.gathered, publish(*machine->current));
    complete_phase(barrier);
}

// Whether the phase of this parity has completed; if not, others run first.
bool poll_mbarrier(uint64_t address, uint32_t parity, int line) {
    MBarrier& barrier = find_mbarrier(Space::shared_cta, address, "mbarrier.try_wait", line);
    if (barrier.phase % 2 == parity) land_copies(barrier);
    if (barrier.phase % 2 == parity) {
        yield(line);
        return false;
    }
    Thread& thread = *machine->current;
    thread.acquired = join(thread.acquired, barrier.released);
    if (barrier.released != nullptr) {
        thread.cluster_known = std::max(thread.cluster_known, barrier.released->cluster_phases);
    }
    return true;
}

void copy_bulk(uint64_t to, uint64_t from, uint32_t bytes, uint64_t address, int line) {
    MBarrier& barrier = find_mbarrier(Space::shared_cta, address, "cp.async.bulk", line);
    char* target = static_cast<char*>(locate(Space::shared_cta, to, line));
    const char* source = static_cast<const char*>(locate(Space::global, from, line));
    if (bytes % 16) fail(line, "cp.async.bulk: %u bytes are no multiple of 16", bytes);
    require_aligned(target, 16, "cp.async.bulk", line);
    require_aligned(source, 16, "cp.async.bulk", line);
    if (bytes == 0) return;
    check_access(source, bytes, AccessKind::read, Site{.line = line});
    check_access(target, bytes, AccessKind::write, Site{.line = line});
    if (machine->checking) start_shared_copy(target, bytes);
    const size_t offset = target - machine->shared.segment.begin;
    barrier.copies.push_back({offset, line, std::vector<char>(source, source + bytes)});
}

// The block's shared memory is gone after its last thread.
void check_bulk_copies_done(const Block& block) {
    for (const auto& [offset, barrier] : block.mbarriers) {
        if (barrier.copies.empty()) continue;
        fail(barrier.copies.front().line, "the block ends without waiting for its bulk copy");
    }
}

}  // namespace simt
