#pragma once
// Candidates of 16 bits in 32, made two at a time from the halves of a word. Some of pairs/half.cuh,
// pairs/bfloat16.cuh stands before it.

namespace fusegen {

// A candidate is an integer: the greater one is the better candidate, no two are equal, and 0 is none.
// From the top, its bits are the order of the value, the column counted down, so that ties go to the
// lowest, and the value's sign, which tells zeros apart and decides nothing.
template <typename T, typename ColumnType>
struct PairKeys {
    typedef ColumnType Column;
    typedef float Value;
    typedef unsigned Key;
    static constexpr unsigned kLast = 0x7fff;  // column
    static constexpr unsigned kInfinity = infinity_bits(static_cast<const T*>(nullptr));

    // The halves of `pair` as candidates of two columns, of which the second is kStep behind.
    template <int kStep = 1>
    static __device__ __forceinline__ void keys(unsigned pair, Column column, Key& first, Key& second)
    {
        const unsigned both = settled(pair);
        const unsigned order = both ^ (signs(both) | 0x80008000u);
        const unsigned down = ((kLast - column) * 0x20002u - kStep * 0x20000u) | (pair >> 15 & 0x10001u);
        first = __byte_perm(order, down, 0x1054);
        second = __byte_perm(order, down, 0x3276);
    }
    static __device__ __forceinline__ Key key(T value, Column column)
    {
        unsigned pair = 0;
        memcpy(&pair, &value, sizeof value);
        Key first, second;
        keys(pair, column, first, second);
        return first;
    }
    // Top words of keys, and the values that they are of.
    static constexpr bool kFloats = true;
    static constexpr unsigned kZeroWord = 0x80000000u;
    static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ __forceinline__ Value value_of_word(unsigned word)
    {
        return static_cast<Value>(half(word >> 16));
    }
    static __device__ __forceinline__ unsigned order_of_word(unsigned word) { return word >> 16; }
    static __device__ __forceinline__ unsigned order_of(Key key) { return key >> 16; }
    // The order of bits that are no NaN but the greatest, and back. Zeros differ. One asks and the other does not, as
    // compilers then save no register of lists that a warp collects.
    static __device__ __forceinline__ unsigned order(unsigned bits)
    {
        return (bits & 0x8000u ? ~bits : bits | 0x8000u) & 0xffffu;
    }
    static __device__ __forceinline__ unsigned bits(unsigned order)
    {
        return (order ^ ~(signs(order) & 0x7fffu)) & 0xffffu;
    }
    static __device__ __forceinline__ T half(unsigned order)
    {
        T half;
        const unsigned short found = static_cast<unsigned short>(bits(order));
        memcpy(&half, &found, sizeof half);
        return half;
    }
    // -0 as 0, and every NaN as the one above all numbers.
    static __device__ __forceinline__ unsigned settled(unsigned pair)
    {
        return word(__hadd2(pair_of(T{}, pair), pair_of(T{}, 0)));
    }
    // The greater one of each half; NaN if either is NaN.
    static __device__ __forceinline__ unsigned greater(unsigned a, unsigned b)
    {
        return word(__hmax2_nan(pair_of(T{}, a), pair_of(T{}, b)));
    }
    // The better half as a candidate of that column.
    static __device__ __forceinline__ Key peak(unsigned pair, Column column)
    {
        Key first, second;
        keys(pair, column, first, second);
        return max(first, second + 2);
    }
    static __device__ __forceinline__ Value value(Key key)
    {
        const unsigned short found = static_cast<unsigned short>(bits(key >> 16) | (key << 15 & 0x8000u));
        T value;
        memcpy(&value, &found, sizeof value);
        return static_cast<float>(value);
    }
    static __device__ __forceinline__ Column column(Key key) { return kLast - (key >> 1 & kLast); }

  private:
    // All bits of the halves whose first bit is set.
    static __device__ __forceinline__ unsigned signs(unsigned pair)
    {
        unsigned set;
        asm("prmt.b32 %0, %1, %2, 0xbb99;" : "=r"(set) : "r"(pair), "r"(0u));
        return set;
    }
    template <typename Pair>
    static __device__ __forceinline__ unsigned word(Pair halves)
    {
        unsigned found;
        memcpy(&found, &halves, sizeof found);
        return found;
    }
};

}  // namespace fusegen
