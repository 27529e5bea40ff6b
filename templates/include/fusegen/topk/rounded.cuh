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

// Are some keys better than those before them?
template <int kK, typename Key>
__device__ __forceinline__ bool out_of_order(const Key (&keys)[kK])
{
    bool found = false;
#pragma unroll
    for (int i = 0; i + 1 < kK; ++i) found |= keys[i] < keys[i + 1];
    return found;
}

// The team's best of its lanes' kItems items, whose orders are words, 0 for none; `key_of` makes the whole key of a
// column of the row, which is in shared memory, and columns have kBits.
template <int kTeam, typename Keys, int kBits, int kK, int kItems, typename ColumnOf, typename KeyOf>
__device__ __forceinline__ void take_rounded(
    typename Keys::Key (&best)[kK], const unsigned (&words)[kItems], int live, const ColumnOf& column_of,
    const KeyOf& key_of)
{
    typedef RoundedKeys<kBits> Rounded;
    constexpr int kSeen = kK < kTeam * kItems ? kK + 1 : kK;  // one behind the list
    const auto word_of = [&](int column) { return Keys::order_of(key_of(column)); };
    unsigned keys[kItems], top[kSeen];
#pragma unroll
    for (int i = 0; i < kItems; ++i) keys[i] = Rounded::key(words[i], column_of(i));
    // Twice at most: again where others have the key of the list's last but for digits that are left out.
#pragma unroll 1
    for (bool again = false;; again = true) {
        take_best(top, keys);
        take_of_lanes<kTeam>(top);
        const bool shared = kSeen > kK && top[kSeen - 1] > 0 && Rounded::same(top[kK - 1], top[kSeen - 1]);
        if (again || !__any_sync(0xffffffffu, shared)) break;
        const unsigned bar = word_of(Rounded::column(top[kK - 1]));
        bool open = false;
#pragma unroll 4
        for (int i = 0; i < kItems; ++i) {
            if (i >= live) continue;
            const unsigned word = word_of(column_of(i));
            open |= word != bar && Rounded::same(word, bar);
        }
        if (!__any_sync(0xffffffffu, open)) break;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            keys[i] = 0;
            if (i < live) keys[i] = Rounded::key_at(bar, word_of(column_of(i)), column_of(i));
        }
    }
#pragma unroll
    for (int i = 0; i < kK; ++i) {
        const typename Keys::Key key = key_of(Rounded::column(top[i]));
        best[i] = top[i] > 0 ? key : 0;
    }
    if (__any_sync(0xffffffffu, out_of_order(best))) sort<kK>(best);
}

}  // namespace fusegen
