#pragma once
// A list of a row that the blocks of a cluster share: what they tell one another.

#include <fusegen/cluster.cuh>
#include <fusegen/load.cuh>
#include <fusegen/topk/first_threshold.cuh>
#include <fusegen/topk/rescan.cuh>

namespace fusegen {

// What a block knows of the others: words that their shares of the k reach, and that the best items of all
// their threads reach; words that k of theirs reach, where some are crowded; how many candidates they have
// and, where those are too many, keys that their shares reach, and that k of theirs reach.
template <typename Key, int kBlocks>
struct Cluster {
    unsigned words[kBlocks], leasts[kBlocks], own_words[kBlocks];
    int counts[kBlocks];
    Key shares[kBlocks], bests[kBlocks];
};

// A list of a row that the blocks of a cluster share.
template <typename LayoutType, int kVectorCount, typename KeysType, typename Plan, int kBlockCount>
struct ClusterKBest : KBest<LayoutType, kVectorCount, KeysType, Plan, InShared> {
    static constexpr int kBlocks = kBlockCount;
    Cluster<typename KeysType::Key, kBlockCount> cluster;
};

// Of a few words, the n-th greatest.
template <int kCount>
__device__ __forceinline__ unsigned nth_greatest(const unsigned* words, int n)
{
    const int lane = threadIdx.x % 32;
    const unsigned mine = lane < kCount ? words[lane] : 0;
    int not_less = 0;
#pragma unroll
    for (int other = 0; other < kCount; ++other) not_less += !(words[other] < mine);
    return greatest_of_warp(not_less < n ? 0 : mine);
}

// A word that the k are not below, from one that this block's share of them is not below.
template <typename List>
__device__ __forceinline__ unsigned word_of_cluster(List& list, unsigned word, unsigned least, int rank)
{
    constexpr int kBlocks = List::kBlocks;
    if (rank < kBlocks) {
        auto* cluster = in_block(&list.cluster, rank);
        cluster->words[__clusterRelativeBlockRank()] = word;
        cluster->leasts[__clusterRelativeBlockRank()] = least;
    }
    meet_cluster();
    return nth_greatest<kBlocks>(list.cluster.words, share_of(List::kK, share_of(List::kK, kBlocks)));
}

// Is a block crowded with items that are above the word, as if the row were sorted?
template <typename Key, int kBlocks>
__device__ __forceinline__ bool lopsided(const Cluster<Key, kBlocks>& cluster, unsigned word)
{
    return greatest_of_warp(cluster.leasts[threadIdx.x % kBlocks]) > word;
}

// The greatest word that the k are not below in some block alone, from this block's.
template <typename List>
__device__ __forceinline__ unsigned greatest_of_cluster(List& list, unsigned word, int rank)
{
    constexpr int kBlocks = List::kBlocks;
    if (rank < kBlocks) in_block(&list.cluster, rank)->own_words[__clusterRelativeBlockRank()] = word;
    meet_cluster();
    return greatest_of_warp(list.cluster.own_words[rank % kBlocks]);
}

template <typename List>
__device__ __forceinline__ void tell_count(List& list, int rank)
{
    if (rank < List::kBlocks) in_block(&list.cluster, rank)->counts[__clusterRelativeBlockRank()] = list.count;
}

// The first threshold, as `threshold_of_block` has it. If the blocks of a row look for it together, each does so
// for its share of the k. No group of this warp is below its `least` word.
template <typename List, typename WordOf, typename CountOf>
__device__ __forceinline__ Start<typename List::Key> threshold_of_cluster(
    List& list, int warps, int groups, int rank, const WordOf& word_of, const CountOf& count_of, bool together,
    unsigned least)
{
    constexpr int kWarps = List::kTeam / 32;
    const int wanted = together ? share_of(List::kK, List::kBlocks) : List::kK;
    // The least of many words would be far below the k best: three of four warps are enough.
    const int share = warps > 0 ? share_of(wanted, (3 * warps + 3) / 4) : groups + 1;
    unsigned word = share <= groups ? word_of(share) : 0;
    bool tied = word > 0 && count_of(word) > share + share / 2 + 4;
    const int warp = rank / 32;
    if (warps > 0 && warp >= warps) word = 0xffffffffu, tied = false;
    if (rank % 32 == 0)
        list.tally.least[warp] = word, list.tally.greatest[warp] = tied, list.tally.sums[warp] = least;
    List::Team::sync();
    word = nth_greatest<kWarps>(list.tally.least, warps > 0 ? kWarps - warps + share_of(wanted, share) : 1);
    bool crowded = false;
    if (together) {
        word = word_of_cluster(list, word, least_of_warp(list.tally.sums[rank % kWarps]), rank);
        crowded = lopsided(list.cluster, word);
    }
#pragma unroll
    for (int other = 0; other < kWarps; ++other) tied |= list.tally.greatest[other] != 0;
    typename List::Key threshold, last;
    span_keys(word, word, threshold, last);
    return {threshold, tied && !crowded, crowded};
}

// A word that so many of a warp's items of a tile are not below; the best of each lane's are between `least` and
// `high`. What some rounds of halving do not tell apart is as good as equal: then the least of it is the word.
template <typename List, typename Column, typename KeysOf>
__device__ __noinline__ unsigned among_items(
    int wanted, unsigned least, unsigned high, Column at, Column end, const KeysOf& keys_of)
{
    constexpr int kTeam = List::kTeam, kVectors = List::kVectors, kWidth = List::kWidth, kItems = List::kItems;
    const int live = live_vectors<typename List::Team, kVectors>(at, end);
    unsigned words[kItems];
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {  // no branches: all loads are under way together
        typename List::Key keys[kWidth];
        keys_of(keys, v < live ? at + v * kTeam : end - 1);
#pragma unroll
        for (int e = 0; e < kWidth; ++e) words[v * kWidth + e] = v < live ? top_word(keys[e]) : 0;
    }
    unsigned low = 0, middle = least;  // the first word that is tried
    for (int round = 0; low < high && round < 15; ++round) {
        int count = 0;
#pragma unroll
        for (int i = 0; i < kItems; ++i) count += !(words[i] < middle);
        count = sum_of_warp(count);
        if (count < wanted)
            high = middle - 1;
        else if (low = middle; count <= with_slack(wanted) + 16)
            return low;
        middle = high - (high - low) / 2;
    }
    if (low == 0) return 0;
    unsigned next = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < kItems; ++i) next = words[i] < low ? next : min(next, words[i]);
    return least_of_warp(next);
}

