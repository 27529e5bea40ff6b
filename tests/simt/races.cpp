// Whether an access is ordered after the earlier ones to the same byte.
#include "machine.h"

namespace simt {

namespace {

// Whether a barrier of the cluster is between the earlier access and what `thread` does now.
bool ordered_by_cluster(const MemoryAccess& earlier, const Thread& thread) {
    uint32_t phase = earlier.cluster_arrivals;
    if (phase >= thread.cluster_known || by_engine(earlier)) return false;
    const unsigned threads = machine->threads_per_block();
    const Block& block = thread.block->cluster->blocks[earlier.thread / threads];
    const auto& releases = block.threads[earlier.thread % threads].cluster_arrivals;
    while (phase < thread.cluster_known && !releases[phase]) ++phase;
    return phase < thread.cluster_known;
}

// Whether nothing orders the earlier access before what `thread` does now.  In shared memory, what
// another cluster left behind does not count.
bool unordered(const MemoryAccess& earlier, const Thread& thread, bool global) {
    if (earlier.time == 0) return false;
    if (earlier.cluster != thread.block->cluster->number) return global && !known(earlier, thread);
    if (earlier.thread == thread.cluster_index) return false;
    if (ordered_by_cluster(earlier, thread) || known(earlier, thread)) return false;
    if (by_engine(earlier)) return true;
    const unsigned threads_per_block = machine->threads_per_block();
    if (earlier.thread / threads_per_block != thread.block->rank) return true;
    if (earlier.time < thread.block->barrier_time) return false;
    const unsigned earlier_index = earlier.thread % threads_per_block;
    if (earlier_index / warp_width != thread.index / warp_width) return true;
    return earlier.lane_clock > thread.seen[earlier_index % warp_width];
}

}  // namespace

// Returns the earlier access that races with one by the current thread, or null.
const MemoryAccess* find_race(const MemoryByte& cell, bool read, bool atomic, bool global) {
    const Thread& thread = *machine->current;
    const auto races = [&](const MemoryAccess& earlier) {
        return !(atomic && earlier.atomic) && unordered(earlier, thread, global);
    };
    // Threads may look at a global place that others change atomically: its value is whole.
    if (races(cell.write) && !(global && read && cell.write.atomic)) return &cell.write;
    if (read || (global && atomic)) return nullptr;
    for (const MemoryAccess* seen : {&cell.read, &cell.read_same_warp, &cell.read_other_warp}) {
        if (races(*seen)) return seen;
    }
    return nullptr;
}

// Keeps, of all reads, those that a later write is most likely to race with: with the latest reads
// of two different warps at hand, no race between warps is missed.
void record_read(MemoryByte& cell, const MemoryAccess& access) {
    const MemoryAccess& latest = cell.read;
    const bool same_cluster = latest.cluster == access.cluster;
    if (!same_cluster || latest.thread / warp_width != access.thread / warp_width) {
        cell.read_other_warp = latest;
        cell.read_same_warp = {};
    } else if (latest.thread != access.thread) {
        cell.read_same_warp = latest;
    }
    cell.read = access;
}

MemoryAccess access_now(bool atomic) {
    const Thread& thread = *machine->current;
    return {
        .time = machine->time,
        .lane_clock = thread.seen[thread.lane()],
        .cluster_arrivals = static_cast<uint32_t>(thread.cluster_arrivals.size()),
        .cluster = thread.block->cluster->number,
        .proxy_fences = machine->proxy_fences,
        .thread = static_cast<uint16_t>(thread.cluster_index),
        .atomic = atomic,
    };
}

}  // namespace simt
