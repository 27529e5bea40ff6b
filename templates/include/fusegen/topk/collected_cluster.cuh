#pragma once
// A list of a row whose slices the blocks of a cluster hold: what reaches a bar of all meets in the first block.

#include <fusegen/cluster.cuh>
#include <fusegen/topk/collected.cuh>

namespace fusegen {

// What a warp tells all blocks of the row: a word that its share of what is sought reaches, and its greatest word.
struct Told {
    unsigned word, share, high;
};

// Where a block of a cluster collects; candidates are in the first one.
template <typename TeamType, typename KeysType, int kBest, int kRoomFor, int kBinBits, int kBlockCount>
struct CollectedCluster : Collected<TeamType, KeysType, kBest, kRoomFor, kBinBits> {
    static constexpr int kBlocks = kBlockCount, kWarps = kBlocks * TeamType::kThreads / 32;  // of the row
    // The least of many words would be far below the kBest: three of four warps are enough.
    static constexpr int kSought = kBest + (kBest + 2) / 3, kShare = kSought / kWarps;
    typedef Collected<TeamType, KeysType, kBest, kRoomFor, kBinBits> OfBlock;
    static constexpr bool kByLanes = kShare <= OfBlock::kMostShare, kOneByOne = kShare <= OfBlock::kMostInTurn;

    unsigned bar;
    Told told[kWarps];
};

// The greatest word that warps reach who have kBest elements between them. Several lanes hold a warp's word to others'.
template <typename CollectedType>
__device__ __forceinline__ unsigned bar_of_cluster(CollectedType& collected, int rank)
{
    constexpr int kWarps = CollectedType::kWarps, kThreads = CollectedType::Team::kThreads;
    constexpr int kLanes = kThreads >= 8 * kWarps ? 8 : kThreads >= 4 * kWarps ? 4 : 2;
    static_assert(kThreads >= 2 * kWarps, "no lanes for a warp's word");
    const int warp = rank / kLanes;
    const unsigned word = warp < kWarps ? collected.told[warp].word : 0;
    unsigned reach = 0;
#pragma unroll 8
    for (int other = rank % kLanes; other < kWarps; other += kLanes)
        reach += collected.told[other].word >= word ? collected.told[other].share : 0;
#pragma unroll
    for (int apart = 1; apart < kLanes; apart *= 2) reach += __shfl_xor_sync(0xffffffffu, reach, apart);
    if (warp < kWarps && reach >= CollectedType::kK) atomicMax(&collected.bar, word);
    CollectedType::Team::sync();
    return collected.bar;
}

// Brings what reaches the bar of all blocks of a row to the first one, in no order; says what the bar is. `vectors` are
// the row's. What is brought is there when blocks have met once more.
template <typename CollectedType, typename Column, typename Peaks, typename Items, typename KeyAt>
__device__ __forceinline__ unsigned reach_in_cluster(
    CollectedType& collected, Column vectors, int live, int rank, Column edge, const Peaks& peaks, Items& items,
    const KeyAt& key_at)
{
    typedef typename CollectedType::Key Key;
    typedef typename CollectedType::Team Team;
    const int lane = rank % 32;
    if (rank == 0) collected.count = collected.bar = 0;
    clear_bins(collected.tally, rank);
    Key lone{};
    if (edge >= 0) lone = key_at(edge);
    const unsigned high = greatest_of_warp(max(edge >= 0 ? top_word(lone) : 0u, Peaks::last_word(peaks.high())));
    const int all_vectors = static_cast<int>(vectors), mine = static_cast<int>(sum_of_warp(live));
    const unsigned word = word_of_share<CollectedType>(peaks, live, all_vectors, rank);
    const unsigned share = mine > 0 ? share_of_warp<CollectedType>(mine, all_vectors) : 0;
    __cluster_barrier_wait();  // all blocks of the row are there
    if (lane < CollectedType::kBlocks) {
        Told* told = collected.told + __clusterRelativeBlockRank() * (Team::kThreads / 32) + rank / 32;
        *in_block(told, lane) = {word, share, high};
    }
    meet_cluster();
    const unsigned bar = bar_of_cluster(collected, rank), low = Peaks::least_word(bar);
    const bool alone = edge >= 0 && top_word(lone) >= low;
    items.reach(bar);
    bring(*in_block(&collected, 0), items, alone, lone, edge, rank);
    return low;
}

// The kK best of what was brought to this block, in order, to `collected.best`. kKeys: it is keys, not columns.
template <bool kKeys, typename CollectedType, typename Column, typename KeyAt>
__device__ __forceinline__ void order_in_cluster(
    CollectedType& collected, Column n_cols, unsigned low, int rank, const KeyAt& key_at)
{
    unsigned high = 0;
    for (int warp = rank % 32; warp < CollectedType::kWarps; warp += 32) high = max(high, collected.told[warp].high);
    high = greatest_of_warp(high);
    const int count = static_cast<int>(collected.count);
    order_brought<kKeys>(collected, WholeRow<Column>{n_cols}, count, low, high, rank, key_at);
}

}  // namespace fusegen
