#pragma once
// The best element, and short lists of the best, in order.

#include <cstdint>
#include <type_traits>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/order.hpp>
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

// The K best values and their columns, best first: NaN, then descending; ties by column.
template <typename T, int64_t K>
struct best_list {
    static constexpr int64_t none = INT64_MAX;  // column of an entry that all elements precede

    T values[K];
    int64_t columns[K];
    T bound;  // nothing below it can stay

    void clear()
    {
        bound = lowest_of<T>;
        for (int64_t i = 0; i < K; ++i) {
            values[i] = lowest_of<T>;
            columns[i] = none;
        }
    }

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

    // Before a chunk: v holds some of it, so the K-th of v bounds the K-th of all. Found where it
    // spares more than it costs: before the first chunk, and where a row ascends.
    template <typename V>
    void prepare(V v)
    {
        if constexpr (sizeof(V) / sizeof(T) >= K && K > 1)
            if (!is_full() || __builtin_popcountll(admitted(v)) > K) {
                T best[K];
                for (int64_t i = 0; i < K; ++i)
                    best[i] = lowest_of<T>;
                for (size_t lane = 0; lane < sizeof(V) / sizeof(T); ++lane) {
                    T next = v[lane];
                    for (int64_t i = 0; i < K; ++i) {
                        const T held = best[i];
                        best[i] = next > held ? next : held;
                        next = next > held ? held : next;
                    }
                }
                bound = best[K - 1] > bound ? best[K - 1] : bound;
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

    T value(int64_t i) const { return values[i]; }
    int64_t column(int64_t i) const { return columns[i]; }
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

// The elements of v, which start at `column`, to a list or leader.
template <typename L, typename V>
inline void offer(L& list, V v, int64_t column)
{
    if constexpr (std::is_arithmetic_v<V>)
        list.offer(v, column);
    else
        for (uint64_t bits = list.admitted(v); bits != 0; bits &= bits - 1) {
            const int lane = __builtin_ctzll(bits);
            list.offer(v[lane], column + lane);
        }
}

}  // namespace

}  // namespace fusegen
