// The simulated machine: what scheduler, checker and launcher share.
//
// One launch runs at a time per module.  Its blocks (or clusters of blocks) run one after another,
// or all together; threads are fibers on one CPU thread, which switch only where they have to wait.
#pragma once

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "records.h"
#include "runtime.h"
#include "stacks.h"

namespace simt {

struct Block;
struct Cluster;

enum class ThreadState {
    ready, yielded, at_block_barrier, at_named_barrier, at_cluster_barrier, at_collective, exited
};

// What a thread waits for, where its state does not say it.
struct Waiting {
    enum For { nothing, mbarrier, named_barrier, registers, warpgroup } what = nothing;
    size_t place = 0;    // of an mbarrier: its offset; else a number
    uint32_t phase = 0;  // of an mbarrier: the parity
};

// Where the kernel does something: known as a line, or as an instruction.
struct Site {
    int line = 0;
    const void* instruction = nullptr;
};

struct Thread {
    ThreadContext context;
    Block* block;
    unsigned index;          // in the block
    unsigned cluster_index;  // in the cluster
    char* stack;
    void* stack_pointer;     // while it does not run
    ThreadState state;
    Site site;               // of the call it waits in
    const void* polled;      // where it looked when it last let others run
    Waiting waits_for;

    std::vector<AsyncCopy> copies;
    uint32_t copy_groups;    // how many it has committed

    // Of the cluster's barrier: one entry for each arrival, whether it releases what came before;
    // how often the thread has waited; and how many phases it knows of, from waits or from others.
    std::vector<bool> cluster_arrivals;
    uint32_t cluster_waits;
    uint32_t cluster_known;

    uint32_t wgmma_start;        // from where both of these count
    uint32_t wgmma_fences;       // how many it has passed
    uint32_t wgmma_groups_done;  // of those of its warpgroup that it has waited for
    uint32_t proxy_fence;        // when it passed the latest, by the machine's count of them
    uint32_t mbarrier_fence;     // likewise, or one for mbarriers

    SharedKnowledge acquired;  // null at first, as the others
    SharedKnowledge observed;  // by relaxed loads: it counts from the next fence on
    SharedKnowledge fenced;    // what relaxed stores pass on since the latest fence

    // A vector clock over the lanes of the warp: how far this thread has seen each lane advance.
    // The own entry counts the collectives it took part in.
    std::array<uint32_t, warp_width> seen;

