#pragma once
// A list of a row in a team's registers: a bar that each warp finds for its share, places for what reaches the least
// of the bars, and bins that put it in order.

#include <fusegen/topk/collected_order.cuh>
#include <fusegen/topk/lean.cuh>
#include <fusegen/topk/search.cuh>

namespace fusegen {

// Where a team collects what may be among the kK best of a row: room for kRoom.
template <typename TeamType, typename KeysType, int kBest, int kRoomFor, int kBinBits>
struct Collected {
    typedef TeamType Team;
    typedef KeysType Keys;
    typedef typename Keys::Key Key;
    static constexpr int kK = kBest, kSought = kBest, kRoom = kRoomFor, kFullBin = 64;
    static constexpr bool kSlices = false;  // is this a list of a row's slice?
    static constexpr int kFew = Team::kThreads > 64 ? 64 : 32;  // keys that threads put in order by counting
    static constexpr int kShare = kK / (Team::kThreads / 32), kMostShare = Team::kOneWarp ? 18 : 12;
    static constexpr int kMostInTurn = 6;  // of lanes' greatest items, sought one after another
    static constexpr bool kByLanes = kShare <= kMostShare;  // do these make a warp's bar?
    static constexpr bool kOneByOne = kShare <= kMostInTurn;

    Tally<Team, kBinBits> tally;
    unsigned count;
    Key best[kRoom], beside[kRoom];
};

// This warp's share of what is sought, of so many vectors of the row's.
template <typename CollectedType>
__device__ __forceinline__ int share_of_warp(int mine, int vectors)
{
    constexpr float kSought = CollectedType::kSought;
    return static_cast<int>(kSought * __fdividef(static_cast<float>(mine), static_cast<float>(vectors))) + 1;
}

// The n-th greatest of lanes' words, n being a warp's share.
template <typename CollectedType>
__device__ __forceinline__ unsigned nth_of_lanes(unsigned word, int n, int lane)
{
    return CollectedType::kOneByOne ? one_of_best(word, n) : nth_of_warp(word, n, lane);
}

// A word that this warp's share of the kK reaches among its peaks: as much of them as it has of the row's vectors.
// 0: whatever there is reaches it. Of a few, that many lanes have an item each that reaches it, and few have several:
// s of 32 lanes leave -32 ln(1 - s / 32) items above their bar in the mean.
template <typename CollectedType, typename Peaks>
__device__ __forceinline__ unsigned word_of_share(const Peaks& peaks, int live, int vectors, int rank)
{
    constexpr int kK = CollectedType::kK;
    constexpr bool kAlone = CollectedType::Team::kOneWarp;
    const bool whole = (rank | 31) < vectors;  // has every lane a vector?
    if constexpr (kAlone && CollectedType::kByLanes) {
        if (whole) return nth_of_lanes<CollectedType>(min(peaks.high(), Peaks::kMost), kK, rank % 32);
    }
    const int mine = static_cast<int>(sum_of_warp(live)), all = static_cast<int>(sum_of_warp(Peaks::there(live)));
    if (mine == 0) return vectors > 0 ? 0xffffffffu : 0;
    int share = kK;
    if (!kAlone) share = share_of_warp<CollectedType>(mine, vectors);
    if (share > all) return 0;
    if constexpr (!kAlone && CollectedType::kByLanes) {
        if (whole && share <= 32)
            return nth_of_lanes<CollectedType>(min(peaks.high(), Peaks::kMost), share, rank % 32);
    }
    const int most = share + share / 16 + (share > 4 ? 2 : 0);
    Bracket<Peaks, kAlone> bracket(
        least_of_warp(peaks.low(live)), min(greatest_of_warp(peaks.high()), Peaks::kMost), all, (share + most) / 2);
#pragma unroll 1
    for (int round = 0; bracket.low < bracket.high; ++round) {
        const unsigned middle = bracket.next(round);
        const int count = static_cast<int>(sum_of_warp(peaks.count(middle)));
        if (count < share) {
            bracket.too_few(middle, count);
        } else {
            bracket.enough(middle, count);
            if (count <= most) break;
        }
    }
    return bracket.low;
}

// The columns of a whole row.
template <typename Column>
struct WholeRow {
    Column n_cols;

