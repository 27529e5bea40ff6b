// Judges every memory access of a kernel: bounds, permissions, initialisation, races.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace simt {

namespace {

// Addresses this close to a buffer are reported as outside of it, not as wild.
constexpr size_t buffer_reach = 64 * 1024;

// So many accesses without a barrier or collective mean a thread that waits for another in a loop.
constexpr uint64_t max_accesses_in_a_row = 50'000'000;

const char* name_of(AccessKind kind) {
    switch (kind) {
        case AccessKind::read: return "read";
        case AccessKind::write: return "write";
        case AccessKind::atomic: return "atomic access";
    }
    return "access";
}

// ---- Global memory -----------------------------------------------------------------------------

Buffer* find_buffer(const char* address) {
    for (Buffer& buffer : machine->buffers) {
        const AddressRange reach = {buffer.device - buffer_reach, buffer.bytes + 2 * buffer_reach};
        if (reach.contains(address)) return &buffer;
    }
    return nullptr;
}

void check_initialised(const Buffer& buffer, size_t offset, size_t bytes, Site site) {
    for (size_t i = offset; i < offset + bytes; ++i) {
        if (!buffer.initialised[i]) {
            fail_at(site, "read of uninitialised output: argument %u, byte %zu",
                    buffer.argument, i);
        }
    }
}

void check_global(Buffer& buffer, const char* address, size_t bytes, AccessKind kind, Site site) {
    const ptrdiff_t offset = address - buffer.device;
    if (offset < 0 || offset + bytes > buffer.bytes) {
        fail_at(site, "out-of-bounds global %s: %zu bytes at offset %td of argument %u, "
                "which has %zu bytes", name_of(kind), bytes, offset, buffer.argument, buffer.bytes);
    }
    if (kind != AccessKind::read && !buffer.writable) {
        fail_at(site, "write to read-only input: argument %u, byte %td", buffer.argument, offset);
    }
    if (kind == AccessKind::write) machine->changes += 1;
    if (buffer.initialised.empty()) return;
    if (kind != AccessKind::write) check_initialised(buffer, offset, bytes, site);
    std::fill_n(buffer.initialised.begin() + offset, bytes, true);
}

// ---- Shared memory -----------------------------------------------------------------------------

// Whether a barrier of the cluster is between the earlier access and what `thread` does now.
bool ordered_by_cluster(const SharedAccess& earlier, const Thread& thread) {
    uint32_t phase = earlier.cluster_arrivals;
    if (phase >= thread.cluster_known || by_bulk_copy(earlier)) return false;
    const unsigned threads = machine->threads_per_block();
    const Block& block = thread.block->cluster->blocks[earlier.thread / threads];
    const auto& releases = block.threads[earlier.thread % threads].cluster_arrivals;
    while (phase < thread.cluster_known && !releases[phase]) ++phase;
    return phase < thread.cluster_known;
}

// Whether nothing orders the earlier access before what `thread` does now.
bool unordered(const SharedAccess& earlier, const Thread& thread) {
    if (earlier.time < thread.block->start_time) return false;
    if (earlier.thread == thread.cluster_index) return false;
    if (ordered_by_cluster(earlier, thread) || ordered_by_mbarrier(earlier, thread)) return false;
    if (by_bulk_copy(earlier)) return true;
    const unsigned threads_per_block = machine->threads_per_block();
    if (earlier.thread / threads_per_block != thread.block->rank) return true;
    if (earlier.time < thread.block->barrier_time) return false;
    const unsigned earlier_index = earlier.thread % threads_per_block;
    if (earlier_index / warp_width != thread.index / warp_width) return true;
    return earlier.lane_clock > thread.seen[earlier_index % warp_width];
}

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

[[noreturn]] void report_race(const SharedAccess& earlier, const char* earlier_name,
                              AccessKind kind, size_t offset, Site site) {
    const SharedPlace place = place_of(offset);
    if (by_bulk_copy(earlier)) {
        fail_at(site, "shared-memory race: %s of %s shared memory, byte %zu, by a thread that has "
                "not seen the mbarrier of the bulk copy complete", name_of(kind), place.array,
                place.offset);
    }
    fail_at(site, "shared-memory race: %s of %s shared memory, byte %zu, and nothing orders it "
            "after the %s by thread %u", name_of(kind), place.array, place.offset, earlier_name,
            earlier.thread % machine->threads_per_block());
}

void check_race(const SharedByte& cell, AccessKind kind, size_t offset, Site site) {
    const Thread& thread = *machine->current;
    const bool atomic = kind == AccessKind::atomic;
    if (unordered(cell.write, thread) && !(atomic && cell.write.atomic)) {
        report_race(cell.write, "write", kind, offset, site);
    }
    if (kind == AccessKind::read) return;
    for (const SharedAccess* read : {&cell.read, &cell.read_same_warp, &cell.read_other_warp}) {
        if (unordered(*read, thread) && !(atomic && read->atomic)) {
            report_race(*read, "read", kind, offset, site);
        }
    }
}

// Keeps, of all reads, those that a later write is most likely to race with: with the latest reads
// of two different warps at hand, no race between warps is missed.
void record_read(SharedByte& cell, const SharedAccess& access) {
    const SharedAccess& latest = cell.read;
    if (latest.thread / warp_width != access.thread / warp_width) {
        cell.read_other_warp = latest;
        cell.read_same_warp = {};
    } else if (latest.thread != access.thread) {
        cell.read_same_warp = latest;
    }
    cell.read = access;
}

[[noreturn]] void report_pending(const Block& owner, AccessKind kind, size_t offset, Site site) {
    const unsigned index = owner.shadow[offset].write.thread % machine->threads_per_block();
    int line = 0;
    for (const AsyncCopy& copy : owner.threads[index].copies) {
        if (offset - copy.offset < copy.bytes) line = copy.line;
    }
    for (const auto& [place, barrier] : owner.mbarriers) {
        for (const BulkCopy& copy : barrier.copies) {
            if (offset - copy.offset < copy.data.size()) line = copy.line;
        }
    }
    const SharedPlace place = place_of(offset);
    fail_at(site, "%s of %s shared memory, byte %zu, into which thread %u copies asynchronously "
            "since line %d: it has not waited for that", name_of(kind), place.array, place.offset,
            index, line);
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

SharedAccess access_now(bool atomic) {
    const Thread& thread = *machine->current;
    return {
        .time = machine->time,
        .lane_clock = thread.seen[thread.lane()],
        .cluster_arrivals = static_cast<uint32_t>(thread.cluster_arrivals.size()),
        .thread = static_cast<uint16_t>(thread.cluster_index),
        .atomic = atomic,
    };
}

void check_shared(Block& owner, size_t offset, size_t bytes, AccessKind kind, Site site) {
    if (offset + bytes > machine->shared.used_bytes()) {
        const SharedPlace place = place_of(offset);
        fail_at(site, "out-of-bounds shared %s: %zu bytes at byte %zu of dynamic shared memory, "
                "which has %zu bytes", name_of(kind), bytes, place.offset,
                machine->shared.dynamic_bytes);
    }
    if (&owner != machine->current->block) check_remote(owner, site);
    const SharedAccess access = access_now(kind == AccessKind::atomic);
    for (size_t i = offset; i < offset + bytes; ++i) {
        SharedByte& cell = owner.shadow[i];
        if (kind != AccessKind::write && cell.write.time < owner.start_time) {
            const SharedPlace place = place_of(i);
            fail_at(site, "read of uninitialised shared memory: %s shared memory, byte %zu",
                    place.array, place.offset);
        }
        if (cell.write.pending && cell.write.time >= owner.start_time) {
            report_pending(owner, kind, i, site);
        }
        check_race(cell, kind, i, site);
        // An atomic access counts as a write: that is what others have to be ordered with.
        if (kind == AccessKind::read) record_read(cell, access);
        else cell.write = access;
    }
}

// Another block's shared memory, as map_shared_rank points to it; null if it is none.
Block* find_peer(const char* address) {
    for (Block& block : machine->current->block->cluster->blocks) {
        const AddressRange saved = {block.shared.data(), block.shared.size()};
        if (saved.contains(address)) return &block;
    }
    return nullptr;
}

}  // namespace

void check_access(const void* pointer, size_t bytes, AccessKind kind, Site site) {
    Machine* m = machine;
    if (m == nullptr || !m->checking || m->current == nullptr || m->muted) return;
    if (++m->accesses_in_a_row > max_accesses_in_a_row) {
        fail_at(site, "livelock: the thread loops without a barrier or warp collective");
    }
    const char* address = static_cast<const char*>(pointer);
    if (m->stacks.contains(address)) return;  // local variables
    if (m->shared.segment.contains(address)) {
        return check_shared(*m->live, address - m->shared.segment.begin, bytes, kind, site);
    }
    if (Buffer* buffer = find_buffer(address)) {
        return check_global(*buffer, address, bytes, kind, site);
    }
    if (m->image.contains(address)) return;  // constants, global variables, the built-in variables
    if (Block* peer = find_peer(address)) {
        return check_shared(*peer, address - peer->shared.data(), bytes, kind, site);
    }
    fail_at(site, "out-of-bounds %s: address %p belongs to no buffer", name_of(kind), pointer);
}

void start_shared_copy(const void* address, size_t bytes) {
    const size_t offset = static_cast<const char*>(address) - machine->shared.segment.begin;
    for (size_t i = offset; i < offset + bytes; ++i) machine->live->shadow[i].write.pending = true;
}

void finish_shared_copy(size_t offset, size_t bytes) {
    for (size_t i = offset; i < offset + bytes; ++i) machine->live->shadow[i].write = access_now(false);
}

// Data that the kernel itself writes must not be loaded through the read-only path.
void check_constant(const void* pointer, Site site) {
    if (!machine->checking) return;
    const Buffer* buffer = find_buffer(static_cast<const char*>(pointer));
    if (buffer != nullptr && !buffer->initialised.empty()) {
        fail_at(site, "ld.global.nc of output argument %u: it is only for what no thread writes "
                "while the kernel runs", buffer->argument);
    }
}

void check_inside_buffer(const void* pointer, size_t bytes, const char* operation, Site site) {
    if (!machine->checking) return;
    const char* address = static_cast<const char*>(pointer);
    for (const Buffer& buffer : machine->buffers) {
        const AddressRange range = {buffer.device, buffer.bytes};
        if (range.contains(address) && range.bytes - (address - range.begin) >= bytes) return;
    }
    fail_at(site, "out-of-bounds %s: %zu bytes at %p lie in no buffer", operation, bytes, pointer);
}

void require_aligned(const void* pointer, size_t alignment, const char* operation, int line) {
    if (reinterpret_cast<uintptr_t>(pointer) % alignment == 0) return;
    fail(line, "misaligned access: %s of %p needs an alignment of %zu bytes", operation, pointer,
         alignment);
}

AtomicScope::AtomicScope(const void* pointer, size_t bytes, int line)
    : place_(pointer), bytes_(bytes), line_(line) {
    check_access(pointer, bytes, AccessKind::atomic, Site{.line = line});
    memcpy(&old_, pointer, bytes);
    machine->muted = true;
}

AtomicScope::~AtomicScope() {
    machine->muted = false;
    if (memcmp(&old_, place_, bytes_) != 0) machine->changes += 1;
    let_others_run(place_, Site{.line = line_});
}

}  // namespace simt
