#pragma once
// A list of a row in a warp's registers, of which it may be a large part: items are dealt to bins that lie evenly
// between the row's extremes, about one to a bin, and inside a bin each counts how many are better.

#include <fusegen/topk/order.cuh>
#include <fusegen/topk/search.cuh>

namespace fusegen {

// Where a warp deals. Bins that reach into the first kK have kFull items at most.
template <typename KeysType, int kBest, int kBinBits>
struct Dealt {
    typedef KeysType Keys;
    typedef typename Keys::Key Key;
    typedef Lanes<32> Team;
    static constexpr int kK = kBest, kFull = 24, kRoom = kK + kFull;

    Tally<Team, kBinBits> tally;
    unsigned beyond;  // counts what is no item
    Key slots[kRoom], best[kRoom];
};

// A value on the scale that bins divide: itself, or, where values lie so that some bins would be too full, half of its
// order, which counts binades alike.
template <typename Keys, bool kItself>
__device__ __forceinline__ float on_scale(typename Keys::Value value)
{
    if constexpr (kItself)
        return value;
    else
        return static_cast<float>(static_cast<int>(Keys::order(value) >> 1));
}

// Bins between two places on a scale, the highest first. What lies outside, and NaN, is in the first or the last one;
// wherever rounding takes a place, those above it are in no later bin.
template <int kBins>
struct EvenBins {
    float high, scale;

    __device__ __forceinline__ EvenBins(float high, float low) : high(high), scale(__fdividef(kBins - 1, high - low)) {}
    __device__ __forceinline__ unsigned of(float place) const
    {
        const float bin = fminf(fmaxf((high - place) * scale, 0.0f), kBins - 1.0f);
        return __float_as_uint(bin + 8388608.0f) & (kBins - 1);  // 2^23: its last digit counts
    }
};

// The bins of items that are spread over the extremes of those that are there and finite.
template <int kBins, int kWidth, typename Keys, bool kItself, int kItems>
__device__ __forceinline__ EvenBins<kBins> spread(const typename Keys::Value (&values)[kItems], int live)
{
    typedef FloatOrder<0> Order;
    float high = Order::lowest(), low = Order::infinity();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        if (i / kWidth >= live) break;
        const float place = on_scale<Keys, kItself>(values[i]);
        high = fmaxf(high, place);
        low = fminf(low, place > Order::lowest() ? place : low);
    }
    const unsigned first = greatest_of_warp(Order::of(high)), last = least_of_warp(Order::of(low));
    return EvenBins<kBins>(Order::value(first), Order::value(last));
}

// From how many are in each bin to where each begins. Is none too full that begins before `wanted`?
template <int kFull, typename TallyType>
__device__ __forceinline__ bool begin_bins(TallyType& tally, int wanted, int rank)
{
    constexpr int kMyBins = TallyType::kMyBins;
    unsigned held[kMyBins], mine = 0;
    my_bins(held, tally, rank);
#pragma unroll
    for (int b = 0; b < kMyBins; ++b) mine += held[b];
    int before = static_cast<int>(sum_before(mine, tally, rank));
    bool full = false;
#pragma unroll
    for (int b = 0; b < kMyBins; ++b) {
        tally.bins[rank * kMyBins + b] = before;
        full |= held[b] > kFull && before < wanted;
        before += held[b];
    }
    return !TallyType::Team::any(full);
}

// Deals the items, of which vectors from number `live` on are none, and counts in bins. False, and nothing is done,
// where some of them are too full.
template <bool kItself, int kWidth, typename DealtType, int kItems, typename ColumnOf>
__device__ __forceinline__ bool deal(
    DealtType& dealt, const typename DealtType::Keys::Value (&values)[kItems], int live, int rank,
    const ColumnOf& column_of)
{
    typedef typename DealtType::Keys Keys;
    typedef typename DealtType::Key Key;
    typedef decltype(dealt.tally) TallyType;
    constexpr int kK = DealtType::kK, kRoom = DealtType::kRoom;
    auto& starts = dealt.tally.bins;
    const auto bins = spread<TallyType::kBins, kWidth, Keys, kItself>(values, live);
    // What the row lacks is counted elsewhere, so that no lane waits for others.
    const auto count_of = [&](int i) {
        return i / kWidth < live ? &starts[bins.of(on_scale<Keys, kItself>(values[i]))] : &dealt.beyond;
    };
    clear_bins(dealt.tally, rank);
    if (rank == 0) dealt.beyond = kRoom;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kItems; ++i) atomicAdd(count_of(i), 1u);
    __syncwarp();
    if (!begin_bins<DealtType::kFull>(dealt.tally, kK, rank)) return false;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const unsigned place = atomicAdd(count_of(i), 1u);
        if (place < kRoom) dealt.slots[place] = Keys::key(values[i], column_of(i));
    }
    __syncwarp();  // a bin's number is now where it ends
    const int count = min(kRoom, static_cast<int>(starts[TallyType::kBins - 1]));
    for (int j = rank; j < count; j += 32) {
        const Key key = dealt.slots[j];
        const unsigned bin = bins.of(on_scale<Keys, kItself>(Keys::value(key)));
        const unsigned first = bin > 0 ? starts[bin - 1] : 0, stop = starts[bin];
        if (first >= kK) continue;
        const unsigned place = first + better_in_bin<2>(dealt.slots, key, first, stop);
        if (place < kK) dealt.best[place] = key;
    }
    __syncwarp();
    return true;
}

// A row in a warp's registers: its kK best, in order, to `dealt.best`. `value_of` is the value of a chunk's item,
// `key_at` brings the key of a column from memory.
template <int kVectors, int kWidth, typename DealtType, typename ValueOf, typename ColumnOf, typename KeyAt>
__device__ __forceinline__ void deal_best(
    DealtType& dealt, int n_cols, int live, int rank, const ValueOf& value_of, const ColumnOf& column_of,
    const KeyAt& key_at)
{
    typedef typename DealtType::Keys::Order Order;
    constexpr int kItems = kVectors * kWidth;
    typename Order::Value values[kItems];
#pragma unroll
    for (int i = 0; i < kItems; ++i) values[i] = value_of(i);
    if constexpr (Order::kHasNaN)
        if (deal<true, kWidth>(dealt, values, live, rank, column_of)) return;
    if (deal<false, kWidth>(dealt, values, live, rank, column_of)) return;
    search_best<DealtType::kK, DealtType::kRoom, 3 * DealtType::kFull>(
        dealt.best, dealt.slots, dealt.beyond, dealt.tally, n_cols, rank, key_at);
}

}  // namespace fusegen
