// Judges accesses to shared memory: bounds, initialisation, copies under way, and races.
#include <algorithm>
#include <cstring>

#include "judging.h"
#include "machine.h"

namespace simt {

namespace {

// Names a place in shared memory as the kernel's author thinks of it.
struct SharedPlace {
    const char* array;
    size_t offset;
};

SharedPlace place_of(size_t offset) {
    const size_t dynamic = machine->shared.dynamic_offset;
    if (offset >= dynamic) return {"dynamic", offset - dynamic};
    return {"static", offset};
}

[[noreturn]] void report_race(const MemoryAccess& earlier, const char* earlier_name,
                              AccessKind kind, size_t offset, Site site) {
    const SharedPlace place = place_of(offset);
    if (by_engine(earlier) && strcmp(earlier_name, "read") == 0) {
        fail_at(site, "shared-memory race: %s of %s shared memory, byte %zu, by a thread that does "
                "not know that the wgmma which reads it is done", name_of(kind), place.array,
                place.offset);
    }
    if (by_engine(earlier)) {
        fail_at(site, "shared-memory race: %s of %s shared memory, byte %zu, by a thread that has "
                "not seen the mbarrier of the bulk copy complete", name_of(kind), place.array,
                place.offset);
    }
    fail_at(site, "shared-memory race: %s of %s shared memory, byte %zu, and nothing orders it "
            "after the %s by thread %u", name_of(kind), place.array, place.offset, earlier_name,
            earlier.thread % machine->threads_per_block());
}

[[noreturn]] void report_pending(const Block& owner, AccessKind kind, size_t offset, Site site) {
    const unsigned index = owner.shadow[offset].write.thread % machine->threads_per_block();
    Calls calls{};
    for (const AsyncCopy& copy : owner.threads[index].copies) {
        if (offset - copy.offset < copy.bytes) calls = copy.calls;
    }
    for (const auto& [place, barrier] : owner.mbarriers) {
        for (const BulkCopy& copy : barrier.copies) {
            if (offset - copy.offset < copy.data.size()) calls = copy.calls;
        }
    }
    const SharedPlace place = place_of(offset);
    fail_at(site, "%s of %s shared memory, byte %zu, into which thread %u copies asynchronously "
            "since %s: it has not waited for that", name_of(kind), place.array, place.offset, index,
            spelled(calls).c_str());
}

// What threads write wgmma reads only across a fence, of the writer's or of its own warp.
void check_proxy_fence(const Block& owner, const MemoryAccess& write, size_t offset, Site site) {
    const Thread* lanes = machine->current - machine->current->lane();
    uint32_t fence = owner.threads[write.thread % machine->threads_per_block()].proxy_fence;
    for (unsigned i = 0; i < warp_width; ++i) fence = std::max(fence, lanes[i].proxy_fence);
    if (fence > write.proxy_fences) return;
    const SharedPlace place = place_of(offset);
    fail_at(site, "wgmma reads %s shared memory, byte %zu, which thread %u has written without a "
            "fence.proxy.async behind it", place.array, place.offset,
            write.thread % machine->threads_per_block());
}

// Another block's memory exists from the first barrier of the cluster to that block's end.
void check_remote(Block& owner, Site site) {
    const Thread& thread = *machine->current;
    if (thread.cluster_known == 0) {
        fail_at(site, "accesses another block's shared memory before the first cluster barrier: "
                "that block may not have started");
    }
    if (owner.exited == owner.threads.size()) {
        fail_at(site, "accesses the shared memory of block rank %u, which has exited", owner.rank);
    }
    owner.remote_accesses[thread.cluster_index] = thread.cluster_arrivals.size() + 1;
}

}  // namespace

void check_shared(Block& owner, size_t offset, size_t bytes, AccessKind kind,
                  const MemoryAccess& access, Site site) {
    if (offset + bytes > machine->shared.used_bytes()) {
        const SharedPlace place = place_of(offset);
        fail_at(site, "out-of-bounds shared %s: %zu bytes at byte %zu of dynamic shared memory, "
                "which has %zu bytes", name_of(kind), bytes, place.offset,
                machine->shared.dynamic_bytes);
    }
    const std::vector<bool>& foreign = machine->shared.foreign;
    for (size_t i = offset; i < offset + bytes && i < foreign.size(); ++i) {
        if (foreign[i]) fail_at(site, "out-of-bounds shared %s: %zu bytes", name_of(kind), bytes);
    }
    if (kind == AccessKind::poll) kind = AccessKind::read;
    if (kind == AccessKind::post) kind = AccessKind::write;
    if (&owner != machine->current->block) check_remote(owner, site);
    judge_each(&owner.shadow[offset], bytes, [&](size_t byte) {
        const size_t i = offset + byte;
        MemoryByte& cell = owner.shadow[i];
        if (kind != AccessKind::write && cell.write.time < owner.start_time) {
            const SharedPlace place = place_of(i);
            fail_at(site, "read of uninitialised shared memory: %s shared memory, byte %zu",
                    place.array, place.offset);
        }
        if (cell.write.pending && cell.write.time >= owner.start_time) {
            report_pending(owner, kind, i, site);
        }
        const bool read = kind == AccessKind::read;
        if (const MemoryAccess* earlier = find_race(cell, read, access.atomic, false)) {
            report_race(*earlier, earlier == &cell.write ? "write" : "read", kind, i, site);
        }
        if (by_engine(access) && !by_engine(cell.write)) {
            check_proxy_fence(owner, cell.write, i, site);
        }
        // An atomic access counts as a write: that is what others have to be ordered with.
        if (read) record_read(cell, access);
        else cell.write = access;
    });
}

void check_engine_read(const void* address, size_t bytes, uint16_t engine, uint32_t clock,
                       Site site) {
    MemoryAccess access = access_now(false);
    access.thread = engine;
    access.lane_clock = clock;
    const size_t offset = static_cast<const char*>(address) - machine->shared.segment.begin;
    check_shared(*machine->live, offset, bytes, AccessKind::read, access, site);
}

void start_shared_copy(const void* address, size_t bytes) {
    const size_t offset = static_cast<const char*>(address) - machine->shared.segment.begin;
    for (size_t i = offset; i < offset + bytes; ++i) machine->live->shadow[i].write.pending = true;
}

void finish_shared_copy(size_t offset, size_t bytes) {
    for (size_t i = offset; i < offset + bytes; ++i) machine->live->shadow[i].write = access_now(false);
}

}  // namespace simt