// What so many of all items of a tile reach, none of which has a greater top word than `peak`.
template <typename List, typename KeysOf>
__device__ __forceinline__ typename List::Key threshold_of_all_items(
    List& list, unsigned peak, typename List::Column tile, typename List::Column next, int rank, const KeysOf& keys_of)
{
    constexpr int kTeam = List::kTeam;
    const int warps = next - tile < kTeam ? static_cast<int>(next - tile) / 32 : kTeam / 32;
    const unsigned least = least_of_warp(peak), greatest = greatest_of_warp(peak);
    const auto word_of = [&](int share) {
        return among_items<List>(share, least, greatest, tile + rank, next, keys_of);
    };
    const auto count_of = [](unsigned) { return 0; };
    return threshold_of_cluster(list, warps, 32 * List::kItems, rank, word_of, count_of, false, 0u).threshold;
}

// Raises the threshold by the tiles of all blocks, where those that have the best are crowded: to the greatest word
// that the k best of one block reach. As many of its warps as it takes have their part of these. Where a row is
// in order, the best of a warp are the items of one vector of its lanes: the least of their best is not below
// any but the last ones.
template <typename List, typename KeysOf>
__device__ __forceinline__ void raise_by_blocks(
    List& list, unsigned peak, typename List::Column at, typename List::Column end, int rank, const KeysOf& keys_of)
{
    constexpr int kWarps = List::kTeam / 32, kEach = share_of(List::kK, kWarps), kInOrder = 31 * List::kWidth + 1;
    constexpr int kPart = List::kCutAt < kInOrder ? List::kK : kEach > kInOrder ? kEach : kInOrder;
    const unsigned least = least_of_warp(peak), greatest = greatest_of_warp(peak);
    const unsigned own = among_items<List>(kPart, least, greatest, at, end, keys_of);
    if (rank % 32 == 0) list.tally.least[rank / 32] = own;
    List::Team::sync();
    const unsigned mine = nth_greatest<kWarps>(list.tally.least, share_of(List::kK, kPart));
    const unsigned word = greatest_of_cluster(list, mine, rank);
    typename List::Key threshold, last;
    span_keys(word, word, threshold, last);
    if (rank == 0 && list.threshold < threshold) list.threshold = threshold;
    List::Team::sync();
}

template <typename List, typename KeyAt, typename KeysOf>
__device__ __noinline__ void rescan_in_cluster(
    List& list, unsigned peak, typename List::Column tile, typename List::Column end, int rank, const KeyAt& key_at,
    const KeysOf& keys_of, bool lopsided)
{
    rescan_tile(list, peak, tile, end, rank, key_at, keys_of, lopsided);
}

}  // namespace fusegen
