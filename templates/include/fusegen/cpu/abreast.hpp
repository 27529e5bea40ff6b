#pragma once
// Rows one in every lane.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/ranks.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// Two rows of a square exchange what is n lanes apart.
template <int64_t n, typename V, size_t... i>
inline void exchange(V& one, V& other, std::index_sequence<i...>)
{
    const V a = one, b = other;
    one = V{(i & n ? b[i & n ? i - n : i] : a[i])...};
    other = V{(i & n ? b[i] : a[i & n ? i : i + n])...};
}

// Rows of a square become its columns.
template <int64_t n, typename V>
inline void transpose(V* rows)
{
    if constexpr (n > 0) {
        for (int64_t i = 0; i < width<V>; ++i)
            if ((i & n) == 0)
                exchange<n>(rows[i], rows[i + n], std::make_index_sequence<width<V>>());
        transpose<n / 2>(rows);
    }
}

// As many rows as V has lanes, `row(i, col, live)` what the i-th has from a column on, to a tile: a vector
// for every column. There is room in it for whole squares.
template <typename V, typename F>
inline void turn_rows(real* tile, int64_t n_cols, F row)
{
    each<V>(0, n_cols, [&](int64_t col, auto live) {
        V rows[width<V>];
        for (int64_t i = 0; i < width<V>; ++i)
            rows[i] = row(i, col, live);
        transpose<width<V> / 2>(rows);
        for (int64_t i = 0; i < width<V>; ++i)
            put(tile + (col + i) * width<V>, rows[i]);
    });
}

// The value that is ahead of all others, and its column; NaN is ahead of all numbers, ties go to the
// lowest column.
template <typename V>
struct leaders {
    V value;
    whole<V> column;

    // `peak`: a fold of all values.
    template <typename P, typename F>
    void find(const P& peak, int64_t, int64_t n_cols, F at)
    {
        typedef mask<V> number;
        number first = number(), here = all<number>(n_cols);
        for (int64_t col = n_cols; col-- > 0;) {
            here -= 1;  // as a vector, which is there sooner than what is spread from a number
            first = at(col) == peak.so_far ? here : first;
        }
        if (rarely(any(peak.nans)))
            for (int64_t col = n_cols; col-- > 0;) {
                const V v = at(col);
                first = v != v ? all<number>(col) : first;
            }
        for (int64_t i = 0; i < width<V>; ++i)
            value[i] = at(first[i])[i];
        column = convert<whole<V>>(first);
    }
};

// The K best values and their columns, best first: NaN, then descending; ties by column.
template <typename V, int64_t K>
struct best_lists {
    V values[K];
    whole<V> columns[K];

    // `peak`: a fold of all values, which are K at least. Of a few rows, most columns enter no list.
    template <typename P, typename F>
    void find(const P& peak, int64_t n_rows, int64_t n_cols, F at)
    {
        const bool few = n_rows <= width<V> / 4;
        mask<V> places[K] = {};
        if (rarely(any(peak.nans)))
            insert(places, n_cols, few, [&](int64_t col) { return ranks_of(at(col)); });
        else
            insert(places, n_cols, few, at);
        for (int64_t k = 0; k < K; ++k) {
            for (int64_t i = 0; i < width<V>; ++i)
                values[k][i] = at(places[k][i])[i];
            columns[k] = convert<whole<V>>(places[k]);
        }
    }

    // Integers that compare as values do in a list.
    static auto ranks_of(V v)
    {
        like<rank<real>, V> ranks;
        for (int64_t i = 0; i < width<V>; ++i)
            ranks[i] = rank_of(v[i]);
        return ranks;
    }

    // The columns of the K greatest. What comes later is behind its equals.
    template <typename F>
    static void insert(mask<V>* places, int64_t n_cols, bool few, F at)
    {
        typedef std::decay_t<decltype(at(0))> key;
        key keys[K] = {};
        for (int64_t col = 0; col < K; ++col)
            enter(keys, places, col, all_if<mask<V>>(true), at(col), col);
        for (int64_t col = K; col < n_cols; ++col) {
            const key next = at(col);
            const mask<V> here = next > keys[K - 1];
            if (few && !any(here))
                continue;
            enter(keys, places, K - 1, here, next, col);
        }
    }

    // One more, behind its equals; `here`: where it is ahead of the last, who leaves.
    template <typename T>
    static inline void enter(T* keys, mask<V>* places, int64_t last, mask<V> here, T next, int64_t col)
    {
        const mask<V> place = all<mask<V>>(col);
        for (int64_t k = last; k > 0; --k) {
            const mask<V> before = next > keys[k - 1];
            const T key = here ? next : keys[k];
            const mask<V> mine = here ? place : places[k];
            keys[k] = before ? keys[k - 1] : key;
            places[k] = before ? places[k - 1] : mine;
            here = before;
        }
        keys[0] = here ? next : keys[0];
        places[0] = here ? place : places[0];
    }
};

}  // namespace

}  // namespace fusegen
