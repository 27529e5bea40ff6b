#pragma once
// Candidates for a list as integers of 128 bits.

#include <fusegen/topk/order.cuh>

namespace fusegen {

// 128 bits, for values or columns that leave no room in 64.
struct WideKey {
    unsigned long long low, high;

    explicit __device__ __forceinline__ operator unsigned() const { return static_cast<unsigned>(low); }
};
__device__ __forceinline__ bool operator<(const WideKey& a, const WideKey& b)
{
    return a.high != b.high ? a.high < b.high : a.low < b.low;
}
__device__ __forceinline__ bool operator>(const WideKey& a, const WideKey& b) { return b < a; }
__device__ __forceinline__ WideKey operator-(const WideKey& a, const WideKey& b)
{
    return {a.low - b.low, a.high - b.high - (a.low < b.low)};
}
__device__ __forceinline__ WideKey operator~(const WideKey& a) { return {~a.low, ~a.high}; }
__device__ __forceinline__ WideKey operator<<(const WideKey& a, int shift)
{
    if (shift >= 64) return {0, a.low << (shift - 64)};
    return {a.low << shift, a.high << shift | (a.low >> 1) >> (63 - shift)};
}
__device__ __forceinline__ WideKey operator>>(const WideKey& a, int shift)
{
    if (shift >= 64) return {a.high >> (shift - 64), 0};
    return {a.low >> shift | (a.high << 1) << (63 - shift), a.high >> shift};
}
__device__ __forceinline__ int bit_length(const WideKey& distance)
{
    return distance.high ? 128 - __clzll(distance.high) : 64 - __clzll(distance.low);
}
__device__ __forceinline__ unsigned top_word(const WideKey& key) { return static_cast<unsigned>(key.high >> 32); }
__device__ __forceinline__ bool same_value(const WideKey& a, const WideKey& b) { return a.high == b.high; }

// A candidate is an integer: the greater one is the better candidate, and no two are equal. From the
// top, its bits are the order of the value, the column counted down, so that ties go to the lowest,
// and the sign of a zero, which decides nothing.
template <typename OrderType, typename ColumnType>
struct WideKeys {
    typedef OrderType Order;
    typedef ColumnType Column;
    typedef typename Order::Value Value;
    typedef WideKey Key;

    explicit __device__ __forceinline__ WideKeys(Column) {}

    __device__ __forceinline__ Key key(Value value, Column column) const
    {
        const Key least = least_key(value, column);
        return {least.low | Order::minus_zero(value), least.high};
    }
    // The least key of an equal value in that column.
    __device__ __forceinline__ Key least_key(Value value, Column column) const
    {
        return {~static_cast<unsigned long long>(column) << 1,
                static_cast<unsigned long long>(Order::of(value)) << kUnused};
    }
    __device__ __forceinline__ Value value(const Key& key) const
    {
        return Order::with_sign(Order::value(order(key)), key.low & 1);
    }
    __device__ __forceinline__ Column column(const Key& key) const
    {
        return static_cast<Column>(~key.low >> 1);
    }
    // Or is this just the least key of a value?
    __device__ __forceinline__ bool names_column(const Key& key) const { return key.low != 0; }
    // The value next to that of a key: what is less does not beat it, nor what ties in later columns.
    // It is no greater than the key's if there is no such value, or NaN.
    __device__ __forceinline__ Value next_value(const Key& key) const { return Order::value(order(key) + 1); }

  private:
    static constexpr int kUnused = 64 - 8 * sizeof(typename Order::Bits);
    __device__ __forceinline__ typename Order::Bits order(const Key& key) const
    {
        return static_cast<typename Order::Bits>(key.high >> kUnused);
    }
};

// The least and the greatest key with these top words.
__device__ __forceinline__ void span_keys(unsigned least, unsigned greatest, WideKey& low, WideKey& high)
{
    low = WideKey{least} << 96;
    high = ~(WideKey{~greatest} << 96);
}

}  // namespace fusegen
