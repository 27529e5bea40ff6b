// Barriers that are objects in shared memory (mbarrier), and the bulk copies that complete on them.
//
// A bulk copy takes effect when a thread looks at its mbarrier.  It is then known, like whatever was
// done before an arrival, to those who have seen the phase complete, and to whom they pass it on.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace simt {

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

// Who waits by parity cannot tell a phase from the one after the next.
void complete_phase(MBarrier& barrier, int line) {
    if (barrier.pending != 0 || barrier.bytes_expected != 0) return;
    if (barrier.seen < barrier.phase) {
        fail(line, "an mbarrier's phase %u completes, and nobody has waited for phase %u",
             barrier.phase, barrier.phase - 1);
    }
    barrier.phase += 1;
    barrier.pending = barrier.count;
    barrier.released = barrier.gathered;
    machine->changes += 1;
}

void land_copies(MBarrier& barrier, int line) {
    for (const BulkCopy& copy : barrier.copies) {
        memcpy(machine->shared.segment.begin + copy.offset, copy.data.data(), copy.data.size());
        barrier.bytes_expected -= static_cast<int64_t>(copy.data.size());
        barrier.landed += 1;
        if (!machine->checking) continue;
        for (size_t i = 0; i < copy.data.size(); ++i) {
            MemoryAccess& write = machine->live->shadow[copy.offset + i].write;
            write = {.time = machine->time, .lane_clock = barrier.landed, .thread = barrier.engine};
            write.cluster = machine->live->cluster->number;
        }
    }
    if (barrier.copies.empty()) return;
    auto landed = std::make_shared<Knowledge>();
    landed->clocks[engine_key(barrier.engine)].fill(barrier.landed);
    barrier.gathered = join(barrier.gathered, landed);
    barrier.copies.clear();
    complete_phase(barrier, line);
}

}  // namespace

void init_mbarrier(uint64_t address, uint32_t count, int line) {
    Block& block = *machine->current->block;
    char* pointer = static_cast<char*>(locate(Space::shared_cta, address, line));
    require_aligned(pointer, sizeof(uint64_t), "mbarrier.init", line);
    check_access(pointer, sizeof(uint64_t), AccessKind::write, Site{.line = line});
    if (count == 0) fail(line, "mbarrier.init: the count of arrivals is zero");
    if (block.cluster->engines >= max_engines) fail(line, "mbarrier.init: too many in one launch");
    MBarrier& barrier = block.mbarriers[pointer - machine->shared.segment.begin];
    barrier = {.count = count,
               .pending = count,
               .author = static_cast<uint16_t>(machine->current->index),
               .fences = machine->proxy_fences,
               .engine = new_engine(*block.cluster)};
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
    complete_phase(barrier, line);
}

// Whether the phase of this parity has completed; if not, others run first.
bool poll_mbarrier(uint64_t address, uint32_t parity, int line) {
    MBarrier& barrier = find_mbarrier(Space::shared_cta, address, "mbarrier.try_wait", line);
    if (barrier.phase % 2 == parity) land_copies(barrier, line);
    if (barrier.phase % 2 == parity) {
        const char* place = static_cast<const char*>(locate(Space::shared_cta, address, line));
        const auto offset = static_cast<size_t>(place - machine->shared.segment.begin);
        machine->current->waits_for = {Waiting::mbarrier, offset, parity};
        yield(line);
        return false;
    }
    barrier.seen = barrier.phase;
    acquire(*machine->current, barrier.released);
    return true;
}

void copy_bulk(uint64_t to, uint64_t from, uint32_t bytes, uint64_t address, int line) {
    const char* source = static_cast<const char*>(locate(Space::global, from, line));
    if (bytes % 16) fail(line, "cp.async.bulk: %u bytes are no multiple of 16", bytes);
    require_aligned(source, 16, "cp.async.bulk", line);
    check_access(source, bytes, AccessKind::read, Site{.line = line});
    start_bulk_copy(to, {source, source + bytes}, address, "cp.async.bulk", line);
}

void start_bulk_copy(uint64_t to, std::vector<char> data, uint64_t address, const char* operation,
                     int line) {
    MBarrier& barrier = find_mbarrier(Space::shared_cta, address, operation, line);
    const Thread& thread = *machine->current;
    const Thread& author = thread.block->threads[barrier.author];
    if (std::max(author.mbarrier_fence, thread.mbarrier_fence) <= barrier.fences) {
        fail(line, "%s: thread %u has initialised the mbarrier without a fence.mbarrier_init or "
             "fence.proxy.async behind it", operation, author.index);
    }
    char* target = static_cast<char*>(locate(Space::shared_cta, to, line));
    require_aligned(target, 16, operation, line);
    if (data.empty()) return;
    check_access(target, data.size(), AccessKind::write, Site{.line = line});
    if (machine->checking) start_shared_copy(target, data.size());
    const size_t offset = target - machine->shared.segment.begin;
    barrier.copies.push_back({offset, line, calls_of(thread), std::move(data)});
}

// The block's shared memory is gone after its last thread.
void check_bulk_copies_done(const Block& block) {
    for (const auto& [offset, barrier] : block.mbarriers) {
        if (barrier.copies.empty()) continue;
        fail(barrier.copies.front().line, "the block ends without waiting for its bulk copy");
    }
}

}  // namespace simt
