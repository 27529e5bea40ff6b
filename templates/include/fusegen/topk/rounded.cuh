#pragma once
// Lists in the registers of lanes, sorted by keys of 32 bits: a value's order without its last digits, in whose place
// the column stands. Networks of these take a third of the instructions that keys of 64 bits take; what is left open,
// values that differ in those digits alone, is settled by whole keys.

#include <fusegen/topk/sorted.cuh>

namespace fusegen {

// Keys of items whose orders are words, 0 for none; kBits for the column. Words are those of float32: the least of
// them, of -inf, has more bits than columns take.
template <int kBits>
struct RoundedKeys {
    static constexpr unsigned kLast = (1u << kBits) - 1;
    static constexpr unsigned kAbove = 0x80000000u, kAtBar = 0x40000000u;

    // Of none the first, which every row has: there is no branch around what waits for memory.
    static __device__ __forceinline__ int column(unsigned key) { return key > 0 ? kLast - (key & kLast) : 0; }
    static __device__ __forceinline__ unsigned key(unsigned word, int column)
    {
        return word > 0 ? (word & ~kLast) | (kLast - column) : 0;
    }
    // Do two keys leave their order open?
    static __device__ __forceinline__ bool same(unsigned a, unsigned b) { return (a ^ b) <= kLast; }
    // Keys that tell those apart that are as good as the `bar`; the others above it lose a digit, the rest all.
    static __device__ __forceinline__ unsigned key_at(unsigned bar, unsigned word, int column)
    {
        const unsigned last = kLast - column;
        if (same(word, bar)) return kAtBar | (word & kLast) << kBits | last;
        return word > bar ? kAbove | (word >> 1 & ~kLast) | last : 0;
    }
};

// Are some of the team's entries better than those before them? Each lane has those number rank, rank + kTeam, …
template <int kTeam, int kOwn, typename Key>
__device__ __forceinline__ bool out_of_order(const Key (&own)[kOwn], int rank)
{
    bool found = false;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        Key after = i + 1 < kOwn ? own[least_of(i + 1, kOwn - 1)] : 0;
        if constexpr (kTeam > 1) after = __shfl_sync(0xffffffffu, rank == 0 ? after : own[i], rank + 1, kTeam);
        found |= own[i] < after;
    }
    return found;
}

// The team's best of its lanes' kItems items, whose orders are words, 0 for none, by rounded keys, in order of slots.
// `word_of` looks up the word of a column. Each lane sorts kKept of its items first.
template <int kTeam, int kBest, int kKept, typename Rounded, int kOwn, int kItems, typename ColumnOf, typename WordOf>
__device__ __forceinline__ void best_rounded(
    unsigned (&top)[kOwn], const unsigned (&words)[kItems], int live, int rank, const ColumnOf& column_of,
    const WordOf& word_of)
{
    constexpr int kSeen = kBest < kTeam * kItems ? kBest + 1 : kBest;  // one behind the list
    unsigned keys[kItems], bar = 0;
    const auto key_of = [&](int i, bool at_bar) {
        if (i >= live) return 0u;
        const unsigned word = word_of(column_of(i));
        return at_bar ? Rounded::key_at(bar, word, column_of(i)) : Rounded::key(word, column_of(i));
    };
#pragma unroll
    for (int i = 0; i < kItems; ++i) keys[i] = Rounded::key(words[i], column_of(i));
    // Twice at most: again where others have the key of the list's last but for digits that are left out.
#pragma unroll 1
    for (bool again = false;; again = true) {
        best_of_team<kTeam, kSeen, kKept>(top, keys, rank, [&](int i) { return key_of(i, again); });
        if constexpr (kSeen == kBest) break;
        const unsigned last = entry_of<kTeam, kBest - 1>(top), behind = entry_of<kTeam, kSeen - 1>(top);
        if (again || !__any_sync(0xffffffffu, behind > 0 && Rounded::same(last, behind))) break;
        bar = word_of(Rounded::column(last));
        bool open = false;
#pragma unroll 4
        for (int i = 0; i < kItems; ++i) {
            if (i >= live) continue;
            const unsigned word = word_of(column_of(i));
            open |= word != bar && Rounded::same(word, bar);
        }
        if (!__any_sync(0xffffffffu, open)) break;
#pragma unroll
        for (int i = 0; i < kItems; ++i) keys[i] = key_of(i, true);
    }
}

// Likewise, as whole keys: each lane gets the entries number rank, rank + kTeam, … `key_of` makes the key of a column
// of the row, which is in shared memory, and columns have kBits.
template <
    int kTeam, int kBest, int kKept, typename Keys, int kBits, int kOwn, int kItems, typename ColumnOf, typename KeyOf>
__device__ __forceinline__ void take_rounded(
    typename Keys::Key (&own)[kOwn], const unsigned (&words)[kItems], int live, int rank, const ColumnOf& column_of,
    const KeyOf& key_of)
{
    typedef RoundedKeys<kBits> Rounded;
    unsigned top[share_of(least_of(kBest + 1, kTeam * kItems), kTeam)];
    best_rounded<kTeam, kBest, kKept, Rounded>(
        top, words, live, rank, column_of, [&](int column) { return Keys::order_of(key_of(column)); });
    give_out<kTeam>(top, rank);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const typename Keys::Key key = key_of(Rounded::column(top[i]));
        own[i] = top[i] > 0 && i * kTeam + rank < kBest ? key : 0;
    }
    if (__any_sync(0xffffffffu, out_of_order<kTeam>(own, rank))) {
        typename Keys::Key found[kOwn];
        sort<kOwn>(own);
        merge_lists<kTeam, kBest>(found, own, rank);
        give_out<kTeam>(found, rank);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) own[i] = found[i];
    }
}

}  // namespace fusegen
