#pragma once
// A tile of which more items are candidates than a list has room for.

#include <fusegen/load.cuh>
#include <fusegen/topk/ties.cuh>

namespace fusegen {

// Raises the threshold by a tile: to what the k best reach of its threads' best items, of which only the top
// words are known or, where k are too many for that, a cluster's blocks look at all.
template <typename List, typename KeysOf>
__device__ __forceinline__ void raise_by_tile(
    List& list, unsigned peak, typename List::Column tile, typename List::Column next, int rank, const KeysOf& keys_of)
{
    typedef typename List::Key Key;
    constexpr int kTeam = List::kTeam;
    Key threshold{}, last;
    if constexpr (List::kByPeaks) {
        unsigned* peaks = list.tally.bins;
        peaks[rank] = peak;
        List::Team::sync();
        int greater = 0;
#pragma unroll 8
        for (int other = 0; other < kTeam; ++other) greater += peaks[other] > peak;
        unsigned word = greater < List::kK ? peak : 0xffffffffu, unused = 0;
        span_of_team(word, unused, list.tally, rank);  // the k-th best
        if (next - tile >= kTeam) span_keys(word, word, threshold, last);
    } else if constexpr (List::kBlocks > 1) {
        threshold = threshold_of_all_items(list, peak, tile, next, rank, keys_of);
    }
    raise_to(list, threshold, next, rank);
}

// Adds a tile's items that reach the threshold, which is raised before that, if possible. No item of this
// thread has a greater top word than `peak`. Every thread of the team takes part, after a barrier; where a
// cluster's row is lopsided, those of all its blocks.
template <typename List, typename KeyAt, typename KeysOf>
__device__ __forceinline__ void rescan_tile(
    List& list, unsigned peak, typename List::Column tile, typename List::Column end, int rank, const KeyAt& key_at,
    const KeysOf& keys_of, bool lopsided)
{
    typedef typename List::Key Key;
    typedef typename List::Column Column;
    typedef typename List::Team Team;
    constexpr int kTeam = List::kTeam, kVectors = List::kVectors, kWidth = List::kWidth;
    const Column next = end - tile < kVectors * kTeam ? end : tile + kVectors * kTeam;
    const bool above = lopsided || Team::any(peak > top_word(list.threshold));  // else its value cannot rise
    const auto raise_by_row = [&] {
        if constexpr (List::kSamples > 0) {
            if (above && end - tile > (List::kByPeaks ? 2 * kVectors * kTeam : List::kSamples))
                return look_ahead(list, tile, end, rank, keys_of);
        }
        if (above) raise_by_tile(list, peak, tile, next, rank, keys_of);
    };
    if constexpr (List::kBlocks > 1) {
        if (lopsided)
            raise_by_blocks(list, peak, tile + rank, end, rank, keys_of);
        else if (list.count > List::kSlots / 2)
            cut(list, rank);
        else
            raise_by_row();
    } else {
        raise_by_row();
    }
    const Column at = tile + rank;
    const Key threshold = list.threshold;
    const int live = peak < top_word(threshold) ? 0 : live_vectors<Team, kVectors>(at, end);
    unsigned pending = 0, equal = 0;
    Key last{};
#pragma unroll (16 / kWidth > 0 ? 16 / kWidth : 1)
    for (int v = 0; v < live; ++v) {
        Key keys[kWidth];
        keys_of(keys, at + v * kTeam);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
            const unsigned bit = 1u << (v * kWidth + e);
            if (!(keys[e] < threshold))
                pending |= bit, equal |= same_value(keys[e], threshold) ? bit : 0, last = keys[e];
        }
    }
    const auto key_of = [&](int i) { return key_at(at + i / kWidth * kTeam, i % kWidth); };
    if (!List::kGuess && Team::any(sum_of_warp(__popc(equal)) > 32)) {
        const int greater = __popc(pending & ~equal);
        const Column enough = last_of_ties<false>(list, equal, greater, tile, next - 1, rank);
        pending &= ~equal | items_up_to<List, false>(enough, at);
        if (pending != 0) last = key_of(last_bit(pending));
        // The last of those that are left is reached by k.
        if (tile <= enough && enough < next - 1 && (enough - tile) % kTeam == rank) {
            list.threshold = key_of(last_bit(equal & items_up_to<List, false>(enough, at)));
            list.known = next;
        }
    }
    offer_all(list, pending, last, rank, key_of);
}

template <typename List, typename KeyAt, typename KeysOf>
__device__ __noinline__ void rescan(
    List& list, unsigned peak, typename List::Column tile, typename List::Column end, int rank, const KeyAt& key_at,
    const KeysOf& keys_of)
{
    rescan_tile(list, peak, tile, end, rank, key_at, keys_of, false);
}

}  // namespace fusegen
