// Judges every memory access of a kernel: bounds, permissions, initialisation, and races.
#include <algorithm>
#include <cstring>

#include "judging.h"
#include "machine.h"

namespace simt {

namespace {

// Addresses this close to a buffer are reported as outside of it, not as wild.
constexpr size_t buffer_reach = 64 * 1024;

// So many accesses without a barrier or collective mean a thread that waits for another in a loop.
constexpr uint64_t max_accesses_in_a_row = 50'000'000;

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

// Whether an access looks at memory, rather than, or before, changing it.
bool reads(AccessKind kind) { return kind != AccessKind::write && kind != AccessKind::post; }

void check_global_race(Buffer& buffer, size_t offset, size_t bytes, AccessKind kind, Site site) {
    const bool strong = kind != AccessKind::read && kind != AccessKind::write;
    const bool read = kind == AccessKind::read || kind == AccessKind::poll;
    const MemoryAccess access = access_now(strong);
    judge_each(&buffer.shadow[offset], bytes, [&](size_t byte) {
        const size_t i = offset + byte;
        MemoryByte& cell = buffer.shadow[i];
        if (const MemoryAccess* earlier = find_race(cell, read, strong, true)) {
            const unsigned threads = machine->threads_per_block();
            const unsigned block = earlier->cluster * machine->cluster_size;
            fail_at(site, "global-memory race: %s of argument %u, byte %zu, and nothing orders it "
                    "after the %s by thread %u of block %u", name_of(kind), buffer.argument, i,
                    earlier == &cell.write ? "write" : "read", earlier->thread % threads,
                    block + earlier->thread / threads);
        }
        if (read) record_read(cell, access);
        else cell.write = access;
    });
}

void check_global(Buffer& buffer, const char* address, size_t bytes, AccessKind kind, Site site) {
    const ptrdiff_t offset = address - buffer.device;
    if (offset < 0 || offset + bytes > buffer.bytes) {
        fail_at(site, "out-of-bounds global %s: %zu bytes at offset %td of argument %u, "
                "which has %zu bytes", name_of(kind), bytes, offset, buffer.argument, buffer.bytes);
    }
    const bool reads_only = kind == AccessKind::read || kind == AccessKind::poll;
    if (!reads_only && !buffer.writable) {
        fail_at(site, "write to read-only input: argument %u, byte %td", buffer.argument, offset);
    }
    if (!reads(kind)) machine->changes += 1;
    if (!buffer.initialised.empty()) {
        if (reads(kind)) check_initialised(buffer, offset, bytes, site);
        std::fill_n(buffer.initialised.begin() + offset, bytes, true);
    }
    if (buffer.writable) check_global_race(buffer, offset, bytes, kind, site);
}

// Another block's shared memory, as map_shared_rank points to it; null if it is none.
Block* find_peer(const char* address) {
    for (Block& block : machine->current->block->cluster->blocks) {
        const AddressRange saved = {block.shared.data(), block.shared.size()};
        if (saved.contains(address)) return &block;
    }
    return nullptr;
}

// Any access but to a thread's own stack.
[[gnu::noinline]] void judge_access(const char* address, size_t bytes, AccessKind kind, Site site) {
    Machine* m = machine;
    const auto shared = [&](Block& owner, const char* begin) {
        const MemoryAccess access = access_now(kind == AccessKind::atomic);
        check_shared(owner, static_cast<size_t>(address - begin), bytes, kind, access, site);
    };
    if (m->shared.segment.contains(address)) return shared(*m->live, m->shared.segment.begin);
    if (Buffer* buffer = find_buffer(address)) {
        return check_global(*buffer, address, bytes, kind, site);
    }
    if (m->image.contains(address)) return;  // constants, global variables, the built-in variables
    if (Block* peer = find_peer(address)) return shared(*peer, peer->shared.data());
    fail_at(site, "out-of-bounds %s: address %p belongs to no buffer", name_of(kind),
            static_cast<const void*>(address));
}

}  // namespace

// Most accesses are to local variables: those end here, without a stack frame.
void check_access(const void* pointer, size_t bytes, AccessKind kind, Site site) {
    Machine* m = machine;
    if (m == nullptr || !m->checking || m->current == nullptr || m->muted) return;
    if (++m->accesses_in_a_row > max_accesses_in_a_row) {
        fail_at(site, "livelock: the thread loops without a barrier or warp collective");
    }
    const char* address = static_cast<const char*>(pointer);
    if (!m->stacks.contains(address)) judge_access(address, bytes, kind, site);
    else if (m->registers != nullptr) check_registers(address, bytes, site);
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
    observe(place_);
    post(place_);
    let_others_run(place_, Site{.line = line_});
}

}  // namespace simt
