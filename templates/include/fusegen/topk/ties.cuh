#pragma once
// Of equal items, those of the first columns.

#include <fusegen/topk/list.cuh>

namespace fusegen {

// Which of a thread's items lie in its first so many vectors: a bit each; of pairs, those of even numbers
// first.
template <int kWidth, bool kPairs>
__device__ __forceinline__ unsigned items_of(int vectors)
{
    const int items = vectors * kWidth;
    if constexpr (kPairs) return ((1u << items / 2) - 1) * 0x10001u;
    return items == 32 ? 0xffffffffu : (1u << items) - 1;
}

// Likewise, in vectors up to number `last`.
template <typename List, bool kPairs, typename Column>
__device__ __forceinline__ unsigned items_up_to(Column last, Column at)
{
    const Column vectors = last < at ? 0 : (last - at) / List::kTeam + 1;
    return items_of<List::kWidth, kPairs>(vectors < List::kVectors ? static_cast<int>(vectors) : List::kVectors);
}

// Of equal items, the k best are in the first columns. The last vector of the tile that has one of those:
// begin - 1 if none is needed, and the tile's `last` if there are too few. `equal` are the items that equal
// the threshold's value, `above` is the number of those that are greater. In the order of columns, all warps
// have a part of the tile in turn: the parts are counted, and then the lanes of one.
template <bool kPairs, typename List>
__device__ __noinline__ typename List::Column last_of_ties(
    List& list, unsigned equal, int above, typename List::Column begin, typename List::Column last, int rank)
{
    typedef typename List::Team Team;
    constexpr int kTeam = List::kTeam, kWidth = List::kWidth, kVectors = List::kVectors;
    constexpr int kWarps = kTeam / 32, kParts = kVectors * kWarps, kEach = (kParts + 31) / 32;
    static_assert(32 * kEach <= 1 << List::kBinBits, "more parts than bins");
    const int lane = rank % 32, warp = rank / 32;
    const auto count_in = [&](int v) {
        return __popc(equal & items_of<kWidth, kPairs>(v + 1) & ~items_of<kWidth, kPairs>(v));
    };
    unsigned* parts = list.tally.bins;
    above = sum_of_warp(above);
    Team::sync();  // what was there is read
    if constexpr (!Team::kOneWarp) {
        if (lane == 0) list.tally.sums[warp] = above;
    }
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        const unsigned count = sum_of_warp(count_in(v));
        if (lane == 0) parts[v * kWarps + warp] = count;
    }
    Team::sync();
    if constexpr (!Team::kOneWarp) {
        above = 0;
#pragma unroll
        for (int other = 0; other < kWarps; ++other) above += list.tally.sums[other];
    }
    const int wanted = List::kK - above;
    if (wanted <= 0) return begin - 1;
    int sum = 0, part = lane * kEach;
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += part + i < kParts ? parts[part + i] : 0;
    int before = sum_of_lower(sum, lane);
    const unsigned found = __ballot_sync(0xffffffffu, before < wanted && wanted <= before + sum);
    if (found == 0) return last;
#pragma unroll
    for (int i = 1; i < kEach; ++i) {
        const int count = part < kParts ? parts[part] : 0;
        if (before + count < wanted) before += count, ++part;
    }
    part = __shfl_sync(0xffffffffu, part, __ffs(found) - 1);
    before = __shfl_sync(0xffffffffu, before, __ffs(found) - 1);
    const int v = part / kWarps;
    if (part % kWarps == warp) {
        const int mine = count_in(v), lower = before + sum_of_lower(mine, lane);
        if (lower < wanted && wanted <= lower + mine) list.tally.bin = rank;
    }
    Team::sync();
    return begin + v * kTeam + static_cast<int>(list.tally.bin);
}

}  // namespace fusegen
