#pragma once
// The best element, and short lists of the best, in order.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/order.hpp>
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

// The first n of some numbers, as bits.
inline uint64_t first_of(int64_t n) { return n >= 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1; }

// The lanes that are columns of the chunk, as bits.
inline uint64_t live_of(all_lanes) { return ~uint64_t(0); }
inline uint64_t live_of(first_lanes live) { return first_of(live.n); }

// To an empty list the best of n values without a NaN, which fill whole vectors: the greatest is looked
// for, then the greatest of the rest, and so on. What leads cannot be predicted, and nothing here
// depends on a prediction: rows one after the other overlap.
template <typename V, int64_t n_parts, typename T, int64_t K>
inline void choose(best_list<T, K>& list, const T* values, int64_t n, int64_t first_column)
{
    typedef like<T, V> part;
    part parts[n_parts];
    mask<part> numbers[n_parts];
    for (int64_t i = 0; i < n_parts; ++i) {
        std::memcpy(&parts[i], values + i * width<V>, sizeof(part));
        for (int64_t lane = 0; lane < width<V>; ++lane)
            numbers[i][lane] = i * width<V> + lane;
    }
    uint64_t left = first_of(n);
    for (int64_t entry = 0; entry < K && left != 0; ++entry) {
        part most = parts[0];
        for (int64_t i = 1; i < n_parts; ++i)
            most = parts[i] > most ? parts[i] : most;
        const part peak = across(most, [](auto a, auto b) { return a > b ? a : b; }) - part();
        uint64_t bits = 0;
        for (int64_t i = 0; i < n_parts; ++i)
            bits |= lanes_where(parts[i] == peak) << i * width<V>;
        bits &= left;
        const int at = __builtin_ctzll(bits);
        left &= ~(bits & -bits);
        for (int64_t i = 0; i < n_parts; ++i)
            parts[i] = numbers[i] == at ? lowest_of<T> - part() : parts[i];
        list.values[entry] = values[at];
        list.columns[entry] = first_column + at;
    }
}

// Columns [begin, end) to an empty list, all of a few vectors; false where one is NaN.
template <typename V, typename T, int64_t K, typename F>
inline bool choose(best_list<T, K>& list, int64_t begin, int64_t end, F at)
{
    alignas(64) T values[4 * width<V>];
    uint64_t nans = 0;
    each<V>(begin, end, [&](int64_t col, auto live) {
        const auto v = live(at(col, live), lowest_of<T>);
        put(values + (col - begin), v);
        nans |= lanes_where(v != v);
    });
    const int64_t n = end - begin;
    if (rarely(nans != 0))
        return false;
    if (n <= width<V>)
        choose<V, 1>(list, values, n, begin);
    else if (n <= 2 * width<V>)
        choose<V, 2>(list, values, n, begin);
    else if (n <= 3 * width<V>)
        choose<V, 3>(list, values, n, begin);
    else
        choose<V, 4>(list, values, n, begin);
    return true;
}

// Columns [begin, end) to a list; `top`: lane by lane, the greatest of them.
template <typename V, typename T, int64_t K, typename P, typename F>
inline void search(best_list<T, K>& list, P top, int64_t begin, int64_t end, F at)
{
    if constexpr (std::is_arithmetic_v<V>) {
        for (; begin < end; ++begin)
            list.offer(at(begin, all_lanes()), begin);
    } else {
        constexpr int64_t few = width<V> <= 16 ? 4 * width<V> : 0;
        if (end - begin <= few && list.is_empty() && choose<V>(list, begin, end, at))
            return;
        list.prepare(top);
        each<V>(begin, end, [&](int64_t col, auto live) {
            const auto v = at(col, live);
            for (uint64_t bits = list.admitted(v) & live_of(live); bits != 0; bits &= bits - 1) {
                const int lane = __builtin_ctzll(bits);
                list.offer(v[lane], col + lane);
            }
        });
    }
}

}  // namespace

}  // namespace fusegen
