// Who waits for what, when nobody goes on.
#include <cstdio>

#include "machine.h"

namespace simt {

namespace {

template <class... Values>
std::string text(const char* format, Values... values) {
    char line[512];
    snprintf(line, sizeof line, format, values...);
    return line;
}

std::string describe_mbarrier(const Block& block, const Waiting& wait) {
    const auto found = block.mbarriers.find(wait.place);
    if (found == block.mbarriers.end()) return "an mbarrier";
    const MBarrier& barrier = found->second;
    int64_t bytes = barrier.bytes_expected;
    for (const BulkCopy& copy : barrier.copies) bytes -= static_cast<int64_t>(copy.data.size());
    const size_t dynamic = machine->shared.dynamic_offset;
    const bool in_dynamic = wait.place >= dynamic;
    std::string result = text(
        "parity %u of the mbarrier at byte %zu of %s shared memory, whose phase %u lacks %u of %u "
        "arrivals", wait.phase, in_dynamic ? wait.place - dynamic : wait.place,
        in_dynamic ? "dynamic" : "static", barrier.phase, barrier.pending, barrier.count);
    if (bytes > 0) result += text(" and %lld bytes that it expects", static_cast<long long>(bytes));
    if (bytes < 0) {
        result += text(" and has %lld bytes more than it expects", static_cast<long long>(-bytes));
    }
    return result;
}

std::string describe_polled(const Thread& thread) {
    const Waiting& wait = thread.waits_for;
    const Block& block = *thread.block;
    switch (wait.what) {
        case Waiting::mbarrier: return describe_mbarrier(block, wait);
        case Waiting::registers:
            return text("setmaxnreg: %zu registers a thread, and %u are free", wait.place,
                        block.registers_free);
        case Waiting::warpgroup:
            return text("wgmma group %zu, which not all warps of the warpgroup have committed",
                        wait.place);
        case Waiting::named_barrier: case Waiting::nothing: break;
    }
    return "memory that others write";
}

std::string describe(const Thread& thread) {
    const Block& block = *thread.block;
    switch (thread.state) {
        case ThreadState::at_block_barrier: return "__syncthreads";
        case ThreadState::at_cluster_barrier: return "the barrier of the cluster";
        case ThreadState::at_collective: return "lanes of its warp";
        case ThreadState::at_named_barrier: {
            const NamedBarrier& barrier = block.named[thread.waits_for.place];
            return text("named barrier %zu: %u of %u threads are there", thread.waits_for.place,
                        barrier.arrived, barrier.expected);
        }
        case ThreadState::yielded: return describe_polled(thread);
        case ThreadState::ready: case ThreadState::exited: break;
    }
    return "";
}

}  // namespace

std::string describe_waits(const std::vector<Block*>& blocks) {
    std::string result;
    for (const Block* block : blocks) {
        const auto& threads = block->threads;
        for (size_t first = 0, next = 0; first < threads.size(); first = next) {
            const std::string what = describe(threads[first]);
            next = first + 1;
            const auto alike = [&](const Thread& thread) {
                return thread.site.line == threads[first].site.line && describe(thread) == what;
            };
            while (next < threads.size() && alike(threads[next])) ++next;
            if (what.empty()) continue;
            const uint3 place = threads[first].context.block_index;
            result += text("\n    block (%u, %u, %u), threads %zu to %zu wait for ", place.x, place.y,
                           place.z, first, next - 1) + what;
            result += " (" + spelled(calls_of(threads[first])) + ")";
        }
        if (result.size() > 2000) return result + "\n    and so on";
    }
    return result;
}

}  // namespace simt
