#pragma once
// Lists of a few entries of rows that go by: a thread waits for nobody meanwhile. It notes which of its chunks have the
// greatest items; those that may have one of the best are read once more when the row has ended. Teams are blocks.

#include <fusegen/topk/finish.cuh>

namespace fusegen {

// A thread's kK chunks with the greatest items, the greatest first and of equal ones the first: the order of that item,
// 0 where there is no chunk, and the chunk's first vector. Whatever is among the thread's kK best is in one of them.
template <typename List>
struct Noted {
    typedef typename List::Keys Keys;
    typedef typename List::Column Column;
    static constexpr int kK = List::kK;
    unsigned word[kK];
    Column at[kK];

    __device__ __forceinline__ Noted() : word{}, at{} {}

    __device__ __forceinline__ void meet(const Keys& keys, typename Keys::Value greatest, Column chunk)
    {
        unsigned mine = top_word(keys.least_key(greatest, 0));
        bool more = false;  // than one before: those behind it move on, equal ones too
#pragma unroll
        for (int j = 0; j < kK; ++j) {
            more |= mine > word[j];
            const unsigned less = more ? word[j] : mine;
            const Column there = more ? at[j] : chunk;
            word[j] = more ? mine : word[j];
            at[j] = more ? chunk : at[j];
            mine = less, chunk = there;
        }
    }
    // The next one comes first.
    __device__ __forceinline__ void drop_first()
    {
#pragma unroll
        for (int j = 0; j + 1 < kK; ++j) word[j] = word[j + 1], at[j] = at[j + 1];
        word[kK - 1] = 0;
    }
};

// A word that the greatest items of kK noted chunks are not below, if so many are noted, else 0: the greatest of those
// that each warp finds, where chunks that tie count as one. Every thread of the team takes part.
template <typename List>
__device__ __forceinline__ unsigned bar_of_noted(List& list, Noted<List> noted, int rank)
{
    unsigned bar = 0;
#pragma unroll
    for (int j = 0; j < List::kK; ++j) {
        bar = greatest_of_warp(noted.word[0]);
        if (noted.word[0] == bar) noted.drop_first();
    }
    if (rank % 32 == 0) list.tally.least[rank / 32] = bar;
    List::Team::sync();
#pragma unroll
    for (int other = 0; other < List::kTeam / 32; ++other) bar = max(bar, list.tally.least[other]);
    return bar;
}

// Puts a key where it belongs among a thread's kK best, if it does.
template <int kK, typename Key>
__device__ __forceinline__ void insert_key(Key (&best)[kK], Key key)
{
#pragma unroll
    for (int j = 0; j < kK; ++j) {
        const bool more = key > best[j];
        const Key less = more ? best[j] : key;
        best[j] = more ? key : best[j];
        key = less;
    }
}

// The kK best of a warp's keys, each from the lane that has it; where no more are left, other keys that are less than
// any and than one another.
template <int kK>
__device__ __forceinline__ void best_of_warp(
    unsigned long long (&best)[kK], unsigned long long* of_warps, int warp, int lane)
{
#pragma unroll
    for (int j = 0; j < kK; ++j) {
        const unsigned high = greatest_of_warp(top_word(best[0]));
        const unsigned low = greatest_of_warp(top_word(best[0]) == high ? static_cast<unsigned>(best[0]) : 0);
        const unsigned long long greatest = static_cast<unsigned long long>(high) << 32 | low;
        if (best[0] == greatest) {
#pragma unroll
            for (int i = 0; i + 1 < kK; ++i) best[i] = best[i + 1];
            best[kK - 1] = 0;
        }
        const int place = warp * kK + j;
        if (lane == 0) of_warps[place] = greatest > 0 ? greatest : place;
    }
}

// Reads the chunks once more that may have one of the kK best, and fills an empty list with these, in order. `keys_of`
// brings the keys of a vector. Every thread of the team takes part; the list is there when they go on.
template <typename List, typename KeysOf>
__device__ __forceinline__ void look_again(
    List& list, Noted<List>& noted, typename List::Column begin, typename List::Column end, int rank,
    const KeysOf& keys_of)
{
    typedef typename List::Key Key;
    typedef typename List::Column Column;
    typedef typename List::Team Team;
    constexpr int kK = List::kK, kWidth = List::kWidth, kVectors = List::kVectors, kWarps = List::kTeam / 32;
    static_assert(kWarps * kK <= List::kSlots - List::kBeside, "no room for the keys of all warps");
    const unsigned bar = bar_of_noted(list, noted, rank);
    Key best[kK] = {};
#pragma unroll 1
    for (int j = 0; j < kK && noted.word[0] > 0 && noted.word[0] >= bar; ++j) {
        const Column at = noted.at[0];
        const int live = live_vectors<Team, kVectors>(at, end);
#pragma unroll
        for (int v = 0; v < kVectors; ++v) {
            Key keys[kWidth];
            keys_of(keys, at + (v < live ? v : 0) * Team::threads());  // all of them on their way together
#pragma unroll
            for (int i = 0; i < kWidth; ++i)
                if (v < live) insert_key(best, keys[i]);
        }
        noted.drop_first();
    }
    Key* of_warps = list.slots + List::kBeside;
    best_of_warp(best, of_warps, rank / 32, rank % 32);
    const Column items = begin < end ? (end - begin) * kWidth : 0;
    if (rank == 0) list.count = items < kK ? static_cast<int>(items) : kK;
    Team::sync();
    sort_by_counting<Team>(of_warps, list.slots, kWarps * kK, kK, rank);
}

}  // namespace fusegen
