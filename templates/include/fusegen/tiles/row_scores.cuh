#pragma once
// The text's own scores of what rounds have left of a row, a warp's.

#include <fusegen/tiles/rounds.cuh>

namespace fusegen {

// For a warp: sums over the index of a row's vector and one of each of kTogether columns; `term` adds to a sum.
template <int kTogether, int kLength, typename T, typename Read, typename Term>
__device__ __forceinline__ void inner_of_warp(
    float (&sums)[kTogether], const float (&row)[(kLength + 31) / 32], const T* const (&columns)[kTogether],
    const Read& read, const Term& term)
{
    constexpr int kOwn = (kLength + 31) / 32;
    T numbers[kTogether][kOwn];
#pragma unroll
    for (int column = 0; column < kTogether; ++column)
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const int at = 32 * i + threadIdx.x % 32;
            if (at < kLength) numbers[column][i] = columns[column][at];
        }
#pragma unroll
    for (int column = 0; column < kTogether; ++column) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < kOwn; ++i)
            if (32 * i + static_cast<int>(threadIdx.x % 32) < kLength)
                sum = term(sum, row[i], read(numbers[column][i]));
#pragma unroll
        for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lane_mask);
        sums[column] = sum;
    }
}

// For a warp: keys of 32 columns, one for each lane; of no column, -1, it is 0. `score_of` makes four scores at a time.
template <typename Key, typename ScoreOf, typename KeyOf>
__device__ __forceinline__ Key keys_of_warp(int column, int count, const ScoreOf& score_of, const KeyOf& key_of)
{
    float mine = 0;
#pragma unroll 1
    for (int from = 0; from < count; from += 4) {
        int columns[4];
        float scores[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) columns[i] = __shfl_sync(0xffffffffu, column, min(from + i, count - 1));
        score_of(scores, columns);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (static_cast<int>(threadIdx.x % 32) == from + i) mine = scores[i];
    }
    return column < 0 ? Key{} : key_of(mine, column);
}

// For a warp: the kK best of a row by the text's own scores, in order, to `best`.
template <int kK, int kRoom, typename ScoreOf, typename KeyOf>
__device__ __forceinline__ void score_row(
    unsigned long long* slots, unsigned long long* best, const RowBound& bound, int n_cols, const ScoreOf& score_of,
    const KeyOf& key_of)
{
    typedef unsigned long long Key;
    const int lane = threadIdx.x % 32;
    int count = 0;
    if (bound.count <= kRoom) {
        for (; count < bound.count; count += 32) {
            const int some = min(32, bound.count - count);
            const int column = lane < some ? static_cast<int>(static_cast<unsigned>(slots[count + lane])) : -1;
            const Key key = keys_of_warp<Key>(column, some, score_of, key_of);
            if (lane < some) slots[count + lane] = key;
        }
        count = bound.count;
    } else {
        Key bar = 0;
#pragma unroll 1
        for (int from = 0; from < n_cols; from += 32) {
            const int some = min(32, n_cols - from);
            const Key key = keys_of_warp<Key>(lane < some ? from + lane : -1, some, score_of, key_of);
            const unsigned offers = __ballot_sync(0xffffffffu, key > bar);
            if (key > bar) slots[count + __popc(offers & ((1u << lane) - 1))] = key;
            count += __popc(offers);
            __syncwarp();
            if (count + 32 <= min(kRoom, 2 * kK + 64)) continue;
            bar = keep_best<kK, kRoom>(slots, count);
            count = kK;
        }
    }
    __syncwarp();
    if (count > kK + 32) {  // those whose value is as great as the K-th greatest
        unsigned order = 0;
        for (int bit = 31; bit >= 0; --bit) {
            const unsigned higher = order | 1u << bit;
            unsigned reach = 0;
            for (int i = lane; i < count; i += 32) reach += static_cast<unsigned>(slots[i] >> 32) >= higher;
            if (sum_of_warp(reach) >= kK) order = higher;
        }
        count = keep_keys(slots, count, [&](Key key) { return static_cast<unsigned>(key >> 32) >= order; });
    }
    for (int i = count + lane; i < kK; i += 32) best[i] = 0;
    for (int i = lane; i < count; i += 32) {
        const Key key = slots[i];
        int place = 0;
        for (int other = 0; other < count; ++other) place += slots[other] > key;
        if (place < kK) best[place] = key;
    }
    __syncwarp();
}

}  // namespace fusegen
