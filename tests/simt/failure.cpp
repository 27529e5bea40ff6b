// Recording what went wrong.  Only the first failure counts: it ends the launch.
#include <cstdio>

#include "machine.h"

namespace simt {

// Follows the frames of a thread: neither kernels nor the executor omit their pointers.  After a fault
// some may be overwritten, so that what they say is believed only as far as it can be read.
Calls calls_of(const Thread& thread) {
    constexpr size_t frame_bytes = 2 * sizeof(void*), most_frames = 64, guard = 4096;
    const AddressRange frames = {thread.stack + guard, stack_bytes - guard - frame_bytes};
    const void* start = __builtin_frame_address(0);
    if (&thread != machine->current) start = suspended_frame(thread);
    Calls calls{};
    size_t count = 0;
    auto frame = static_cast<void* const*>(start);
    for (size_t i = 0; i < most_frames && count < calls.size() && frames.contains(frame); ++i) {
        const char* back = static_cast<const char*>(frame[1]);
        if (machine->image.contains(back)) calls[count++] = back - 1 - machine->image.begin;
        frame = static_cast<void* const*>(frame[0]);
    }
    return calls;
}

// executor.py puts the lines of these calls there.
std::string spelled(const Calls& calls) {
    std::string result = "<";
    for (size_t i = 0; i < calls.size() && calls[i] != 0; ++i) {
        char offset[24];
        snprintf(offset, sizeof offset, "%llx,", static_cast<unsigned long long>(calls[i]));
        result += offset;
    }
    return result + ">";
}

void record_failure(const Thread* thread, Site site, const char* format, va_list values) {
    if (machine->failed) return;
    machine->failed = true;
    Failure& failure = *machine->failure;
    vsnprintf(failure.text, sizeof failure.text, format, values);
    failure.line = site.line;
    if (machine->image.contains(site.instruction)) {
        failure.instruction = static_cast<const char*>(site.instruction) - machine->image.begin;
    }
    if (thread == nullptr) return;
    failure.callers = calls_of(*thread);
    const uint3 block = thread->context.block_index;
    const uint3 index = thread->context.thread_index;
    failure.has_thread = 1;
    failure.block[0] = block.x, failure.block[1] = block.y, failure.block[2] = block.z;
    failure.thread[0] = index.x, failure.thread[1] = index.y, failure.thread[2] = index.z;
}

void record_failure(const Thread* thread, Site site, const char* format, ...) {
    va_list values;
    va_start(values, format);
    record_failure(thread, site, format, values);
    va_end(values);
}

namespace {

// The fiber stays suspended for ever; its stack is freed with the others.
[[noreturn]] void abandon_thread() {
    suspend();
    std::abort();
}

}  // namespace

void fail_at(Site site, const char* format, ...) {
    va_list values;
    va_start(values, format);
    record_failure(machine->current, site, format, values);
    va_end(values);
    abandon_thread();
}

void fail(int line, const char* format, ...) {
    va_list values;
    va_start(values, format);
    record_failure(machine->current, Site{.line = line}, format, values);
    va_end(values);
    abandon_thread();
}

}  // namespace simt
