#pragma once
// What a team brought for a list is put in order: by counting where it is little, else by bins.

#include <fusegen/topk/bins.cuh>

namespace fusegen {

// Neighbouring columns.
struct Span {
    int first, columns;
};

// Bins of keys between two top words, the highest first: even ones of orders, on which binades count alike, or, where
// numbers of both signs are between, of values. kApart: where there are more bins than orders, as few values have 16
// bits, equal ones are apart by their columns.
template <typename Keys, int kBins, bool kApart>
struct WordBins {
    unsigned high, scale, each, part;  // each: bins of an order; part: of a column, in 2^-32
    int first, last;                   // column, and the last one behind it
    float from, step;
    bool even;  // of values?

    __device__ __forceinline__ WordBins(unsigned low, unsigned high_word, const Span& span)
        : high(Keys::order_of_word(high_word)), scale(0), each(0), part(0), first(span.first),
          last(max(span.columns - 1, 0)), from(0), step(0)
    {
        constexpr float kAll = 4294967296.0f;
        const auto greatest = Keys::value_of_word(high_word);
        even = Keys::kFloats && low < Keys::kZeroWord && high_word > Keys::kZeroWord && greatest < Keys::infinity();
        const float orders = static_cast<float>(high - Keys::order_of_word(low)) + 1.0f;
        if (even) {
            from = greatest;
            step = __fdividef(kBins - 1.0f, from - Keys::value_of_word(low));
        } else if (!kApart || 2 * orders > kBins) {
            scale = whole(__fdividef(kBins * kAll, orders) * 0.999f);
        } else {
            each = static_cast<unsigned>(__fdividef(kBins, orders) * 1.0001f);  // no quotient is next to a whole number
            part = whole(__fdividef(each * kAll, static_cast<float>(span.columns + 1)) * 0.9999f);
        }
    }
    __device__ __forceinline__ unsigned of(typename Keys::Key key) const
    {
        if (even) return min(static_cast<unsigned>((from - Keys::value_of_word(top_word(key))) * step), kBins - 1u);
        const unsigned below = high - Keys::order_of(key);
        if (!kApart) return __umulhi(below, scale);
        const int column = min(max(static_cast<int>(Keys::column(key)) - first, 0), last);
        return __umulhi(below, scale) + below * each + __umulhi(column, part);
    }

  private:
    static __device__ __forceinline__ unsigned whole(float x)
    {
        return x < 4294967040.0f ? static_cast<unsigned>(x) : 0xffffff00u;
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

// The same of what was brought, no more than a warp's lanes: the first warp does it, and waits for no other. kKeys:
// they are keys, not columns.
template <bool kKeys, typename Column, typename CollectedType, typename KeyAt>
__device__ __forceinline__ void order_by_warp(CollectedType& collected, int count, int rank, const KeyAt& key_at)
{
    typename CollectedType::Key mine{};
    if (rank < count) {
        mine = collected.best[rank];
        if constexpr (!kKeys) mine = key_at(static_cast<Column>(mine));
        collected.beside[rank] = mine;
    }
    if (rank < 32) {
        __syncwarp();
        int place = rank < count ? 0 : CollectedType::kK;
#pragma unroll 4
        for (int other = 0; other < count; ++other) place += collected.beside[other] > mine;
        if (place < CollectedType::kK) collected.best[place] = mine;
    }
    CollectedType::Team::sync();
}

// Puts the kK best of `count` keys in order, at `collected.best`, where they are: all of them between two words, their
// columns, but a few beside them, in a span. Bins say where keys go, and inside a bin they are counted. The bins are
// clear. Behind the first `exact` keys and before the kK-th best, those of a bin are in no order.
template <typename CollectedType>
__device__ __forceinline__ void order_collected(
    CollectedType& collected, const Span& span, int exact, int count, unsigned low, unsigned high, int rank)
{
    typedef typename CollectedType::Team Team;
    typedef typename CollectedType::Keys Keys;
    typedef typename CollectedType::Key Key;
    typedef decltype(collected.tally) TallyType;
    constexpr int kK = CollectedType::kK, kRoom = CollectedType::kRoom, kFullBin = CollectedType::kFullBin;
    constexpr int kBins = TallyType::kBins, kMyBins = TallyType::kMyBins, kTeam = Team::kThreads;
    constexpr int kMine = (kRoom + kTeam - 1) / kTeam;  // keys of a thread
    if constexpr (kK < CollectedType::kFew && (CollectedType::kFew > 32 || CollectedType::kSlices)) {
        if (count <= CollectedType::kFew) {
            order_few(collected, count, rank);
            return;
        }
    }
    auto& tally = collected.tally;
    const WordBins<Keys, kBins, !Team::kOneWarp> bins(low, high, span);
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
        const bool any = first[m] >= exact && stop < kK;
        const unsigned better = any ? turn[m] : better_in_bin<kAtOnce>(collected.beside, mine[m], first[m], stop);
        const unsigned place = first[m] + better;
        if (place < kK) collected.best[place] = mine[m];
    }
    Team::sync();
}

// The same, the code of which is there once.
template <typename CollectedType>
__device__ __noinline__ void put_in_order(
    CollectedType& collected, Span span, int exact, int count, unsigned low, unsigned high, int rank)
{
    order_collected(collected, span, exact, count, low, high, rank);
}

}  // namespace fusegen
