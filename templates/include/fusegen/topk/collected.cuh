#pragma once
// A list of a row in a team's registers: a bar that each warp finds for its share, places for what reaches the least
// of the bars, and bins that put it in order.

#include <fusegen/topk/lean.cuh>
#include <fusegen/topk/order.cuh>
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
    static constexpr int kFewLanes = kShare <= kMostShare ? kMostShare : 0;  // whose peaks alone make a warp's bar

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

// A word that this warp's share of the kK reaches among its peaks: as much of them as it has of the row's vectors.
// 0: whatever there is reaches it. Of a few, that many lanes have an item each that reaches it, and few have several:
// s of 32 lanes leave -32 ln(1 - s / 32) items above their bar in the mean.
template <typename CollectedType, typename Peaks>
__device__ __forceinline__ unsigned word_of_share(const Peaks& peaks, int live, int vectors, int rank)
{
    constexpr int kK = CollectedType::kK;
    constexpr bool kAlone = CollectedType::Team::kOneWarp;
    const bool whole = (rank | 31) < vectors;  // has every lane a vector?
    if constexpr (kAlone && CollectedType::kFewLanes > 0) {
        if (whole) return nth_of_warp(min(peaks.high(), Peaks::kMost), kK, rank % 32);
    }
    const int mine = static_cast<int>(sum_of_warp(live)), all = mine * Peaks::kParts;
    if (mine == 0) return vectors > 0 ? 0xffffffffu : 0;
    int share = kK;
    if (!kAlone) share = share_of_warp<CollectedType>(mine, vectors);
    if (share > all) return 0;
    if constexpr (!kAlone && CollectedType::kFewLanes > 0) {
        if (whole && share <= CollectedType::kFewLanes)
            return nth_of_warp(min(peaks.high(), Peaks::kMost), share, rank % 32);
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

// Bins of keys between two top words, the highest first: even ones of words, on which binades count alike, or, where
// numbers of both signs are between, of values.
template <typename Keys, int kBins>
struct WordBins {
    unsigned high, scale;
    float from, each;
    bool even;  // of values?

    __device__ __forceinline__ WordBins(unsigned low, unsigned high) : high(high), scale(0), from(0), each(0)
    {
        const auto last = Keys::value_of_word(high);
        even = Keys::kFloats && low < Keys::kZeroWord && high > Keys::kZeroWord && last < Keys::infinity();
        if (even) {
            from = last;
            each = __fdividef(kBins - 1.0f, from - Keys::value_of_word(low));
        } else {
            const float words = __fdividef(kBins * 4294967296.0f, static_cast<float>(high - low) + 1.0f) * 0.999f;
            scale = words < 4294967040.0f ? static_cast<unsigned>(words) : 0xffffff00u;
        }
    }
    __device__ __forceinline__ unsigned of(typename Keys::Key key) const
    {
        const unsigned word = top_word(key);
        if (!even) return __umulhi(high - word, scale);
        return min(static_cast<unsigned>((from - Keys::value_of_word(word)) * each), kBins - 1u);
    }
};

// Puts the kK best of so few keys that a thread has one at most in order, where they are: it counts those that are
// better.
template <typename CollectedType>
__device__ __forceinline__ void order_few(CollectedType& collected, int count, int rank)
{
    typedef typename CollectedType::Team Team;
    typename CollectedType::Key mine{};
    int place = CollectedType::kK;
    if (rank < count) {
        mine = collected.best[rank], place = 0;
#pragma unroll 4
        for (int other = 0; other < count; ++other) place += collected.best[other] > mine;
    }
    Team::sync();
    if (place < CollectedType::kK) collected.best[place] = mine;
    Team::sync();
}

// Puts the kK best of `count` keys in order, at `collected.best`, where they are: all of them between two words. Bins
// say where keys go, and inside a bin they are counted. The bins are clear.
template <typename CollectedType>
__device__ __forceinline__ void order_collected(
    CollectedType& collected, int count, unsigned low, unsigned high, int rank)
{
    typedef typename CollectedType::Team Team;
    typedef typename CollectedType::Keys Keys;
    typedef typename CollectedType::Key Key;
    typedef decltype(collected.tally) TallyType;
    constexpr int kK = CollectedType::kK, kRoom = CollectedType::kRoom, kFullBin = CollectedType::kFullBin;
    constexpr int kBins = TallyType::kBins, kMyBins = TallyType::kMyBins, kTeam = Team::kThreads;
    constexpr int kMine = (kRoom + kTeam - 1) / kTeam;  // keys of a thread
    if constexpr (kK < CollectedType::kFew) {
        if (count <= CollectedType::kFew) {
            order_few(collected, count, rank);
            return;
        }
    }
    auto& tally = collected.tally;
    const WordBins<Keys, kBins> bins(low, high);
    Key mine[kMine];
    unsigned bin[kMine], turn[kMine];
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
        if (m * kTeam + rank >= count) break;
        mine[m] = collected.best[m * kTeam + rank];
        bin[m] = bins.of(mine[m]);
        turn[m] = atomicAdd(&tally.bins[bin[m]], 1u);
    }
    Team::sync();
    unsigned held[kMyBins], sum = 0;
    my_bins(held, tally, rank);
#pragma unroll
    for (int b = 0; b < kMyBins; ++b) sum += held[b];
    unsigned before = sum_before<true>(sum, tally, rank);
    bool full = false;
#pragma unroll
    for (int b = 0; b < kMyBins; ++b) {
        if (kBins % kTeam == 0 || rank * kMyBins + b < kBins) tally.bins[rank * kMyBins + b] = before;
        full |= held[b] > kFullBin && before < kK;
        before += held[b];
    }
    if (Team::any(full)) {
        sort_by_bins<kRoom, kFullBin>(collected.best, collected.beside, count, kK, tally, rank);
        return;
    }
    if constexpr (Team::kOneWarp) Team::sync();
    unsigned first[kMine];
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
        if (m * kTeam + rank >= count) break;
        first[m] = tally.bins[bin[m]];
        collected.beside[first[m] + turn[m]] = mine[m];
    }
    Team::sync();
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
        if (m * kTeam + rank >= count) break;
        if (first[m] >= kK) continue;
        const unsigned stop = bin[m] + 1 < kBins ? tally.bins[bin[m] + 1] : count;
        // As many as there are registers for; short lists have few to a bin.
        constexpr int kAtOnce = Team::kOneWarp ? 2 : kK <= CollectedType::kFew ? 1 : 4;
        const unsigned place = first[m] + better_in_bin<kAtOnce>(collected.beside, mine[m], first[m], stop);
        if (place < kK) collected.best[place] = mine[m];
    }
    Team::sync();
}

// The same, the code of which is there once.
template <typename CollectedType>
__device__ __noinline__ void put_in_order(CollectedType& collected, int count, unsigned low, unsigned high, int rank)
{
    order_collected(collected, count, low, high, rank);
}

// The columns of a whole row.
template <typename Column>
struct WholeRow {
    Column n_cols;

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

// The kK best of `count` that were brought, in order, to `collected.best`: all of them between two words. Where there
// was no room for them, the row is searched. kKeys: they are keys, not columns.
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
    if constexpr (!kKeys) {
        for (int j = rank; j < count; j += Team::kThreads)
            collected.best[j] = key_at(static_cast<Column>(collected.best[j]));
        Team::sync();
    }
    if constexpr (CollectedType::kSlices)
        put_in_order(collected, count, low, high, rank);
    else
        order_collected(collected, count, low, high, rank);
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
