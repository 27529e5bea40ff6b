#pragma once
// A list of a row in a warp's registers: a bar by counting, places for what reaches it, and its order.

#include <fusegen/math/greater_of.cuh>
#include <fusegen/topk/merged.cuh>
#include <fusegen/warp.cuh>

namespace fusegen {

// A value's order that at least k of a warp's numbers reach, and at most `most` where it can be told
// without being exact.
template <int kCount>
__device__ __forceinline__ unsigned bar_among(const unsigned (&orders)[kCount], int k, int most)
{
    unsigned low = orders[0], high = orders[0];
#pragma unroll
    for (int i = 1; i < kCount; ++i) low = min(low, orders[i]), high = max(high, orders[i]);
    const auto count_of = [&](unsigned order) {
        unsigned reach = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) reach += orders[i] >= order;
        return static_cast<int>(sum_of_warp(reach));
    };
    const auto below = [&](unsigned order) {
        unsigned next = 0;
#pragma unroll
        for (int i = 0; i < kCount; ++i) next = max(next, orders[i] < order ? orders[i] : 0);
        return greatest_of_warp(next);
    };
    return word_of_warp(k, most, least_of_warp(low), greatest_of_warp(high), count_of, below);
}

// Which of a lane's items are the k best of the row, a bit each: those above the k-th, and of its equals
// those of the lowest columns.
template <int kVectors, int kWidth>
__device__ __forceinline__ unsigned exactly(const unsigned (&orders)[kVectors * kWidth], int live, int k, int rank)
{
    constexpr int kItems = kVectors * kWidth;
    const unsigned bar = bar_among(orders, k, k);
    unsigned above = 0, ties = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (i / kWidth >= live) break;
        if (orders[i] > bar) above |= 1u << i;
        if (orders[i] == bar) ties |= 1u << i;
    }
    int wanted = k - static_cast<int>(sum_of_warp(__popc(above)));
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
        unsigned here = ties >> (v * kWidth) & ((1u << kWidth) - 1);
        int free = wanted - static_cast<int>(sum_of_lower(__popc(here), rank));
        wanted -= static_cast<int>(sum_of_warp(__popc(here)));
        for (; here != 0 && free > 0; here &= here - 1, --free) above |= (here & -here) << (v * kWidth);
    }
    return above;
}

// Sorts keys, one a lane, each to its place by counting those that are greater; the first k are wanted.
template <typename Key>
__device__ __forceinline__ void sort_one_a_lane(Key mine, Key* slots, Key* to, int count, int k, int rank)
{
    __syncwarp();
    slots[rank] = mine;
    __syncwarp();
    int place = 0;
#pragma unroll 4
    for (int other = 0; other < count; ++other) place += slots[other] > mine;
    if (mine > 0 && place < k) to[place] = mine;
    __syncwarp();
}

// A row in a warp's registers: its kK best, in order, to `best`. About as many items reach a bar that is found by
// counting; they meet in `slots`, where there is room for kMine of each lane. `value_of` is the value of a chunk's
// item, `key_at` brings the key of a column from memory; `edge` is the column of one more element, or -1.
template <typename Keys, int kVectors, int kWidth, int kK, int kMine, typename ValueOf, typename ColumnOf,
          typename KeyAt>
__device__ __forceinline__ void count_best(
    typename Keys::Key* best, typename Keys::Key* slots, int live, int rank, typename Keys::Column edge, int room,
    const ValueOf& value_of, const ColumnOf& column_of, const KeyAt& key_at)
{
    typedef typename Keys::Key Key;
    typedef typename Keys::Value Value;
    typedef typename Keys::Column Column;
    constexpr int kTeam = 32, kItems = kVectors * kWidth;
    // The bar: the k-th best or so of the peaks of some groups of items.
    Value peaks[kWidth];
#pragma unroll
    for (int item = 0; item < kWidth; ++item) peaks[item] = Keys::Order::lowest();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (i / kWidth >= live) break;
        peaks[i % kWidth] = greater_of(peaks[i % kWidth], value_of(i));
    }
    unsigned peak_orders[kWidth];
#pragma unroll
    for (int item = 0; item < kWidth; ++item) peak_orders[item] = live > 0 ? Keys::order(peaks[item]) : 0;
    const Value bar = Keys::value_of_order(bar_among(peak_orders, kK, kK + kK / 8 + 4));

    // The items that reach it, a bit each; NaN does.
    unsigned reach = 0;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (i / kWidth >= live) break;
        if (!(value_of(i) < bar)) reach |= 1u << i;
    }
    if (sum_of_warp(__popc(reach)) > room) {
        unsigned orders[kItems];
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            orders[i] = 0;
            if (i / kWidth >= live) continue;
            orders[i] = Keys::order(value_of(i));
        }
        reach = exactly<kVectors, kWidth>(orders, live, kK, rank);
    }

    // They meet in shared memory as columns: then lanes that have none can help to bring them again.
    const int mine = __popc(reach) + (edge >= 0);
    int place = static_cast<int>(sum_of_lower(mine, rank));
    const int count = __shfl_sync(0xffffffffu, place + mine, 31);
    for (; reach != 0; reach &= reach - 1) slots[place++] = column_of(__ffs(reach) - 1);
    if (edge >= 0) slots[place] = edge;
    __syncwarp();
    Key found[kMine] = {};
#pragma unroll
    for (int m = 0; m < kMine; ++m) {
        if (m * kTeam + rank >= count) break;
        found[m] = key_at(static_cast<Column>(slots[m * kTeam + rank]));
    }
    if constexpr (kMine == 1) {
        sort_one_a_lane(found[0], slots, best, count, kK, rank);
    } else {
        sort_of_lanes<kTeam>(found, rank);
#pragma unroll
        for (int m = 0; m < kMine; ++m)
            if (rank * kMine + m < kK) best[rank * kMine + m] = found[m];
        __syncwarp();
    }
}

}  // namespace fusegen
