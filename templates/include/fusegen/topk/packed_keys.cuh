#pragma once
// Candidates for a list as integers of 64 bits.

#include <fusegen/topk/key_words.cuh>
#include <fusegen/topk/order.cuh>

namespace fusegen {

// Not in the template: the host compiler of nvcc would look it up there, and does not know __clz.
__device__ __forceinline__ int leading_zeros(int n) { return __clz(n); }

// A candidate is an integer: the greater one is the better candidate, and no two are equal. From the
// top, its bits are the order of the value, the column counted down, so that ties go to the lowest,
// and the sign of a zero, which decides nothing.
template <typename OrderType, typename ColumnType>
struct PackedKeys {
    typedef OrderType Order;
    typedef ColumnType Column;
    typedef typename Order::Value Value;
    typedef unsigned long long Key;
    int spare;  // bits that no column has; at least one

    explicit __device__ __forceinline__ PackedKeys(Column n_cols) : spare(leading_zeros(n_cols)) {}

    __device__ __forceinline__ Key key(Value value, Column column) const
    {
        return least_key(value, column) | Order::minus_zero(value);
    }
    // The least key of an equal value in that column.
    __device__ __forceinline__ Key least_key(Value value, Column column) const
    {
        return static_cast<Key>(Order::of(value)) << 32 | ~static_cast<unsigned>(column) << spare;
    }
    __device__ __forceinline__ Value value(Key key) const
    {
        return Order::with_sign(Order::value(static_cast<unsigned>(key >> 32)), key & 1);
    }
    __device__ __forceinline__ Column column(Key key) const
    {
        return static_cast<Column>(~static_cast<unsigned>(key) >> spare);
    }
    // Or is this just the least key of a value?
    __device__ __forceinline__ bool names_column(Key key) const { return static_cast<unsigned>(key) != 0; }
    // The value next to that of a key: what is less does not beat it, nor what ties in later columns.
    // It is no greater than the key's if there is no such value, or NaN.
    __device__ __forceinline__ Value next_value(Key key) const
    {
        return Order::value(static_cast<unsigned>(key >> 32) + 1);
    }
};

}  // namespace fusegen