    __device__ __forceinline__ Span span() const { return {0, static_cast<int>(n_cols)}; }
    __device__ __forceinline__ Column count() const { return n_cols; }
    __device__ __forceinline__ Column of(Column j) const { return j; }
};

// Brings those of a warp's items that reach the bar, and the `lone` one, to where there is room for them; says how many
// they are. They are there after a barrier.
template <typename CollectedType, typename Column, typename Items>
__device__ __forceinline__ unsigned bring(
    CollectedType& collected, const Items& items, bool alone, const typename CollectedType::Key& lone, Column edge,
    int rank)
{
    typedef typename CollectedType::Key Key;
    const unsigned mine = items.count() + alone;
    unsigned place = sum_of_lower(mine, rank % 32), first = 0;
    const unsigned all = __shfl_sync(0xffffffffu, place + mine, 31);
    if constexpr (!CollectedType::Team::kOneWarp) {
        if (rank % 32 == 0 && all > 0) first = atomicAdd(&collected.count, all);
        first = __shfl_sync(0xffffffffu, first, 0);
    }
    if (first + all <= CollectedType::kRoom) {
        place += first;
        if (alone) collected.best[place++] = Items::kKeys ? lone : static_cast<Key>(edge);
        items.put(collected.best, place);
    }
    return all;
}

// The kK best of `count` that were brought, in order, to `collected.best`: all of them between two words. Of a slice's
// list, those are in order that are looked at first, and the last one is where it would be. Where there was no room for
// them, the row is searched. kKeys: they are keys, not columns.
template <bool kKeys, typename CollectedType, typename Columns, typename KeyAt>
__device__ __forceinline__ void order_brought(
    CollectedType& collected, const Columns& columns, int count, unsigned low, unsigned high, int rank,
    const KeyAt& key_at)
{
    typedef typename CollectedType::Team Team;
    typedef decltype(columns.count()) Column;
    constexpr int kK = CollectedType::kK, kRoom = CollectedType::kRoom;
    if (count > kRoom) {
        search_best<kK, kRoom, CollectedType::kFullBin>(
            collected.best, collected.beside, collected.count, collected.tally, static_cast<int>(columns.count()),
            rank, [&](int j) { return key_at(columns.of(static_cast<Column>(j))); });
        return;
    }
    if constexpr (kK < 32 && !CollectedType::kSlices) {
        if (count <= 32) {
            order_by_warp<kKeys, Column>(collected, count, rank, key_at);
            return;
        }
    }
    if constexpr (!kKeys) {
        constexpr int kTeam = Team::kThreads, kBatch = 4;
        for (int first = rank; first < count; first += kBatch * kTeam) {
            typename CollectedType::Key keys[kBatch];
#pragma unroll
            for (int b = 0; b < kBatch; ++b) {  // all loads are under way together
                const int j = first + b * kTeam;
                if (j < count) keys[b] = key_at(static_cast<Column>(collected.best[j]));
            }
#pragma unroll
            for (int b = 0; b < kBatch; ++b)
                if (first + b * kTeam < count) collected.best[first + b * kTeam] = keys[b];
        }
        Team::sync();
    }
    if constexpr (CollectedType::kSlices)
        put_in_order(collected, columns.span(), columns.ahead(kK), count, low, high, rank);
    else
        order_collected(collected, columns.span(), kK, count, low, high, rank);
}

// A row, or its slice, in a team's registers: its kK best, in order, to `collected.best`; fewer if there are no more.
// `peaks` are the greatest items of parts of vectors; `items` are all: how many reach a bar, and what puts those behind
// one another. `vectors` are the row's, or the slice's; `edge` is the column of one more element, or -1; `key_at`
// brings the key of a column from memory.
template <typename CollectedType, typename Columns, typename Column, typename Peaks, typename Items, typename KeyAt>
__device__ __forceinline__ void collect_best(
    CollectedType& collected, const Columns& columns, Column vectors, int live, int rank, Column edge,
    const Peaks& peaks, Items& items, const KeyAt& key_at)
{
    typedef typename CollectedType::Team Team;
    typedef typename CollectedType::Key Key;
    auto& tally = collected.tally;
    if (rank == 0) collected.count = 0;
    clear_bins(tally, rank);
    Key lone{};
    if (edge >= 0) lone = key_at(edge);
    unsigned word = word_of_share<CollectedType>(peaks, live, static_cast<int>(vectors), rank);
    unsigned high = max(edge >= 0 ? top_word(lone) : 0u, Peaks::last_word(peaks.high()));
    span_of_team<true>(word, high, tally, rank);
    const unsigned low = Peaks::least_word(word);
    const bool alone = edge >= 0 && top_word(lone) >= low;
    items.reach(word);
    int count = static_cast<int>(bring(collected, items, alone, lone, edge, rank));
    Team::sync();
    if constexpr (!Team::kOneWarp) count = static_cast<int>(collected.count);
    order_brought<Items::kKeys>(collected, columns, count, low, high, rank, key_at);
}

}  // namespace fusegen
