#pragma once
// A list of a row that some lanes of a warp hold: a bar that K items or a few more reach, and one network that puts
// these in order.

#include <fusegen/topk/lean.cuh>
#include <fusegen/topk/merged.cuh>

namespace fusegen {

// Where lanes pick what may be among the kK best of a row of kColumns: kMine keys for each of them.
template <typename KeysType, int kTeamLanes, int kBest, int kMineKeys, int kColumns>
struct Picked {
    typedef KeysType Keys;
    typedef typename Keys::Key Key;
    static constexpr int kTeam = kTeamLanes, kK = kBest, kMine = kMineKeys, kRoom = kTeam * kMine;

    Key slots[kRoom + kTeam];
    unsigned ties[(kColumns + 31) / 32];  // columns, a bit each
};

// Of a team's lanes: the sum, the least and the greatest of their words, and what lower ones hold.
template <int kTeam>
__device__ __forceinline__ unsigned sum_of_lanes(unsigned word)
{
#pragma unroll
    for (int lane_mask = kTeam / 2; lane_mask > 0; lane_mask /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, word, lane_mask);
        word += other;
    }
    return word;
}
template <int kTeam>
__device__ __forceinline__ unsigned least_of_lanes(unsigned word)
{
#pragma unroll
    for (int lane_mask = kTeam / 2; lane_mask > 0; lane_mask /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, word, lane_mask);
        word = min(word, other);
    }
    return word;
}
template <int kTeam>
__device__ __forceinline__ unsigned sum_of_lower_lanes(unsigned mine, int rank)
{
    unsigned sum = mine;
#pragma unroll
    for (int gap = 1; gap < kTeam; gap *= 2) {
        const unsigned lower = __shfl_up_sync(0xffffffffu, sum, gap, kTeam);
        if (rank >= gap) sum += lower;
    }
    return sum - mine;
}

// A word that `k` of a team's items reach, and at most `most` where words tell them apart; how many do. All teams of a
// warp look for theirs together.
template <int kTeam, typename Peaks>
__device__ __forceinline__ unsigned word_of_lanes(const Peaks& items, int k, int most, int live, int& reached)
{
    const int all = static_cast<int>(sum_of_lanes<kTeam>(live)) * Peaks::kParts;
    Bracket<Peaks> bracket(
        least_of_lanes<kTeam>(items.low(live)), min(~least_of_lanes<kTeam>(~items.high()), Peaks::kMost), all,
        (k + most) / 2);
    reached = all;
    bool open = bracket.low < bracket.high && all > most;
#pragma unroll 1
    for (int round = 0; __any_sync(0xffffffffu, open); ++round) {
        const unsigned middle = bracket.next(round);
        const int count = static_cast<int>(sum_of_lanes<kTeam>(items.count(middle)));
        if (!open) continue;
        if (count < k)
            bracket.too_few(middle, count);
        else
            bracket.enough(middle, count), reached = count;
        open = bracket.low < bracket.high && reached > most;
    }
    return bracket.low;
}

// A word that `k` of a team's items reach, and few more: the k-th among the greatest of parts of what its lanes hold.
template <int kTeam, int kParts, typename Peaks>
__device__ __forceinline__ unsigned word_of_parts(const Peaks& items, int k, int rank)
{
    unsigned part[kParts], word = 0;
    items.greatest(part);
    sort_of_lanes<kTeam>(part, rank);
#pragma unroll
    for (int p = 0; p < kParts; ++p) word = (k - 1) % kParts == p ? part[p] : word;
    return __shfl_sync(0xffffffffu, word, (k - 1) / kParts, kTeam);
}

// Of items that reach a bar, as many as reach it with equal values, those of the first columns alone, so that k are
// left. `items.reaching` has a bit for each of them.
template <typename PickedType, typename Items, typename KeyAt>
__device__ __forceinline__ void cut_ties(
    PickedType& picked, Items& items, unsigned word, bool crowded, int rank, const KeyAt& key_at)
{
    constexpr int kTeam = PickedType::kTeam, kK = PickedType::kK, kWords = sizeof(picked.ties) / sizeof(unsigned);
    int above = 0;
    // First those at the bar; where NaN are k or more, these.
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        __syncwarp();
        for (int w = rank; w < kWords; w += kTeam) picked.ties[w] = 0;
        __syncwarp();
        int more = 0;
        if (crowded) items.visit([&](int column) {
            const unsigned order = PickedType::Keys::order_of(key_at(column));
            if (order == word) atomicOr(&picked.ties[column / 32], 1u << column % 32);
            more += order > word;
        });
        above = static_cast<int>(sum_of_lanes<kTeam>(more));
        const bool again = crowded && above >= kK;
        if (!__any_sync(0xffffffffu, again)) break;
        if (again) word = Items::kNaN;
    }
    __syncwarp();
    int wanted = kK - above, w = 0;
    if (!crowded) return;
    for (; wanted > __popc(picked.ties[w]); ++w) wanted -= __popc(picked.ties[w]);
    unsigned bits = picked.ties[w];
    for (; wanted > 1; --wanted) bits &= bits - 1;
    const int last = 32 * w + __ffs(bits) - 1;
    items.keep([&](int column) {
        const unsigned order = PickedType::Keys::order_of(key_at(column));
        return order > word || (order == word && column <= last);
    });
}

// A row in a team's registers: its kK best, in order, to `picked.slots`, with gaps. `items` are all of them: how many
// reach a bar, and what puts their keys behind one another.
template <typename PickedType, typename Peaks, typename Items, typename KeyAt>
__device__ __forceinline__ void pick_best(
    PickedType& picked, int live, int rank, const Peaks& peaks, Items& items, const KeyAt& key_at)
{
    typedef typename PickedType::Key Key;
    constexpr int kTeam = PickedType::kTeam, kK = PickedType::kK, kMine = PickedType::kMine;
    constexpr int kRoom = PickedType::kRoom;
    int mine = 0, all = kRoom + 1;
    unsigned word = 0;
    if constexpr (!Items::kKeys) {
        word = word_of_parts<kTeam, kMine>(peaks, kK, rank);
        items.reach(word);
        mine = items.count(), all = static_cast<int>(sum_of_lanes<kTeam>(mine));
    }
    if (Items::kKeys || __any_sync(0xffffffffu, all > kRoom)) {
        int reached;
        const unsigned found = word_of_lanes<kTeam>(peaks, kK, kRoom, live, reached);
        word = all > kRoom ? found : word;
        items.reach(word);
        // Elements that are not there may have been counted, so what is left is counted again.
        mine = items.count(), all = static_cast<int>(sum_of_lanes<kTeam>(mine));
    }
    if (__any_sync(0xffffffffu, all > kRoom)) {
        cut_ties(picked, items, Peaks::settled(word), all > kRoom, rank, key_at);
        mine = items.count(), all = static_cast<int>(sum_of_lanes<kTeam>(mine));
    }
    __syncwarp();
    items.put(picked.slots, sum_of_lower_lanes<kTeam>(mine, rank));
    __syncwarp();
    Key found[kMine];
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
        found[m] = m * kTeam + rank < all ? picked.slots[m * kTeam + rank] : 0;
        if (Items::kKeys || m * kTeam + rank >= all) continue;
        found[m] = key_at(static_cast<typename PickedType::Keys::Column>(found[m]));  // what was put is its column
    }
    __syncwarp();
    merge_row<kTeam, kK, kMine >= 16>(WithGaps<Key, kMine>{picked.slots}, found, rank);
}

}  // namespace fusegen
