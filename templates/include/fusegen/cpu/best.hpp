#pragma once
// The best element, and short lists of the best, in order.

#include <cstdint>
#include <limits>
#include <type_traits>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/ranks.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// The value that is ahead of all others, and its column; ties go to the lowest column.
template <typename T, typename order>
struct leader {
    T value;
    int64_t column;  // -1: no element yet

    void clear() { column = -1; }

    // The lanes of v that could take the lead, as bits.
    template <typename V>
    uint64_t admitted(V v) const
    {
        return column < 0 ? ~uint64_t(0) >> (64 - sizeof(V) / sizeof(T)) : order::admitted(v, value);
    }

    void offer(T other, int64_t at)
    {
        if (column < 0 || precedes<order>(other, at, value, column)) {
            value = other;
            column = at;
        }
    }

    void merge(const leader& other)
    {
        if (other.column >= 0)
            offer(other.value, other.column);
    }
};

// The K-th greatest lane of v, in which there is no NaN.
template <int64_t K, typename V>
inline auto kth_of_lanes(V v)
{
    typedef std::decay_t<decltype(v[0])> T;
    if constexpr (K == 1)
        return across(v, [](auto a, auto b) { return a > b ? a : b; });
    typedef std::numeric_limits<T> ends;
    constexpr T most = ends::has_infinity ? ends::infinity() : ends::max();
    mask<V> above = mask<V>();  // how many lanes exceed each
    for (size_t lane = 0; lane < sizeof(V) / sizeof(T); ++lane)
        above -= v[lane] - V() > v;
    const V among = above < int(K) ? v : most - V();
    return across(among, [](auto a, auto b) { return a < b ? a : b; });
}

// Room for n values in vectors of lanes.
constexpr int64_t in_lanes(int64_t n) { return (n + width<lanes> - 1) / width<lanes> * width<lanes>; }

// The K best values and their columns, best first: NaN, then descending; ties by column.
template <typename T, int64_t K>
struct best_list {
    static constexpr int64_t none = INT64_MAX;  // column of an entry that all elements precede

    T values[in_lanes(K)];
    int64_t columns[in_lanes(K)];
    T bound;  // nothing below it can stay

    void clear()
    {
        bound = lowest_of<T>;
        for (int64_t i = 0; i < in_lanes(K); ++i) {
            values[i] = lowest_of<T>;
            columns[i] = none;
        }
    }

    bool is_empty() const { return columns[0] == none; }
    bool is_full() const { return columns[K - 1] != none; }

    // The lanes of v that could enter the list, as bits.
    template <typename V>
    uint64_t admitted(V v) const
    {
        mask<V> below = v < bound;
        if (is_full())
            below |= v <= values[K - 1];
        return lanes_where(inverse(below));
    }

    // What v has to reach to enter; NaN does.
    T bar() const
    {
        const T least = is_full() ? following<T>(rank_of(values[K - 1])) : bound;
        return least > bound ? least : bound;
    }

    // Before a chunk: v holds some of it, so the K-th of v bounds the K-th of all.
    template <typename V>
    void prepare(V v)
    {
        if constexpr (sizeof(V) / sizeof(T) >= K) {
            const T kth = kth_of_lanes<K>(v);
            bound = kth > bound ? kth : bound;
        }
    }

    void offer(T value, int64_t column)
    {
        if (!precedes<descending>(value, column, values[K - 1], columns[K - 1]))
            return;
        int64_t at = K - 1;
        for (; at > 0 && precedes<descending>(value, column, values[at - 1], columns[at - 1]); --at) {
            values[at] = values[at - 1];
            columns[at] = columns[at - 1];
        }
        values[at] = value;
        columns[at] = column;
    }

    void merge(const best_list& other)
    {
        for (int64_t i = 0; i < K && other.columns[i] != none; ++i)
            offer(other.values[i], other.columns[i]);
    }

    // Of as many entries as a V has, from the i-th best on.
    template <typename V = real>
    like<T, V> value(int64_t i) const
    {
        return fetch<like<T, V>>(values + i);
    }

    template <typename V = real>
    whole<V> column(int64_t i) const
    {
        return fetch<whole<V>>(columns + i);
    }
};

// To a leader what is ahead in a chunk, if v, which starts at `column`, is the first that holds it: does
// it? Where that is NaN, so is every one that does not equal itself; else there is none.
template <typename L, typename V, typename T>
inline bool offer_peak(L& leader, V v, T peak, int64_t column)
{
    const uint64_t bits = lanes_where((v == peak) | (v != v));
    if (bits == 0)
        return false;
    const int lane = __builtin_ctzll(bits);
    leader.offer(in_lane(v, lane), column + lane);
    return true;
}

}  // namespace

}  // namespace fusegen
