#pragma once
// A list of the K best candidates while a row is streamed.

#include <fusegen/topk/select.cuh>

namespace fusegen {

// As many as are wanted, and a few: what may come with them.
__device__ __forceinline__ int with_slack(int wanted) { return wanted + wanted / 8 + 1; }

// Where the candidates of a list are kept.
template <typename Key, int kSlots>
struct InShared {
    Key slots[kSlots];
};
template <typename Key, int kSlots>
struct InDevice {
    Key* slots;
};

// Candidates for the k best of a row. Whatever is below the threshold is not among the k best, for k
// elements of the row are not below it; the others find a slot as they come. When many have come, the
// threshold is raised to about the k-th best of them, and those below it go.
// Plan says how many: the k that are wanted (kK); slots; candidates that a cut leaves, at most (kKept:
// exactly k would take more time), and that make it time to cut (kCutAt); those that are put in order without
// a histogram (kCountable), and of each of its bins (kFullBin); bits of bins (kBinBits).
template <typename LayoutType, int kVectorCount, typename KeysType, typename Plan,
          template <typename, int> class Memory>
struct KBest : Memory<typename KeysType::Key, Plan::kSlots>, Plan {
    typedef LayoutType Layout;
    typedef typename Layout::Team Team;
    typedef KeysType Keys;
    typedef typename Keys::Key Key;
    typedef typename Keys::Column Column;
    static constexpr int kTeam = Team::kThreads, kWidth = Layout::kWidth;
    static constexpr int kVectors = kVectorCount, kItems = kVectors * kWidth;  // of a thread's part of a tile
    static constexpr int kBlocks = 1;  // that share a row and tell one another what they find
    static constexpr int kSorted = Plan::kK + Plan::kFullBin > Plan::kKept ? Plan::kK + Plan::kFullBin : Plan::kKept;
    // Where candidates are sorted to: behind those that are sorted.
    static constexpr int kBeside = Plan::kSlots - (kSorted > Plan::kCountable ? kSorted : Plan::kCountable);
    // Is a tile's threshold among its threads' best?
    static constexpr bool kByPeaks = 2 * Plan::kK <= kTeam && kTeam <= 1 << Plan::kBinBits;
    static_assert(Plan::kKept <= kBeside, "no room to sort");
    static_assert(Plan::kCutAt + 2 * kWidth <= Plan::kSlots, "no room for elements at the edges");

    Key threshold;
    Column known;  // vectors of the row among which the k are that the threshold is for
    int count;     // candidates offered; those beyond the slots were turned away and come again
    int kept;
    Tally<Team, Plan::kBinBits> tally;
};

// A tile of a row: the vectors of a team's threads, kVectors of each, from number `first` on. `begin` and
// `end` are those of the row, or of the team's part of it; `live` of this thread's vectors lie before the end.
template <typename Column>
struct Tile {
    Column begin, end, first;
    int live, rank;
};

template <typename List>
__device__ __forceinline__ void clear(List& list, int rank)
{
    if (rank == 0) {
        list.threshold = {};
        list.known = 0;
        list.count = 0;
    }
}

// Raises the threshold to what the k best reach that are among the row's first `known` vectors. Every thread of
// the team takes part, after a barrier.
template <typename List>
__device__ __forceinline__ void raise_to(
    List& list, const typename List::Key& threshold, typename List::Column known, int rank)
{
    if (rank == 0 && list.threshold < threshold) {
        list.threshold = threshold;
        list.known = known;
    }
    List::Team::sync();
}

// Drops those of `count` candidates that are below a threshold. Every thread of the team takes part, after a
// barrier.
template <typename List>
__device__ __forceinline__ void drop_below(
    List& list, const typename List::Key& threshold, int count, int rank)
{
    typedef typename List::Key Key;
    constexpr int kBatch = 4;
    if (rank == 0) list.kept = 0;
    for (int first = 0; first < count; first += kBatch * List::kTeam) {
        Key held[kBatch];
        unsigned stays = 0;
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int j = first + b * List::kTeam + rank;
            if (j >= count) continue;
            held[b] = list.slots[j];
            if (!(held[b] < threshold)) stays |= 1u << b;
        }
        List::Team::sync();  // what follows goes to slots that were read
        if (stays == 0) continue;
        int place = atomicAdd(&list.kept, __popc(stays));
#pragma unroll
        for (int b = 0; b < kBatch; ++b)
            if (stays >> b & 1) list.slots[place++] = held[b];
    }
    List::Team::sync();
    if (rank == 0) list.count = list.kept;
}

