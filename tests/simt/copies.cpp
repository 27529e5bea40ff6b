// Asynchronous copies from global to shared memory (cp.async).
//
// A copy takes effect when its thread waits for it.  Until then whoever touches the place fails;
// afterwards it counts as written by that thread, at the time of the wait.
#include <algorithm>
#include <cstring>

#include "machine.h"

namespace simt {

namespace {

// Takes effect of all copies in the groups before `end`.
void finish_copies(uint32_t end) {
    Thread& thread = *machine->current;
    const auto done = [end](const AsyncCopy& copy) { return copy.group < end; };
    for (const AsyncCopy& copy : thread.copies) {
        if (!done(copy)) continue;
        memcpy(machine->shared.segment.begin + copy.offset, copy.data.data(), copy.bytes);
        if (machine->checking) finish_shared_copy(copy.offset, copy.bytes);
    }
    std::erase_if(thread.copies, done);
}

}  // namespace

void copy_async(uint32_t to, uint64_t from, uint32_t least, uint32_t bytes, uint32_t read,
                int line) {
    Thread& thread = *machine->current;
    const Site site = {.line = line};
    if (bytes < least || (bytes != 4 && bytes != 8 && bytes != 16)) {
        fail(line, "cp.async.%s cannot copy %u bytes", least == 16 ? "cg" : "ca", bytes);
    }
    char* target = static_cast<char*>(locate(Space::shared_cta, to, line));
    const void* source = locate(Space::global, from, line);
    if (read > bytes) fail(line, "cp.async: reads %u bytes for a copy of %u", read, bytes);
    require_aligned(target, bytes, "cp.async", line);
    require_aligned(source, bytes, "cp.async", line);
    if (read) check_access(source, read, AccessKind::read, site);
    check_access(target, bytes, AccessKind::write, site);
    if (machine->checking) start_shared_copy(target, bytes);
    const size_t offset = target - machine->shared.segment.begin;
    const Calls calls = machine->checking ? calls_of(thread) : Calls{};
    AsyncCopy copy = {thread.copy_groups, static_cast<uint32_t>(offset), bytes, line, calls, {}};
    memcpy(copy.data.data(), source, read);  // the rest is zero
    thread.copies.push_back(copy);
}

void commit_copies() { machine->current->copy_groups += 1; }

void wait_copies(uint32_t groups_left) {
    const uint32_t groups = machine->current->copy_groups;
    finish_copies(groups - std::min(groups, groups_left));
}

void wait_all_copies() { finish_copies(machine->current->copy_groups + 1); }

void check_copies_done(const Thread& thread) {
    if (thread.copies.empty()) return;
    fail(thread.copies.front().line, "exits without waiting for its asynchronous copy (cp.async)");
}

}  // namespace simt
