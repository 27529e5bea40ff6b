#pragma once
// The k-th greatest of many keys, by histograms that a team counts together.

#include <fusegen/team.cuh>
#include <fusegen/topk/key_words.cuh>
#include <fusegen/warp.cuh>

namespace fusegen {

// Where the threads of a team count keys together. A plain struct: with members of bases, ptxas needs a
// register more.
template <typename TeamType, int kBits>
struct alignas(16) Tally {
    typedef TeamType Team;
    static constexpr int kBinBits = kBits, kBins = 1 << kBits, kWarps = Team::kThreads / 32;
    static constexpr int kMyBins = (kBins + Team::kThreads - 1) / Team::kThreads;

    unsigned bins[kBins];
    unsigned sums[kWarps], least[kWarps], greatest[kWarps];  // of warps
    unsigned bin, before, in_bin;                            // where a count was reached
};

// What the threads of lower rank hold, added up. kByLanes: of many warps each lane looks at one, which takes less time,
// and registers that lists of rows that go by do not have.
template <bool kByLanes = false, typename TallyType>
__device__ __forceinline__ unsigned sum_before(unsigned mine, TallyType& tally, int rank)
{
    typedef typename TallyType::Team Team;
    unsigned before = sum_of_lower(mine, rank % 32);
    if constexpr (!Team::kOneWarp) {
        if (rank % 32 == 31) tally.sums[rank / 32] = before + mine;
        Team::sync();
        if constexpr (kByLanes && TallyType::kWarps > 4) {
            before += sum_of_warp(rank % 32 < rank / 32 ? tally.sums[rank % 32] : 0);
        } else {
#pragma unroll
            for (int warp = 0; warp < TallyType::kWarps - 1; ++warp)
                if (warp < rank / 32) before += tally.sums[warp];
        }
    }
    return before;
}

// The least and the greatest word that any thread of the team has seen. kByLanes: likewise.
template <bool kByLanes = false, typename TallyType>
__device__ __forceinline__ void span_of_team(unsigned& least, unsigned& greatest, TallyType& tally, int rank)
{
    typedef typename TallyType::Team Team;
    least = least_of_warp(least);
    greatest = greatest_of_warp(greatest);
    if constexpr (Team::kOneWarp) {
        Team::sync();
    } else {
        if (rank % 32 == 0) tally.least[rank / 32] = least, tally.greatest[rank / 32] = greatest;
        Team::sync();
        if constexpr (kByLanes && TallyType::kWarps > 4) {
            const int warp = min(rank % 32, TallyType::kWarps - 1);  // a lane looks at one
            least = least_of_warp(tally.least[warp]);
            greatest = greatest_of_warp(tally.greatest[warp]);
        } else {
#pragma unroll
            for (int warp = 0; warp < TallyType::kWarps; ++warp) {
                least = min(least, tally.least[warp]);
                greatest = max(greatest, tally.greatest[warp]);
            }
        }
    }
}

template <typename TallyType>
__device__ __forceinline__ void clear_bins(TallyType& tally, int rank)
{
    constexpr int kTeam = TallyType::Team::kThreads, kBins = TallyType::kBins, kMyBins = TallyType::kMyBins;
#pragma unroll
    for (int b = 0; b < kMyBins; ++b)
        if (kBins % kTeam == 0 || b * kTeam + rank < kBins) tally.bins[b * kTeam + rank] = 0;
}

// A thread's own bins; they are neighbours.
template <typename TallyType>
__device__ __forceinline__ void my_bins(
    unsigned (&mine)[TallyType::kMyBins], const TallyType& tally, int rank)
{
    constexpr int kTeam = TallyType::Team::kThreads, kBins = TallyType::kBins, kMyBins = TallyType::kMyBins;
#pragma unroll
    for (int b = 0; b < kMyBins; ++b)
        mine[b] = kBins % kTeam == 0 || rank * kMyBins + b < kBins ? tally.bins[rank * kMyBins + b] : 0;
}

// How many keys of a bin are better. Most bins have few: kAtOnce of them are read at once.
template <int kAtOnce, typename Key>
__device__ __forceinline__ unsigned better_in_bin(const Key* keys, const Key& mine, unsigned first, unsigned stop)
{
    unsigned better = 0;
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k)
        if (first + k < stop) better += keys[first + k] > mine;
#pragma unroll 1
    for (unsigned other = first + kAtOnce; other < stop; ++other) better += keys[other] > mine;
    return better;
}

// Finds the bin in which the count from the top reaches `wanted`.
template <typename TallyType>
__device__ __forceinline__ void find_bin(TallyType& tally, unsigned wanted, int rank)
{
    constexpr int kMyBins = TallyType::kMyBins;
    unsigned mine[kMyBins], sum = 0;
    my_bins(mine, tally, rank);
#pragma unroll
    for (int b = 0; b < kMyBins; ++b) sum += mine[b];
    unsigned before = sum_before(sum, tally, rank);
    if (before < wanted && wanted <= before + sum) {
#pragma unroll
        for (int b = 0; b < kMyBins; ++b) {
            if (before < wanted && wanted <= before + mine[b])
                tally.bin = rank * kMyBins + b, tally.before = before, tally.in_bin = mine[b];
            before += mine[b];
        }
    }
    TallyType::Team::sync();
}

// A key that at least k of these are not below, and at most `most` where that is possible without
// telling apart keys one by one. Zeros are no keys. A histogram between the least and the greatest
// value finds the bin with the k-th key; the next one is of that bin alone, so that a few keys far from
// the others cost one more round. Every thread of the team takes part, after a barrier.
template <typename Key, typename TallyType, typename KeyOf>
__device__ __forceinline__ Key select_of(int count, int k, int most, TallyType& tally, int rank, const KeyOf& key_of)
{
    constexpr int kTeam = TallyType::Team::kThreads, kBinBits = TallyType::kBinBits;
    Key low{1}, high = ~Key{};
    int above = 0;  // keys that are greater than those in question
    for (;;) {
        unsigned least = 0xffffffffu, greatest = 0;
        clear_bins(tally, rank);
#pragma unroll 4
        for (int j = rank; j < count; j += kTeam) {
            const Key key = key_of(j);
            if (key < low || key > high) continue;
            least = min(least, top_word(key));
            greatest = max(greatest, top_word(key));
        }
        span_of_team(least, greatest, tally, rank);
        Key first, last;
        span_keys(least, greatest, first, last);
        if (low < first) low = first;
        if (high > last) high = last;
        const int length = bit_length(high - low), shift = length > kBinBits ? length - kBinBits : 0;
#pragma unroll 4
        for (int j = rank; j < count; j += kTeam) {
            const Key key = key_of(j);
            if (!(key < low || key > high))
                atomicAdd(&tally.bins[static_cast<unsigned>((high - key) >> shift)], 1u);
        }
        TallyType::Team::sync();
        find_bin(tally, k - above, rank);

        const Key span = Key{tally.bin} << shift, width = Key{1} << shift;
        high = high - span;
        if (!(high - low < width)) low = high - width - ~Key{};
        if (above + static_cast<int>(tally.before + tally.in_bin) <= most || shift == 0) return low;
        above += tally.before;
    }
}

// Likewise, of an array.
template <typename Key, typename TallyType>
__device__ __noinline__ Key select(const Key* keys, int count, int k, int most, TallyType& tally, int rank)
{
    return select_of<Key>(count, k, most, tally, rank, [&](int j) { return keys[j]; });
}

}  // namespace fusegen
