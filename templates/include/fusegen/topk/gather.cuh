#pragma once
// A cluster's candidates for a list come to its first block.

#include <fusegen/topk/cluster.cuh>

namespace fusegen {

// The number of candidates in the first `blocks` blocks.
template <typename List>
__device__ __forceinline__ int sum_of_counts(const List& list, int blocks)
{
    int sum = 0;
#pragma unroll
    for (int block = 0; block < List::kBlocks; ++block) sum += block < blocks ? list.cluster.counts[block] : 0;
    return sum;
}

// Of the keys that the blocks have told, the n-th greatest.
template <int kBlocks, typename Key>
__device__ __forceinline__ Key nth_told(const Key* keys, int n)
{
    const int lane = threadIdx.x % 32, block = lane < kBlocks ? lane : 0;
    int place = 0;
    for (int other = 0; other < kBlocks; ++other)
        place += other < block ? !(keys[other] < keys[block]) : keys[other] > keys[block];
    return keys[__ffs(__ballot_sync(0xffffffffu, lane < kBlocks && place == n - 1)) - 1];
}

// A key that so many of a list's candidates reach; the least one if they are fewer.
template <typename List>
__device__ __forceinline__ typename List::Key reached_by(List& list, int wanted, int rank)
{
    typedef typename List::Key Key;
    if (list.count < wanted) return Key{};
    return select(list.slots, list.count, wanted, with_slack(wanted), list.tally, rank);
}

// Drops candidates that are below what the shares of all blocks reach, or k candidates of one of them.
template <typename List>
__device__ __noinline__ void narrow(List& list, int rank)
{
    typedef typename List::Key Key;
    const int wanted = share_of(List::kK, List::kBlocks);  // of each block
    const Key share = reached_by(list, wanted, rank), best = reached_by(list, List::kK, rank);
    if (rank < List::kBlocks) {
        auto* cluster = in_block(&list.cluster, rank);
        cluster->shares[__clusterRelativeBlockRank()] = share;
        cluster->bests[__clusterRelativeBlockRank()] = best;
    }
    meet_cluster();
    Key threshold = nth_told<List::kBlocks>(list.cluster.shares, share_of(List::kK, wanted));
    const Key greatest = nth_told<List::kBlocks>(list.cluster.bests, 1);
    if (threshold < greatest) threshold = greatest;
    if (threshold < list.threshold) threshold = list.threshold;
    drop_below(list, threshold, list.count, rank);
    List::Team::sync();
    tell_count(list, rank);
    meet_cluster();
}

// Takes over the candidates of all other blocks, and cuts the list as often as it is full.
template <typename List>
__device__ __noinline__ void take_over(List& list, int rank)
{
    typedef typename List::Key Key;
    for (int block = 1; block < List::kBlocks; ++block) {
        const List* there = in_block(&list, block);
        for (int first = 0; first < list.cluster.counts[block]; first += List::kTeam) {
            const int j = first + rank;
            const auto key_of = [&](int) { return there->slots[j]; };
            const unsigned pending = reaching(j < list.cluster.counts[block], list.threshold, key_of);
            offer_all(list, pending, pending ? key_of(0) : Key{}, rank, key_of);
        }
    }
}

// Brings the candidates of all blocks to the first one. The cluster has met since each told its count.
template <typename List>
__device__ __forceinline__ void gather(List& list, int rank)
{
    const int block = __clusterRelativeBlockRank();
    if (sum_of_counts(list, List::kBlocks) > List::kBeside) narrow(list, rank);
    const int all = sum_of_counts(list, List::kBlocks);
    if (all > List::kBeside) {
        if (block == 0) take_over(list, rank);
    } else if (block > 0) {
        List* first = in_block(&list, 0);
        const int before = sum_of_counts(list, block), count = list.count;
        for (int j = rank; j < count; j += List::kTeam) first->slots[before + j] = list.slots[j];
    } else if (rank == 0) {
        list.count = all;
    }
    meet_cluster();
}

}  // namespace fusegen