// Raises the threshold to about the k-th best candidate. Every thread of the team takes part, after a barrier.
template <typename List>
__device__ __noinline__ void cut(List& list, int rank)
{
    typedef typename List::Key Key;
    const int count = list.count < List::kSlots ? list.count : List::kSlots;  // others were turned away
    Key threshold = select(list.slots, count, List::kK, List::kKept, list.tally, rank);
    const bool here = !(threshold < list.threshold);  // or is the k-th best still to come?
    if (!here) threshold = list.threshold;
    drop_below(list, threshold, count, rank);
    if (rank == 0) {
        list.threshold = threshold;
        if (here) list.known = 0;
    }
    List::Team::sync();
}

__device__ __forceinline__ int last_bit(unsigned bits) { return 31 - __clz(bits); }

// Those of a thread's pending items (a bit each) whose keys are not below the threshold.
template <typename Key, typename KeyOf>
__device__ __forceinline__ unsigned reaching(unsigned pending, const Key& threshold, const KeyOf& key_of)
{
    unsigned reach = pending;
#pragma unroll 1
    for (; pending != 0; pending &= pending - 1)
        if (key_of(__ffs(pending) - 1) < threshold) reach &= ~(pending & -pending);
    return reach;
}

enum Offered { kTaken, kCut, kTooMany };

// Adds this thread's pending items, at one atomic for all of them; `last` is the key of the last one. A
// crowded list is cut; if there is no room for all, it is left as it was. Every thread of the team takes
// part; they agree on the result. The candidates are there after a barrier.
template <typename List, typename KeyOf>
__device__ __forceinline__ Offered offer(
    List& list, unsigned pending, const typename List::Key& last, int rank, const KeyOf& key_of)
{
    const int mine = __popc(pending);
    int place = mine > 0 ? atomicAdd(&list.count, mine) : 0;
    // The count itself may not be read: who is ahead offers already what comes next.
    const bool crowded = List::Team::any(place + mine > List::kCutAt);
    if (crowded && List::Team::any(place + mine > List::kSlots)) {
        if (mine > 0) atomicSub(&list.count, mine);
        List::Team::sync();
        return kTooMany;
    }
    if (pending != 0) {
        list.slots[place] = last;
#pragma unroll 1
        for (pending ^= 1u << last_bit(pending); pending != 0; pending &= pending - 1)
            list.slots[++place] = key_of(__ffs(pending) - 1);
    }
    if (!crowded) return kTaken;
    List::Team::sync();
    cut(list, rank);
    return kCut;
}

// Likewise, all of them: what finds no room comes again after a cut, if it still reaches the threshold.
template <typename List, typename KeyOf>
__device__ __forceinline__ void offer_all(
    List& list, unsigned pending, typename List::Key last, int rank, const KeyOf& key_of)
{
#pragma unroll 1
    for (;;) {
        const int mine = __popc(pending);
        int place = mine > 0 ? atomicAdd(&list.count, mine) : 0;
        const bool crowded = List::Team::any(place + mine > List::kCutAt);
        if (pending != 0 && place < List::kSlots) {
            list.slots[place] = last;
            pending ^= 1u << last_bit(pending);
#pragma unroll 1
            for (; pending != 0 && ++place < List::kSlots; pending &= pending - 1)
                list.slots[place] = key_of(__ffs(pending) - 1);
        }
        if (!crowded) return;
        List::Team::sync();
        cut(list, rank);
        pending = reaching(pending, list.threshold, key_of);
        if (pending != 0) last = key_of(last_bit(pending));
    }
}

// Offers one more element, or none. Every thread of the team takes part.
template <typename List, typename KeyOf>
__device__ __forceinline__ void offer_element(List& list, bool there, int rank, const KeyOf& key_of)
{
    const unsigned pending = reaching(there ? 1u : 0u, list.threshold, key_of);
    offer(list, pending, pending ? key_of(0) : typename List::Key{}, rank, key_of);
}

// What the values of items to come are compared with. Those at or above it are candidates; while ties
// with the threshold may be, keys decide.
template <typename Keys>
struct Bar {
    typename Keys::Value value;
    bool ties;
};

// The bar for vectors from `next` on. Later columns lose ties: once the k that the threshold is for have been
// seen, an item has to beat its value.
template <typename List, typename Keys>
__device__ __forceinline__ Bar<Keys> bar_of(
    const List& list, const Keys& keys, typename Keys::Column next)
{
    const typename Keys::Key threshold = list.threshold;
    const typename Keys::Value value = keys.value(threshold), beyond = keys.next_value(threshold);
    const bool later = threshold > typename Keys::Key{} && list.known <= next && value < beyond;
    return {later ? beyond : value, !later && keys.names_column(threshold)};
}

}  // namespace fusegen
