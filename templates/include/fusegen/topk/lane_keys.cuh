#pragma once
// Candidates of short rows as integers of 64 bits, whose parts lie where every row has them.

#include <fusegen/topk/order.cuh>

namespace fusegen {

// A candidate is an integer: the greater one is the better candidate, no two are equal, and 0 is none.
// From the top, its bits are the order of the value, the column counted down, so that ties go to the
// lowest, and the value's sign, which tells zeros apart and decides nothing.
template <typename OrderType, typename ColumnType>
struct LaneKeys {
    typedef OrderType Order;
    typedef ColumnType Column;
    typedef typename Order::Value Value;
    typedef unsigned long long Key;

    // Top words of keys, and the values that they are of.
    static constexpr bool kFloats = Order::kHasNaN;
    static constexpr unsigned kZeroWord = 0x80000000u >> Order::kSpareBits;
    static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ __forceinline__ float value_of_word(unsigned word) { return Order::value(word); }
    static __device__ __forceinline__ unsigned order_of_word(unsigned word) { return word; }
    static __device__ __forceinline__ unsigned order_of(Key key) { return static_cast<unsigned>(key >> 32); }
    static __device__ __forceinline__ unsigned order(Value value) { return Order::of(value); }
    static __device__ __forceinline__ Value value_of_order(unsigned order) { return Order::value(order); }
    static __device__ __forceinline__ Key key(Value value, Column column)
    {
        const Key order = Order::of(value);
        return order << 32 | (~static_cast<unsigned>(column) << 1 | Order::minus_zero(value));
    }
    static __device__ __forceinline__ Value value(Key key)
    {
        return Order::with_sign(Order::value(static_cast<unsigned>(key >> 32)), key & 1);
    }
    static __device__ __forceinline__ Column column(Key key) { return ~static_cast<unsigned>(key) >> 1; }
};

}  // namespace fusegen
