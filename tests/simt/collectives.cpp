// Warp collectives: the lanes of a mask meet, exchange values, and go on.
#include <algorithm>

#include "machine.h"

namespace simt {

namespace {

Warp& warp_of(const Thread& thread) { return thread.block->warps[thread.index / warp_width]; }

Rendezvous& find_rendezvous(Warp& warp, unsigned mask) {
    for (Rendezvous& candidate : warp.rendezvous) {
        if (candidate.mask == mask) return candidate;
    }
    warp.rendezvous.emplace_back().mask = mask;
    return warp.rendezvous.back();
}

const char* name_of(Collective kind) {
    switch (kind) {
        case Collective::sync: return "__syncwarp";
        case Collective::shuffle: return "a shuffle";
        case Collective::vote: return "a vote";
        case Collective::match: return "a match";
        case Collective::reduce: return "a reduction";
        case Collective::matrix: return "a matrix instruction";
    }
    return "a collective";
}

// Everything a lane of the mask did before the collective happens before what any does after it.
void merge_clocks(Warp& warp, unsigned mask) {
    std::array<uint32_t, warp_width> merged{};
    uint32_t cluster_known = 0;
    SharedKnowledge acquired, fenced;
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        if (!(mask >> lane & 1)) continue;
        const Thread& thread = warp.threads[lane];
        cluster_known = std::max(cluster_known, thread.cluster_known);
        learn(acquired, thread.acquired);
        learn(fenced, thread.fenced);
        for (unsigned i = 0; i < warp_width; ++i) merged[i] = std::max(merged[i], thread.seen[i]);
    }
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        if (!(mask >> lane & 1)) continue;
        Thread& thread = warp.threads[lane];
        thread.seen = merged;
        thread.seen[lane] += 1;
        thread.cluster_known = cluster_known;
        if (thread.acquired != acquired) thread.acquired = acquired;
        if (thread.fenced != fenced) thread.fenced = fenced;
    }
}

void release_rendezvous(Warp& warp, Rendezvous& rendezvous) {
    rendezvous.arrived = 0;
    rendezvous.round ^= 1;
    machine->changes += 1;
    merge_clocks(warp, rendezvous.mask);
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        if (rendezvous.mask >> lane & 1) warp.threads[lane].state = ThreadState::ready;
    }
}

void check_mask(const Warp& warp, unsigned mask, Collective kind, int line) {
    if (!(mask & machine->current->lane_bit())) {
        fail(line, "divergent warp collective: lane %u calls %s outside its mask %08x",
             lane_id(), name_of(kind), mask);
    }
    if (mask & warp.exited) {
        fail(line, "divergent warp collective: lanes %08x of the mask %08x of %s have exited",
             mask & warp.exited, mask, name_of(kind));
    }
}

// Waits for all lanes of the mask and returns the values they brought, indexed by lane.  The last to
// come acts for all of them, if there is something to do.
const LaneValues& exchange(unsigned mask, Collective kind, uint64_t value, int line,
                           void (*act)(const LaneValues&, int) = nullptr) {
    Thread& thread = *machine->current;
    Warp& warp = warp_of(thread);
    mask &= warp.present;  // a full mask is right in the last, partial warp too
    check_mask(warp, mask, kind, line);
    Rendezvous& rendezvous = find_rendezvous(warp, mask);
    if (!rendezvous.arrived) {
        rendezvous.kind = kind;
        rendezvous.line = line;
    } else if (rendezvous.kind != kind || rendezvous.line != line) {
        fail(line,
             "divergent warp collective: lane %u calls %s, but lanes %08x of the same mask %08x "
             "wait in %s of line %d",
             thread.lane(), name_of(kind), rendezvous.arrived, mask, name_of(rendezvous.kind),
             rendezvous.line);
    }
    auto& values = rendezvous.values[rendezvous.round];
    values[thread.lane()] = value;
    rendezvous.arrived |= thread.lane_bit();
    if (rendezvous.arrived == mask) {
        release_rendezvous(warp, rendezvous);
        if (act != nullptr) act(values, line);
    } else {
        wait(ThreadState::at_collective, Site{.line = line});
    }
    return values;
}

}  // namespace

// The lane counts as exited from now on.
void leave_warp(const Thread& thread) {
    Warp& warp = warp_of(thread);
    for (const Rendezvous& rendezvous : warp.rendezvous) {
        if (rendezvous.arrived && (rendezvous.mask & thread.lane_bit())) {
            fail(rendezvous.line,
                 "divergent warp collective: lane %u exits while lanes %08x of the mask %08x wait "
                 "in %s",
                 thread.lane(), rendezvous.arrived, rendezvous.mask, name_of(rendezvous.kind));
        }
    }
    warp.exited |= thread.lane_bit();
}

unsigned lane_id() { return machine->current->lane(); }

void meet_warp_with(uint64_t value, void (*act)(const LaneValues&, int), int line) {
    const unsigned present = warp_of(*machine->current).present;
    if (present != ~0u) {
        fail(line, "a matrix instruction needs a whole warp: this one has %d lanes",
             __builtin_popcount(present));
    }
    exchange(~0u, Collective::matrix, value, line, act);
}

void warp_sync(unsigned mask, int line) { exchange(mask, Collective::sync, 0, line); }

unsigned warp_ballot(unsigned mask, bool predicate, int line) {
    const auto& votes = exchange(mask, Collective::vote, predicate, line);
    unsigned ballot = 0;
    mask &= warp_of(*machine->current).present;
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        if (mask >> lane & 1) ballot |= static_cast<unsigned>(votes[lane]) << lane;
    }
    return ballot;
}

unsigned warp_match(unsigned mask, uint64_t bits, int line) {
    const auto& values = exchange(mask, Collective::match, bits, line);
    unsigned equal = 0;
    mask &= warp_of(*machine->current).present;
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        if ((mask >> lane & 1) && values[lane] == bits) equal |= 1u << lane;
    }
    return equal;
}

uint64_t warp_shuffle(unsigned mask, uint64_t bits, int source_lane, int line) {
    const auto& values = exchange(mask, Collective::shuffle, bits, line);
    mask &= warp_of(*machine->current).present;
    if (source_lane < 0 || !(mask >> source_lane & 1)) {
        fail(line, "lane outside mask: lane %u shuffles from lane %d, the mask is %08x", lane_id(),
             source_lane, mask);
    }
    return values[source_lane];
}

uint64_t warp_reduce(unsigned mask, uint64_t bits, uint64_t (*combine)(uint64_t, uint64_t),
                     int line) {
    const auto& values = exchange(mask, Collective::reduce, bits, line);
    const unsigned own = machine->current->lane();
    mask &= warp_of(*machine->current).present;
    uint64_t result = values[own];
    for (unsigned lane = 0; lane < warp_width; ++lane) {
        if ((mask >> lane & 1) && lane != own) result = combine(result, values[lane]);
    }
    return result;
}

}  // namespace simt
