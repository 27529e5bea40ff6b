#pragma once
// Lists in order that a team's lanes hold together: each lane has every kTeam-th entry.

#include <fusegen/team.cuh>
#include <fusegen/topk/networks.cuh>

namespace fusegen {

// Which entries a lane has while lists merge: those number slot, slot + kLanes, … of the list that kLanes lanes have.
// Slots are in Gray's order (lanes 0, 1, 3, 2, 6, 7, 5, 4, …), in which lanes keep their slots when their number
// doubles, and lanes whose slots differ in one digit, or in all, are one mask apart.
__device__ constexpr int lane_of_slot(int slot) { return slot ^ slot >> 1; }
// Is that digit of the lane's slot 0? kStep is a power of two below kLanes.
template <int kLanes>
__device__ __forceinline__ bool lower_slot(int rank, int step)
{
    return (__popc(rank & (kLanes - step)) & 1) == 0;
}

// Lanes' keys, in order in each, put in order from lane to lane, where of those that reach any bar no lane has more
// than one more than another: the last rounds of Batcher's bitonic merge, whose first ones lanes did by themselves.
template <int kLanes, int kMine, typename Key>
__device__ __forceinline__ void settle(Key (&mine)[kMine], int rank)
{
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) {
        const bool lower = lower_slot<kLanes>(rank, step);
#pragma unroll
        for (int m = 0; m < kMine; ++m) {
            const Key other = __shfl_xor_sync(0xffffffffu, mine[m], lane_of_slot(step));
            mine[m] = (mine[m] > other) == lower ? mine[m] : other;
        }
    }
}

// The best of two lists, of kLanes lanes each, in twice as many; n = 2 kLanes kNext entries. Entry i of one list stands
// against entry n - 1 - i of the other (0 where there is none); the better ones fall and then rise, and so do those of
// every slot. Those of a lane are its own entries number 0, 2, … and another lane's number …, 3, 1.
template <int kLanes, int kNext, int kMine, typename Key>
__device__ __forceinline__ void meet(Key (&next)[kNext], const Key (&mine)[kMine], int rank)
{
#pragma unroll
    for (int j = 0; j < kNext; ++j) {
        const int ours = 2 * j, theirs = 2 * (kNext - 1 - j) + 1;
        next[j] = ours < kMine ? mine[least_of(ours, kMine - 1)] : 0;
        if (theirs < kMine) {
            const Key other =
                __shfl_xor_sync(0xffffffffu, mine[least_of(theirs, kMine - 1)], lane_of_slot(kLanes));
            next[j] = ours < kMine ? max(next[j], other) : other;
        }
    }
    straighten<kNext>(next);
    settle<2 * kLanes>(next, rank);
}

// The kBest best of lists of kMine keys, in order, one in every lane of a team; entries in order of slots. Lists of
// ever more lanes merge.
template <int kTeam, int kBest, int kLanes = 1, int kOwn, int kMine, typename Key>
__device__ __forceinline__ void merge_lists(Key (&own)[kOwn], const Key (&mine)[kMine], int rank)
{
    if constexpr (kLanes == kTeam) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) own[i] = i < kMine ? mine[least_of(i, kMine - 1)] : 0;
    } else {
        Key next[least_of(kMine, share_of(kBest, 2 * kLanes))];
        meet<kLanes>(next, mine, rank);
        merge_lists<kTeam, kBest, 2 * kLanes>(own, next, rank);
    }
}

// The best of two lists that the team has.
template <int kTeam, int kOwn, typename Key>
__device__ __forceinline__ void take_list(Key (&own)[kOwn], const Key (&more)[kOwn], int rank)
{
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const Key other = __shfl_xor_sync(0xffffffffu, more[kOwn - 1 - i], lane_of_slot(kTeam - 1));
        own[i] = max(own[i], other);
    }
    straighten<kOwn>(own);
    settle<kTeam>(own, rank);
}

// Entry number kEntry of the team's list, for all.
template <int kTeam, int kEntry, int kOwn, typename Key>
__device__ __forceinline__ Key entry_of(const Key (&own)[kOwn])
{
    return __shfl_sync(0xffffffffu, own[kEntry / kTeam], lane_of_slot(kEntry % kTeam), kTeam);
}

// From slots to lanes: each has the entries number rank, rank + kTeam, …
template <int kTeam, int kOwn, typename Key>
__device__ __forceinline__ void give_out(Key (&own)[kOwn], int rank)
{
    if constexpr (kTeam > 2) {
#pragma unroll
        for (int i = 0; i < kOwn; ++i) own[i] = __shfl_sync(0xffffffffu, own[i], lane_of_slot(rank), kTeam);
    }
}

}  // namespace fusegen
