#pragma once
// What a team collects of items, each by itself.

#include <fusegen/math/greater_of.cuh>
#include <fusegen/topk/item_bits.cuh>
#include <fusegen/topk/order.cuh>

namespace fusegen {

// Orders of the greatest item in each of kPartCount parts of a chunk's vectors, or in kTogether vectors; 0 where a
// vector is not there.
template <typename Keys, int kVectors, int kWidth, int kPartCount, int kTogether = 1>
struct ItemPeaks {
    typedef typename Keys::Order Order;
    static constexpr int kParts = kPartCount, kEach = kTogether * kWidth / kParts;  // items of a peak
    static constexpr int kItems = kVectors * kWidth, kCount = (kItems + kEach - 1) / kEach;
    static constexpr bool kFloats = Order::kHasNaN;
    static constexpr unsigned kMost = Order::kHasNaN ? 0xff800000u >> Order::kSpareBits : 0xffffffffu;  // NaN is no bar
    unsigned order[kCount];

    template <typename ValueOf>
    __device__ __forceinline__ ItemPeaks(int live, const ValueOf& value_of)
    {
        constexpr int kRun = kEach < kWidth ? kEach : kWidth;  // of a vector
#pragma unroll
        for (int p = 0; p < kCount; ++p) {
            const int first = p * kEach;
            order[p] = 0;
            if (first / kWidth >= live) continue;
            auto peak = value_of(first);
#pragma unroll
            for (int run = first; run < first + kEach && run < kItems; run += kRun) {
                if (run / kWidth >= live) break;
#pragma unroll
                for (int i = run; i < run + kRun; ++i) peak = i > first ? greater_of(peak, value_of(i)) : peak;
            }
            order[p] = Keys::order(peak);
        }
    }
    // Of so many vectors.
    static __device__ __forceinline__ int there(int live) { return (live * kParts + kTogether - 1) / kTogether; }
    // The top words of the least and of the greatest key of a value.
    static __device__ __forceinline__ unsigned least_word(unsigned word) { return word; }
    static __device__ __forceinline__ unsigned last_word(unsigned word) { return word; }
    static __device__ __forceinline__ float value(unsigned word) { return Keys::value_of_order(word); }
    static __device__ __forceinline__ unsigned word(float value) { return Keys::order(value); }
    __device__ __forceinline__ unsigned count(unsigned word) const
    {
        unsigned reach = 0;
#pragma unroll
        for (const unsigned peak : order) reach += peak >= word;
        return reach;
    }
    __device__ __forceinline__ unsigned low(int live) const
    {
        unsigned least = kMost;  // which NaN reaches
#pragma unroll
        for (int p = 0; p < kCount; ++p)
            if (p * kEach / kWidth < live) least = min(least, order[p]);
        return least;
    }
    __device__ __forceinline__ unsigned high() const
    {
        unsigned greatest = 0;
#pragma unroll
        for (const unsigned peak : order) greatest = max(greatest, peak);
        return greatest;
    }
};

// A chunk's items. kAsKeys: keys are made of all of them, and put where they reach the bar; else the columns of those
// that do, which are few.
template <typename Keys, int kVectors, int kWidth, bool kAsKeys, typename ValueOf, typename ColumnOf>
struct EachItem {
    typedef typename Keys::Key Key;
    typedef typename Keys::Value Value;
    static constexpr bool kKeys = kAsKeys;
    static constexpr int kItems = kVectors * kWidth;
    int live;
    const ValueOf& value_of;
    const ColumnOf& column_of;
    ItemBits<kItems> reaching;

    __device__ __forceinline__ EachItem(int live, const ValueOf& value_of, const ColumnOf& column_of)
        : live(live), value_of(value_of), column_of(column_of)
    {
    }
    __device__ __forceinline__ void reach(unsigned word)
    {
        const Value bar = Keys::value_of_order(word);
        reaching = {};
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            if (i / kWidth >= live) break;
            if (!(value_of(i) < bar)) reaching.word[i / 32] |= 1u << i % 32;
        }
    }
    __device__ __forceinline__ int count() const { return reaching.count(); }
    // The columns of those that reach the bar.
    template <typename Visit>
    __device__ __forceinline__ void visit(const Visit& visit) const
    {
        reaching.visit([&](int word, int bit) { visit(column_of(32 * word + bit)); });
    }
    __device__ __forceinline__ void put(Key* to, unsigned place) const
    {
        if constexpr (kKeys) {
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                const Key key = Keys::key(value_of(i), column_of(i));
                if (reaching.word[i / 32] >> i % 32 & 1) to[place++] = key;
            }
        } else {
            visit([&](int column) { to[place++] = column; });
        }
    }
};

}  // namespace fusegen
