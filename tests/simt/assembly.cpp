// Memory as assembly instructions address it: by state space, and shared memory by 32-bit addresses.
#include <cstring>

#include "machine.h"

namespace simt {

namespace {

// A shared address is an offset into the window, above what the system reserves: that zero is no
// address catches truncated pointers.  An address of another block carries its rank.
constexpr uint64_t shared_base = 1024;
constexpr int rank_shift = 24;
constexpr uint64_t offset_mask = (uint64_t{1} << rank_shift) - 1;

void* locate_shared(uint64_t address, bool in_cluster, int line) {
    const Machine& m = *machine;
    const uint64_t offset = (address & offset_mask) - shared_base;
    const uint64_t tag = address >> rank_shift;  // 0: the block's own
    if (offset >= m.shared.used_bytes() || tag > m.cluster_size) {
        fail(line, "no shared memory at address %#llx: addresses come from "
             "__cvta_generic_to_shared or mapa", static_cast<unsigned long long>(address));
    }
    if (tag == 0) return m.shared.segment.begin + offset;
    void* pointer = map_shared_rank(m.shared.segment.begin + offset, tag - 1, line);
    if (!in_cluster && !m.shared.segment.contains(pointer)) {
        fail(line, "address of another block's shared memory: shared::cluster is the state space");
    }
    return pointer;
}

}  // namespace

uint32_t shared_address(const void* pointer, int line) {
    if (!machine->shared.segment.contains(pointer)) {
        fail(line, "__cvta_generic_to_shared: not this block's shared memory");
    }
    return static_cast<const char*>(pointer) - machine->shared.segment.begin + shared_base;
}

void* shared_pointer(uint64_t address, int line) { return locate_shared(address, false, line); }

uint32_t map_shared_address(uint32_t address, unsigned rank, int line) {
    locate_shared(address, false, line);
    if (rank >= machine->cluster_size) fail(line, "mapa: no rank %u in the cluster", rank);
    return (address & offset_mask) | (rank + 1) << rank_shift;
}

void* locate(Space space, uint64_t address, int line) {
    if (space == Space::shared_cta || space == Space::shared_cluster) {
        return locate_shared(address, space == Space::shared_cluster, line);
    }
    void* pointer = reinterpret_cast<void*>(address);
    const Machine& m = *machine;
    const bool elsewhere = m.shared.segment.contains(pointer) || m.stacks.contains(pointer);
    if (space == Space::global && elsewhere) {
        fail(line, "address %p is shared or local memory: the state space is global", pointer);
    }
    return pointer;
}

void assembly_load(void* to, size_t bytes, Access how, uint64_t address, int line) {
    const Site site = {.line = line};
    const void* from = locate(how.space, address, line);
    require_aligned(from, bytes, "ld", line);
    check_access(from, bytes, how.strong ? AccessKind::poll : AccessKind::read, site);
    if (how.constant) check_constant(from, site);
    if (how.strong) let_others_run(from, site);
    memcpy(to, from, bytes);
    if (how.strong) observe(from);
}

void assembly_store(const void* from, size_t bytes, Access how, uint64_t address, int line) {
    void* to = locate(how.space, address, line);
    require_aligned(to, bytes, "st", line);
    const AccessKind kind = how.strong ? AccessKind::post : AccessKind::write;
    check_access(to, bytes, kind, Site{.line = line});
    machine->changes += 1;
    memcpy(to, from, bytes);
    if (how.strong) post(to);
    if (how.strong) let_others_run(to, Site{.line = line});
}

void prefetch(uint64_t address, uint64_t bytes, int line) {
    const void* pointer = locate(Space::global, address, line);
    check_inside_buffer(pointer, bytes, "prefetch", Site{.line = line});
}

}  // namespace simt