    unsigned lane() const { return index % warp_width; }
    unsigned lane_bit() const { return 1u << lane(); }
};

enum class Collective { sync, shuffle, vote, match, reduce, matrix };
using LaneValues = std::array<uint64_t, warp_width>;

// Where the lanes of one mask meet.  A lane may enter the next round before a slower one has read
// the values of this one, so two rounds alternate.
struct Rendezvous {
    unsigned mask = 0;
    unsigned arrived = 0;
    Collective kind = Collective::sync;
    int line = 0;
    unsigned round = 0;
    std::array<LaneValues, 2> values{};
};

struct Warp {
    Thread* threads = nullptr;  // its lanes lie side by side
    unsigned present = 0;       // lanes that exist
    unsigned exited = 0;
    unsigned registers = 0;     // of a thread
    std::deque<Rendezvous> rendezvous;  // one for each mask; references stay valid
};

struct NamedBarrier {
    unsigned expected = 0, arrived = 0;
    std::vector<bool> there;  // by thread
    std::vector<Thread*> waiting;
    SharedKnowledge gathered;
};

// What four warps multiply together (wgmma).
struct Warpgroup {
    uint16_t engine = 0;               // reads matrices in shared memory, by the clock of its groups
    std::array<uint32_t, 4> issued{};  // products, by warp
    std::array<uint32_t, 4> committed{};  // groups, counted from `wgmma_start` of the threads
    std::array<bool, 4> open{};           // has it issued since?
    std::deque<Wgmma> products;  // those that not all warps have issued
    uint32_t before = 0;         // products that are no longer there
};

struct FreeDeleter {
    void operator()(void* pointer) const { std::free(pointer); }
};

struct Block {
    Cluster* cluster = nullptr;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    unsigned rank = 0;  // in the cluster
    unsigned slowness = 1;  // it runs in one of so many rounds
    unsigned exited = 0;
    unsigned at_barrier = 0;
    int barrier_line = 0;
    unsigned barrier_votes = 0;
    BarrierVotes barrier_result{};
    uint32_t start_time = 0;
    uint32_t barrier_time = 0;  // of the latest release
    std::vector<char> shared;   // the shared memory, while another block of the cluster is live
    // Zero pages until touched, and kept from block to block.
    std::unique_ptr<MemoryByte[], FreeDeleter> shadow;
    // By thread of the cluster: the arrivals, plus one, at its latest access from another block.
    std::vector<uint32_t> remote_accesses;
    std::map<size_t, MBarrier> mbarriers;  // by offset in the shared memory
    std::array<NamedBarrier, 16> named;
    std::vector<Warpgroup> warpgroups;
    unsigned registers_free = 0;  // each one of a warp's 32 lanes
};

struct Cluster {
    std::vector<Block> blocks;
    uint32_t number = 0;   // in the grid
    unsigned arrived = 0;  // threads, in the current phase of the barrier
    uint32_t phases = 0;   // completed
    std::vector<uint32_t> phase_times;
    unsigned engines = 0;  // of mbarriers and of warpgroups
};

// A kernel's buffer, copied between two inaccessible guard zones.
struct Buffer {
    unsigned argument;
    char* host;
    char* device;
    size_t bytes;
    bool writable;
    std::vector<bool> initialised;  // by byte; empty if all are
    std::unique_ptr<MemoryByte[], FreeDeleter> shadow;  // of a writable one
};

// What went wrong first, in the form the launcher's caller reads.
struct Failure {
    char text[4096];
    int has_thread;
    unsigned block[3];
    unsigned thread[3];
    int line;              // 0: unknown
    uint64_t instruction;  // offset in the module, 0: unknown
    Calls callers;         // that led there
};

struct AddressRange {
    char* begin = nullptr;
    size_t bytes = 0;
    bool contains(const void* pointer) const {
        return static_cast<size_t>(static_cast<const char*>(pointer) - begin) < bytes;
    }
};

// The module's thread-local segment.  The dynamic array comes last.
struct SharedWindow {
    AddressRange segment;
    size_t dynamic_offset = 0;
    size_t dynamic_bytes = 0;
    std::vector<bool> foreign;  // static bytes: do they belong to other sources? Empty: none does
    size_t used_bytes() const { return dynamic_offset + dynamic_bytes; }
};

struct Machine {
    dim3 grid;
    dim3 block;
    unsigned cluster_size = 1;
    bool checking = true;
    bool shuffling = false;
    bool together = false;
    std::mt19937_64 random;
    void (*kernel)(void**) = nullptr;
    void** arguments = nullptr;

    AddressRange image;  // the module: its constants and global variables
    AddressRange stacks;
    RegisterWord* registers = nullptr;  // of all stacks; null where nothing multiplies by wgmma
    uint32_t* latest_wgmma = nullptr;   // the greatest number in any of them
    SharedWindow shared;
    std::vector<Buffer> buffers;
    std::unordered_map<const void*, SharedKnowledge> posted;  // by place in global memory

    std::vector<Cluster> clusters;  // those that run now
    Block* live = nullptr;       // the one whose shared memory is in the window
    Thread* current = nullptr;   // null while the scheduler runs
    uint32_t time = 1;           // advances when a barrier is released and when a cluster starts
    uint64_t changes = 0;        // what others may have waited for: writes, barriers, exits
    uint64_t turns = 0;          // of threads that could run, so far
    std::clock_t began = 0;      // when the first had its turn
    uint64_t looks = 0;          // polls of another place than the thread's last
    uint64_t clock = 0;          // looks at the time so far
    uint32_t proxy_fences = 0;   // so far
    bool muted = false;          // inside an atomic operation
    uint64_t accesses_in_a_row = 0;  // since the current thread was resumed

    bool failed = false;
    Failure* failure = nullptr;

    unsigned threads_per_block() const { return block.x * block.y * block.z; }
};

// The running launch, or null.
extern Machine* machine;

}  // namespace simt

#include "parts.h"
