// Barriers of some of a block's warps, by number (bar.sync, bar.arrive), and the registers that warps
// give each other (setmaxnreg).
#include <algorithm>

#include "machine.h"

namespace simt {

namespace {

void release(NamedBarrier& barrier) {
    machine->changes += 1;
    for (Thread* thread : barrier.waiting) {
        thread->state = ThreadState::ready;
        acquire(*thread, barrier.gathered);
    }
    barrier = {};
}

void check_count(const NamedBarrier& barrier, unsigned number, unsigned threads, int line) {
    const unsigned all = machine->threads_per_block();
    if (number == 0 || number > 15) {
        fail(line, "no named barrier %u: they are 1 to 15, and 0 is that of __syncthreads", number);
    }
    if (threads == 0 || threads % warp_width || threads > all) {
        fail(line, "named barrier %u: %u threads are no whole warps of a block of %u", number,
             threads, all);
    }
    if (barrier.arrived && barrier.expected != threads) {
        fail(line, "named barrier %u: %u threads here, but those that are there expect %u", number,
             threads, barrier.expected);
    }
    if (barrier.arrived && barrier.there[machine->current->index]) {
        fail(line, "named barrier %u: arrives again, and %u of %u threads are there", number,
             barrier.arrived, barrier.expected);
    }
}

Warp& own_warp() {
    const Thread& thread = *machine->current;
    return thread.block->warps[thread.index / warp_width];
}

void check_same(const LaneValues& values, int line) {
    for (const uint64_t value : values) {
        if (value != values[0]) fail(line, "setmaxnreg: lanes ask for different numbers");
    }
}

}  // namespace

void named_barrier(unsigned number, unsigned threads, bool waits, int line) {
    Thread& thread = *machine->current;
    NamedBarrier& barrier = thread.block->named[number % 16];
    check_count(barrier, number, threads, line);
    barrier.expected = threads;
    barrier.there.resize(machine->threads_per_block());
    barrier.there[thread.index] = true;
    barrier.gathered = join(barrier.gathered, publish(thread));
    if (waits) barrier.waiting.push_back(&thread);
    if (++barrier.arrived == threads) {
        release(barrier);
    } else if (waits) {
        thread.waits_for = {Waiting::named_barrier, number, 0};
        wait(ThreadState::at_named_barrier, Site{.line = line});
    }
}

// A block begins with as many registers a thread as the launch could give it.
unsigned registers_of_launch() {
    constexpr unsigned registers = 65536, most = 256;
    return std::min(registers / machine->threads_per_block() / 8 * 8, most);
}

void set_registers(unsigned count, bool more, int line) {
    meet_warp_with(count, check_same, line);
    Thread& thread = *machine->current;
    Block& block = *thread.block;
    Warp& warp = own_warp();
    if (count % 8 || count < 24 || count > 256) {
        fail(line, "setmaxnreg: %u registers are not 24, 32 ... 256", count);
    }
    if (warp.registers != count && (warp.registers < count) != more) {
        fail(line, "setmaxnreg.%s: to %u registers from %u", more ? "inc" : "dec", count,
             warp.registers);
    }
    while (warp.registers != count) {
        const unsigned free = block.registers_free + warp.registers;  // each for the warp's lanes
        if (free >= count) {
            block.registers_free = free - count;
            warp.registers = count;
            machine->changes += 1;
        } else {
            thread.waits_for = {Waiting::registers, count, 0};
            yield(line);
        }
    }
}

}  // namespace simt
