// What the parts of the machine offer each other, file by file.
#pragma once

#include "machine.h"

namespace simt {

// fibers.cpp: stacks and context switches.
void* prepare_stack(char* stack_end);
void resume(Thread& thread);
void suspend();
char* stack_end(const Thread& thread);
const void* suspended_frame(const Thread& thread);

// start.cpp: engines do what nobody waits for; each has a clock of its own.
uint16_t new_engine(Cluster& cluster);

// Puts a cluster, by its number in the grid, into a slot of `machine->clusters`.
void start_cluster(size_t slot, unsigned number);

// scheduler.cpp: runs every block; stops early when the machine has failed.
void run_grid(Machine& machine);
void wait(ThreadState state, Site site);
void finish_thread();

// Lets other threads run, if the place is one that threads wait for: not shared or local memory.
void let_others_run(const void* place, Site site);

// cluster.cpp
void leave_cluster(const Thread& thread);

// copies.cpp
void check_copies_done(const Thread& thread);
void start_bulk_copy(uint64_t to, std::vector<char> data, uint64_t mbarrier, const char* operation,
                     int line);

// Where the 128-byte swizzle puts what an address names.
constexpr uint64_t swizzle_128(uint64_t address) { return address ^ (address >> 7 & 7) << 4; }

// named_barriers.cpp
unsigned registers_of_launch();

// warpgroups.cpp
void check_wgmma_done(const Thread& thread);
void check_registers(const char* address, size_t bytes, Site site);

// waits.cpp: who waits for what, a line for each run of threads.
std::string describe_waits(const std::vector<Block*>& blocks);

// knowledge.cpp
constexpr uint16_t first_engine = 1 << 15;
constexpr unsigned max_engines = first_engine / warp_width;
bool by_engine(const MemoryAccess& access);
SharedKnowledge join(const SharedKnowledge& a, const SharedKnowledge& b);
// Mostly there is nothing new: then no count of references changes.
inline void learn(SharedKnowledge& known, const SharedKnowledge& more) {
    if (known != more) known = join(known, more);
}
SharedKnowledge publish(Thread& thread);
uint64_t engine_key(uint16_t engine);
bool known(const MemoryAccess& earlier, const Thread& thread);
void acquire(Thread& thread, const SharedKnowledge& knowledge);
void observe(const void* place);
void post(const void* place);

// mbarrier.cpp
void check_bulk_copies_done(const Block& block);

// collectives.cpp
void leave_warp(const Thread& thread);
void meet_warp_with(uint64_t value, void (*act)(const LaneValues&, int), int line);
template <class T>
void meet_warp(T* brought, void (*act)(const LaneValues&, int), int line) {
    meet_warp_with(reinterpret_cast<uint64_t>(brought), act, line);
}
template <class T>
T& brought_by(const LaneValues& values, unsigned lane) {
    return *reinterpret_cast<T*>(values[lane]);
}

// races.cpp
MemoryAccess access_now(bool atomic);
const MemoryAccess* find_race(const MemoryByte& cell, bool read, bool atomic, bool global);
void record_read(MemoryByte& cell, const MemoryAccess& access);

// checker.cpp
// Polls and posts are the strong reads and writes of global memory, through which threads meet.
enum class AccessKind { read, write, atomic, poll, post };
void check_access(const void* address, size_t bytes, AccessKind kind, Site site);
void check_constant(const void* address, Site site);
void check_inside_buffer(const void* address, size_t bytes, const char* operation, Site site);

// shared_checker.cpp; wgmma reads by the clock of its warpgroup's groups.
void check_shared(Block& owner, size_t offset, size_t bytes, AccessKind kind,
                  const MemoryAccess& access, Site site);
void check_engine_read(const void* address, size_t bytes, uint16_t engine, uint32_t clock, Site site);
void start_shared_copy(const void* address, size_t bytes);
void finish_shared_copy(size_t offset, size_t bytes);

// failure.cpp: the calls that a thread is in, and how a message names such.
Calls calls_of(const Thread& thread);
std::string spelled(const Calls& calls);

// record_failure keeps only the first failure; fail_at ends the running thread for good.
void record_failure(const Thread* thread, Site site, const char* format, va_list values);
void record_failure(const Thread* thread, Site site, const char* format, ...)
    __attribute__((format(printf, 3, 4)));
[[noreturn]] void fail_at(Site site, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

}  // namespace simt
