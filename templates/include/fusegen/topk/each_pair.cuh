#pragma once
// What a team collects of items of 16 bits, looked at two at a time. Some of pairs/half.cuh, pairs/bfloat16.cuh stands
// before it.

#include <fusegen/pairs/items.cuh>
#include <fusegen/topk/item_bits.cuh>

namespace fusegen {

// The greatest items of kPartCount parts of a chunk's vectors, or of kTogether vectors, two a word; -inf where a vector
// is not there. A word of theirs is the order of 16 bits.
template <typename Keys, typename T, int kItems, typename Layout, int kPartCount, int kTogether = 1>
struct PairPeaks {
    static constexpr int kWidth = Layout::kWidth, kParts = kPartCount;
    static constexpr int kEach = kWidth / kParts, kMade = kItems / (2 * kEach);  // words that become one, and how many
    static constexpr int kCount = (kMade + kTogether - 1) / kTogether;
    static constexpr bool kFloats = true;
    static constexpr unsigned kMost = Keys::kInfinity | 0x8000u;  // NaN is no bar
    typedef decltype(pair_of(T{}, 0u)) Pair;
    Pair pair[kCount];

    __device__ __forceinline__ PairPeaks(const Chunk<T, kItems, Layout>& items, int live)
    {
        const unsigned none = (Keys::kInfinity | 0x8000u) * 0x10001u;
#pragma unroll
        for (int p = 0; p < kMade; ++p) {
            const int first = p * kEach;
            Pair peak = pair_of(T{}, items.word[first]);
#pragma unroll
            for (int w = 1; w < kEach; ++w) peak = __hmax2_nan(peak, pair_of(T{}, items.word[first + w]));
            if constexpr (kWidth > 1) {
                peak = 2 * first / kWidth < live ? peak : pair_of(T{}, none);
            } else {
                const unsigned word = items.word[p];
                peak = pair_of(T{}, 2 * p + 1 < live ? word : 2 * p < live ? __byte_perm(word, none, 0x7610) : none);
            }
            Pair& to = pair[p / kTogether];
            to = p % kTogether > 0 ? __hmax2_nan(to, peak) : peak;
        }
    }
    // Of so many vectors.
    static __device__ __forceinline__ int there(int live)
    {
        if constexpr (kTogether == 1) return live * kParts;
        const int made = kWidth > 1 ? live : (live + 1) / 2;
        return min(live * kWidth, (made + kTogether - 1) / kTogether * 2);
    }
    // The least and the greatest key of a value.
    static __device__ __forceinline__ unsigned least_word(unsigned word) { return word << 16; }
    static __device__ __forceinline__ unsigned last_word(unsigned word) { return word << 16 | 0xffffu; }
    static __device__ __forceinline__ float value(unsigned word) { return static_cast<float>(Keys::half(word)); }
    static __device__ __forceinline__ unsigned word(float value)
    {
        const T half = value;
        unsigned bits = 0;
        memcpy(&bits, &half, sizeof half);
        return Keys::order(bits);
    }
    __device__ __forceinline__ unsigned count(unsigned word) const
    {
        const Pair bar = pair_of(T{}, Keys::bits(word) * 0x10001u);
        Pair less = pair_of(T{}, 0u);
#pragma unroll
        for (const Pair& peak : pair) less = __hadd2(less, __hlt2(peak, bar));
        return 2 * kCount - static_cast<unsigned>(__low2float(less) + __high2float(less));
    }
    __device__ __forceinline__ unsigned low(int live) const
    {
        Pair least = pair_of(T{}, Keys::kInfinity * 0x10001u);
#pragma unroll
        for (int p = 0; p < kCount; ++p)
            if (2 * p * kTogether * kEach / kWidth < live) least = __hmin2(least, pair[p]);
        return min(Keys::order(word_of(least)), Keys::order(word_of(least) >> 16));
    }
    __device__ __forceinline__ unsigned high() const
    {
        Pair greatest = pair[0];
#pragma unroll
        for (int p = 1; p < kCount; ++p) greatest = __hmax2_nan(greatest, pair[p]);
        const unsigned settled = Keys::settled(word_of(greatest));
        return max(Keys::order(settled), Keys::order(settled >> 16));
    }

  private:
    static __device__ __forceinline__ unsigned word_of(const Pair& halves)
    {
        unsigned found;
        memcpy(&found, &halves, sizeof found);
        return found;
    }
};

// A chunk's items. kAsKeys: as EachItem.
template <typename Keys, typename T, int kItems, typename Layout, bool kAsKeys, typename ColumnOf>
struct EachPair {
    typedef typename Keys::Key Key;
    static constexpr bool kKeys = kAsKeys;
    static constexpr int kWidth = Layout::kWidth;
    static constexpr int kStep = kWidth > 1 ? 1 : Layout::Team::kThreads;  // columns between a word's items
    const Chunk<T, kItems, Layout>& items;
    int live;
    const ColumnOf& column_of;
    ItemBits<kItems> reaching;  // in a word those of even numbers first

    __device__ __forceinline__ EachPair(const Chunk<T, kItems, Layout>& items, int live, const ColumnOf& column_of)
        : items(items), live(live), column_of(column_of)
    {
    }
    __device__ __forceinline__ void reach(unsigned word)
    {
        const float bar = static_cast<float>(Keys::half(word));
#pragma unroll
        for (int w = 0; w < reaching.kWords; ++w) reaching.word[w] = reaching_items(items, bar, live, 16 * w);
    }
    __device__ __forceinline__ int count() const { return reaching.count(); }
    // The columns of those that reach the bar.
    template <typename Visit>
    __device__ __forceinline__ void visit(const Visit& visit) const
    {
        reaching.visit([&](int word, int bit) { visit(column_of(32 * word + item_of_bit(bit))); });
    }
    __device__ __forceinline__ void put(Key* to, unsigned place) const
    {
        if constexpr (kKeys) {
#pragma unroll
            for (int w = 0; w < kItems / 2; ++w) {
                Key first, second;
                Keys::template keys<kStep>(items.word[w], column_of(2 * w), first, second);
                if (reaching.word[w / 16] >> w % 16 & 1) to[place++] = first;
                if (reaching.word[w / 16] >> (w % 16 + 16) & 1) to[place++] = second;
            }
        } else {
            visit([&](int column) { to[place++] = column; });
        }
    }
};

}  // namespace fusegen
