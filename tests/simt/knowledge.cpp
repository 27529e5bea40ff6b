// What threads know of one another beyond the barriers of their block and cluster: what they learn
// through mbarriers, and through flags and counters in global memory.
//
// A fence makes two promises: what the thread did before it is known to whoever then observes the
// thread's strong stores and fences in turn; and what the thread has observed it then knows.
#include <algorithm>

#include "machine.h"

namespace simt {

namespace {

// Warps go by their cluster and by their place in it; the bulk copies of an mbarrier and the products
// of a warpgroup take the place of a warp of their own, after those of all blocks.
uint64_t warp_key(uint32_t cluster, unsigned rank, unsigned thread) {
    const unsigned warps = (machine->threads_per_block() + warp_width - 1) / warp_width;
    return uint64_t{cluster} << 16 | (rank * warps + thread / warp_width);
}

template <class Key>
void raise(std::map<Key, uint32_t>& known, const std::map<Key, uint32_t>& more) {
    for (const auto& [key, value] : more) known[key] = std::max(known[key], value);
}

// Whether a map of times has an entry for the key that is later.
bool before(uint32_t time, const std::map<uint32_t, uint32_t>& times, uint32_t key) {
    const auto found = times.find(key);
    return found != times.end() && time < found->second;
}

}  // namespace

bool by_engine(const MemoryAccess& access) { return access.thread >= first_engine; }

uint64_t engine_key(uint16_t engine) {
    return uint64_t{machine->live->cluster->number} << 16 | engine;
}

SharedKnowledge join(const SharedKnowledge& a, const SharedKnowledge& b) {
    if (a == b || b == nullptr) return a;
    if (a == nullptr) return b;
    auto joined = std::make_shared<Knowledge>(*a);
    for (const auto& [warp, clocks] : b->clocks) {
        auto& lanes = joined->clocks[warp];
        for (unsigned i = 0; i < warp_width; ++i) lanes[i] = std::max(lanes[i], clocks[i]);
    }
    raise(joined->times, b->times);
    raise(joined->cluster_phases, b->cluster_phases);
    raise(joined->cluster_times, b->cluster_times);
    return joined;
}

// What the thread did until now, and what it knows.
SharedKnowledge publish(Thread& thread) {
    const Block& block = *thread.block;
    const Cluster& cluster = *block.cluster;
    auto own = std::make_shared<Knowledge>();
    own->clocks[warp_key(cluster.number, block.rank, thread.index)] = thread.seen;
    own->times[cluster.number * machine->cluster_size + block.rank] = block.barrier_time;
    if (thread.cluster_known) {
        own->cluster_phases[cluster.number] = thread.cluster_known;
        own->cluster_times[cluster.number] = cluster.phase_times[thread.cluster_known - 1];
    }
    thread.seen[thread.lane()] += 1;
    return join(own, thread.acquired);
}

bool known(const MemoryAccess& earlier, const Thread& thread) {
    if (thread.acquired == nullptr) return false;
    const Knowledge& all = *thread.acquired;
    uint64_t warp = engine_key(earlier.thread);
    unsigned lane = 0;
    if (!by_engine(earlier)) {
        const unsigned rank = earlier.thread / machine->threads_per_block();
        const unsigned index = earlier.thread % machine->threads_per_block();
        if (before(earlier.time, all.times, earlier.cluster * machine->cluster_size + rank)) {
            return true;
        }
        // Within a cluster, phases say it exactly; here, what came after an arrival counts too.
        const bool foreign = earlier.cluster != thread.block->cluster->number;
        if (foreign && before(earlier.time, all.cluster_times, earlier.cluster)) return true;
        warp = warp_key(earlier.cluster, rank, index);
        lane = index % warp_width;
    }
    const auto clocks = all.clocks.find(warp);
    return clocks != all.clocks.end() && earlier.lane_clock <= clocks->second[lane];
}

// The thread knows from now on what others have gathered.
void acquire(Thread& thread, const SharedKnowledge& knowledge) {
    thread.acquired = join(thread.acquired, knowledge);
    if (knowledge == nullptr) return;
    const auto own = knowledge->cluster_phases.find(thread.block->cluster->number);
    if (own == knowledge->cluster_phases.end()) return;
    thread.cluster_known = std::max(thread.cluster_known, own->second);
}

void observe(const void* place) {
    if (!machine->checking || machine->current == nullptr) return;
    const auto found = machine->posted.find(place);
    if (found == machine->posted.end()) return;
    Thread& thread = *machine->current;
    thread.observed = join(thread.observed, found->second);
}

void post(const void* place) {
    if (!machine->checking || machine->current->fenced == nullptr) return;
    SharedKnowledge& posted = machine->posted[place];
    posted = join(posted, machine->current->fenced);
}

// What this thread has written until now, or has come to know, bulk copies and wgmma may read.
void proxy_fence() {
    mbarrier_fence();
    machine->current->proxy_fence = machine->proxy_fences;
}

// The mbarriers that it has initialised bulk copies may complete on.
void mbarrier_fence() { machine->current->mbarrier_fence = ++machine->proxy_fences; }

void fence() {
    if (!machine->checking) return;
    Thread& thread = *machine->current;
    thread.acquired = join(thread.acquired, thread.observed);
    thread.fenced = publish(thread);
}

}  // namespace simt
