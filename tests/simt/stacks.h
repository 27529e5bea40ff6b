// The stacks of threads. A process keeps them from launch to launch (executor.py), whatever the
// module: making and clearing their pages would take longer than most kernels run.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

// No power of two: stacks that lie so are all in the same few sets of a processor's caches, and
// every switch between threads reads memory.
constexpr size_t stack_bytes = 33 * 4096;

// A word of a stack, which may be a register that wgmma works on. The numbers of threads that start
// later begin above those that are here.
struct RegisterWord {
    uint32_t touched = 0;  // how many fences its thread had passed when it last did so, plus one
    uint32_t group = 0;    // the latest group with a product that works on it
};

// Shared with executor.py, which mirrors it.
struct Stacks {
    char* begin;              // each above an inaccessible page; null: there are none
    RegisterWord* registers;  // of all words
    size_t threads;
    uint32_t latest;          // the greatest number in `registers`
};

}  // namespace simt
