// What the machine remembers of accesses, of copies under way, and of what threads know.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace simt {

constexpr unsigned warp_width = 32;

// Who accessed a byte of memory, and when: on the machine's clock, on its lane's clock, and by its
// arrivals at the cluster's barrier.
struct MemoryAccess {
    uint32_t time = 0;  // 0: never
    uint32_t lane_clock = 0;
    uint32_t cluster_arrivals = 0;
    uint32_t cluster = 0;  // its number in the grid
    uint32_t proxy_fences = 0;  // on the machine's count of them
    uint16_t thread = 0;   // in the cluster
    bool atomic = false;
    bool pending = false;  // an asynchronous copy that its thread has not waited for
};

struct MemoryByte {
    MemoryAccess write;
    MemoryAccess read;             // the latest read
    MemoryAccess read_same_warp;   // the latest read by another lane of that warp
    MemoryAccess read_other_warp;  // the latest read by another warp
};

// The calls that a thread was in, the innermost first, as offsets in the module; 0: none.
using Calls = std::array<uint64_t, 16>;

// A copy into the block's shared memory that its thread has not waited for.
struct AsyncCopy {
    uint32_t group;
    uint32_t offset;
    uint32_t bytes;
    int line;
    Calls calls;
    std::array<char, 16> data;
};

// What a thread learns through an mbarrier or through global memory.  Blocks and clusters go by
// their numbers in the grid.
struct Knowledge {
    std::map<uint64_t, std::array<uint32_t, warp_width>> clocks;  // of the lanes of a warp
    std::map<uint32_t, uint32_t> times;           // of the barrier of a block
    std::map<uint32_t, uint32_t> cluster_phases;  // of the barrier of a cluster
    std::map<uint32_t, uint32_t> cluster_times;   // when the latest of them completed
};
using SharedKnowledge = std::shared_ptr<const Knowledge>;

struct BulkCopy {
    size_t offset;
    int line;
    Calls calls;
    std::vector<char> data;
};

struct MBarrier {
    uint32_t count = 0;    // arrivals that complete a phase
    uint32_t pending = 0;  // of them, in the current phase
    uint32_t phase = 0;    // the current one
    uint32_t seen = 0;     // the latest that somebody found complete, plus one
    uint16_t author = 0;   // the thread of the block that initialised it
    uint32_t fences = 0;   // how many there had been then, on the machine's count
    int64_t bytes_expected = 0;
    uint16_t engine = 0;   // the clock of its bulk copies, and how many have landed
    uint32_t landed = 0;
    std::vector<BulkCopy> copies;
    SharedKnowledge gathered;  // from all arrivals
    SharedKnowledge released;  // at the end of the latest phase
};

}  // namespace simt
