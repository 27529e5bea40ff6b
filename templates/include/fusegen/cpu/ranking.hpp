#pragma once
// Lists put in order.

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// Integers as wide as T.
template <typename T>
using rank = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <typename T>
using unsigned_rank = std::make_unsigned_t<rank<T>>;

// How far behind the first a value of a list ranks, and where it is.
template <typename T>
struct ranked {
    unsigned_rank<T> behind;
    unsigned_rank<T> at;
};

// An integer that compares as the value does in a list: NaN above all numbers, -0 as 0.
template <typename T>
inline rank<T> rank_of(T value)
{
    if constexpr (std::is_integral_v<T>) {
        return value;
    } else {
        constexpr rank<T> most = std::numeric_limits<rank<T>>::max();
        const rank<T> bits = as<rank<T>>(value + 0);  // -0 + 0 is 0
        const rank<T> ordered = bits ^ (bits >> (8 * sizeof bits - 1) & most);
        return value != value ? most : ordered;
    }
}

// The value of a rank.
template <typename T>
inline T value_of(rank<T> r)
{
    if constexpr (std::is_integral_v<T>)
        return r;
    else
        return as<T>(rank<T>(r ^ (r >> (8 * sizeof r - 1) & std::numeric_limits<rank<T>>::max())));
}

// The next value after those of a rank; after the last, infinity or the largest integer, itself.
template <typename T>
inline T following(rank<T> r)
{
    if constexpr (std::is_integral_v<T>)
        return r < std::numeric_limits<T>::max() ? r + 1 : r;
    else
        return r < rank_of(infinity) ? value_of<T>(r + 1) : infinity;
}

// By 16 bits of `behind`, the lower byte first; equals stay in order. `other`: as much room.
template <typename R>
inline void sort_two_bytes(R* places, R* other, int64_t n, unsigned shift)
{
    uint32_t starts[2][256] = {}, before[2] = {};
    for (int64_t i = 0; i < n; ++i) {
        ++starts[0][places[i].behind >> shift & 255];
        ++starts[1][places[i].behind >> shift >> 8 & 255];
    }
    for (int byte = 0; byte < 256; ++byte)
        for (int which = 0; which < 2; ++which) {
            const uint32_t count = starts[which][byte];
            starts[which][byte] = before[which];
            before[which] += count;
        }
    for (int64_t i = 0; i < n; ++i)
        other[starts[0][places[i].behind >> shift & 255]++] = places[i];
    for (int64_t i = 0; i < n; ++i)
        places[starts[1][other[i].behind >> shift >> 8 & 255]++] = other[i];
}

// From first to last; equals stay in order. By the 16 highest bits in use, and what they leave out of
// order by insertion; should that be much, by every byte from the lowest. `other`: as much room.
template <typename R>
inline void sort_ranked(R* places, R* other, int64_t n)
{
    auto used = places[0].behind;
    for (int64_t i = 1; i < n; ++i)
        used |= places[i].behind;
    unsigned bits = 16;
    while (bits < 8 * sizeof used && used >> bits != 0)
        ++bits;
    sort_two_bytes(places, other, n, bits - 16);
    int64_t moves = 0;
    for (int64_t i = 1; i < n && moves <= 4 * n; ++i) {
        const R moved = places[i];
        int64_t at = i;
        for (; at > 0 && places[at - 1].behind > moved.behind; --at)
            places[at] = places[at - 1];
        places[at] = moved;
        moves += i - at;
    }
    if (moves > 4 * n)
        for (unsigned shift = 0; shift < 8 * sizeof used; shift += 16)
            sort_two_bytes(places, other, n, shift);
}

// A sorting network: what it does to vectors does not depend on the numbers in them. The numbers are
// seen as rows of vectors: every lane is sorted by itself, and then sorted lanes are merged, two by
// two. Each step compares numbers that are far apart, then nearer ones (Batcher's bitonic merge).
struct network {
    typedef int32_t row __attribute__((vector_size(sizeof(lanes))));
    static constexpr int64_t n_lanes = sizeof(row) / 4;
    typedef std::make_index_sequence<n_lanes> every;

    static void order(row& a, row& b)
    {
        const row least = a < b ? a : b;
        b = a < b ? b : a;
        a = least;
    }

    // All ones in every other run of n lanes.
    template <int64_t n, size_t... i>
    static row odd_runs(std::index_sequence<i...>)
    {
        return row{(i & n ? -1 : 0)...};
    }

    template <int64_t n, size_t... i>
    static row neighbours(row a, std::index_sequence<i...>)
    {
        return row{a[i ^ n]...};
    }

    // Lanes that are n, n/2, ... 1 apart.
    template <int64_t n>
    static row order_lanes(row a)
    {
        const row b = neighbours<n>(a, every());
        const row least = a < b ? a : b, most = a < b ? b : a;
        a = odd_runs<n>(every()) ? most : least;
        if constexpr (n > 1)
            a = order_lanes<n / 2>(a);
        return a;
    }

    // Rows that fall and then rise, in any lane: n/2, n/4, ... 1 apart.
    template <int64_t n>
    static void order_rows(row* rows)
    {
        if constexpr (n >= 8) {
            for (int64_t i = 0; i < n / 8; ++i) {
                row r[8];
                for (int k = 0; k < 8; ++k)
                    r[k] = rows[i + k * (n / 8)];
                for (int apart : {4, 2, 1})
                    for (int k = 0; k < 8; ++k)
                        if ((k & apart) == 0)
                            order(r[k], r[k + apart]);
                for (int k = 0; k < 8; ++k)
                    rows[i + k * (n / 8)] = r[k];
            }
            for (int64_t i = 0; i < n && n > 8; i += n / 8)
                order_rows<n / 8>(rows + i);
        } else if constexpr (n > 1) {
            for (int64_t i = 0; i < n / 2; ++i)
                order(rows[i], rows[i + n / 2]);
            order_rows<n / 2>(rows);
            order_rows<n / 2>(rows + n / 2);
        }
    }

    // Every lane by itself.
    template <int64_t n>
    static void sort_rows(row* rows)
    {
        if constexpr (n > 1) {
            sort_rows<n / 2>(rows);
            sort_rows<n / 2>(rows + n / 2);
            for (int64_t i = 0; i < n / 2; ++i)
                order(rows[i], rows[n - 1 - i]);
            order_rows<n / 2>(rows);
            order_rows<n / 2>(rows + n / 2);
        }
    }

    // Runs of so many lanes, each in order, become runs of twice as many, until one is left. Numbers
    // in odd runs are upside down, so that all can be sorted the same way.
    template <int64_t n, int64_t run>
    static void merge_runs(row* rows)
    {
        if constexpr (run < n_lanes) {
            const row turned = odd_runs<run>(every()) ^ odd_runs<2 * run>(every());
            for (int64_t i = 0; i < n; ++i)
                rows[i] = order_lanes<run>(rows[i] ^ turned);
            order_rows<n>(rows);
            merge_runs<n, 2 * run>(rows);
        }
    }

    // n rows: the least number first, then what is below it in its lane; the next lane goes on.
    template <int64_t n>
    static void sort(row* rows)
    {
        for (int64_t i = 0; i < n; ++i)
            rows[i] ^= odd_runs<1>(every());
        sort_rows<n>(rows);
        merge_runs<n, 1>(rows);
    }
};

// The least power of two that has room for K numbers and fills eight vectors.
constexpr int64_t slots_for(int64_t K)
{
    int64_t slots = 2 * sizeof(lanes);
    while (slots < K)
        slots *= 2;
    return slots;
}

// The K best values and their columns in order, from a few more than K. Equals stay in order.
template <typename T, int64_t K>
struct ranking {
    static constexpr int64_t slots = slots_for(K);  // of a network
    // The work of a network grows faster than the list: longer ones are sorted byte by byte.
    static constexpr bool by_network = slots <= (sizeof(lanes) > 16 ? 4096 : 256);
    static constexpr int64_t most = by_network ? slots : K + K / 8 + 16;  // values at a time
    static constexpr int key_bits = 31 - __builtin_ctzll(slots);          // beside a place among the slots
    static constexpr int64_t n_rows = slots / network::n_lanes;
    typedef unsigned_rank<T> distance;

    alignas(64) T best[most];  // best first
    alignas(64) int64_t columns[most];
    alignas(64) rank<T> ranks[most];
    alignas(64) distance behind[most];  // the first, so many ranks
    alignas(64) int32_t places[slots];
    uint32_t order[2][most];
    ranked<T> pairs[2][by_network ? 1 : most];
    int64_t n;

    void sort(const T* values, const int64_t* their_columns, int64_t held)
    {
        n = held;
        for (int64_t i = 0; i < n; ++i)
            ranks[i] = rank_of(values[i]);
        rank<T> first = ranks[0], last = ranks[0];
        for (int64_t i = 1; i < n; ++i) {
            first = ranks[i] > first ? ranks[i] : first;
            last = ranks[i] < last ? ranks[i] : last;
        }
        for (int64_t i = 0; i < n; ++i)
            behind[i] = distance(first) - distance(ranks[i]);
        if constexpr (by_network)
            sort_by_network(values, their_columns, distance(first) - distance(last));
        else
            sort_by_bytes(values, their_columns);
    }

    // By the highest bits in use, as many as there is room for; what that leaves out of order is
    // inserted. Should that be much: by all bits, the lowest first.
    void sort_by_network(const T* values, const int64_t* their_columns, distance farthest)
    {
        const auto as_held = [](int64_t i) { return i; };
        const auto as_placed = [&](int64_t i) { return placed(i); };
        int low = 0;
        while (farthest >> low >> key_bits != 0)
            ++low;
        arrange(low, as_held);
        deliver(values, their_columns, as_placed);
        if (low == 0 || insert_late())
            return;
        arrange(0, as_held);
        for (int64_t i = 0; i < n; ++i)
            order[0][i] = placed(i);
        uint32_t *from = order[0], *to = order[1];
        for (low = key_bits; low < int(8 * sizeof farthest) && farthest >> low != 0; low += key_bits) {
            arrange(low, [&](int64_t i) { return from[i]; });
            for (int64_t i = 0; i < n; ++i)
                to[i] = from[placed(i)];
            std::swap(from, to);
        }
        deliver(values, their_columns, [&](int64_t i) { return from[i]; });
    }

    // Sorts numbers made of key_bits of how far a value is behind the first, and of its place among
    // those that entry gives, which settles ties.
    template <typename F>
    void arrange(int low, F entry)
    {
        for (int64_t i = 0; i < n; ++i) {
            const uint32_t key = uint32_t(behind[entry(i)] >> low) & ((uint32_t(1) << key_bits) - 1);
            places[i] = int32_t(key * slots + i);
        }
        for (int64_t i = n; i < slots; ++i)
            places[i] = std::numeric_limits<int32_t>::max();
        network::sort<n_rows>(reinterpret_cast<network::row*>(places));
    }

    // The place of what is i-th now. (A lane of the network goes on where the one before ends.)
    int64_t placed(int64_t i) const
    {
        return places[i % n_rows * network::n_lanes + i / n_rows] & (slots - 1);
    }

    void sort_by_bytes(const T* values, const int64_t* their_columns)
    {
        for (int64_t i = 0; i < n; ++i)
            pairs[0][i] = {behind[i], distance(i)};
        sort_ranked(pairs[0], pairs[1], n);
        deliver(values, their_columns, [&](int64_t i) { return pairs[0][i].at; });
    }

    template <typename F>
    void deliver(const T* values, const int64_t* their_columns, F from)
    {
        for (int64_t i = 0; i < n; ++i) {
            const int64_t at = from(i);
            best[i] = values[at];
            columns[i] = their_columns[at];
        }
    }

    // What comes after a value that it exceeds goes before it. False if that is much to do.
    bool insert_late()
    {
        for (int64_t i = 0; i < n; ++i)
            ranks[i] = rank_of(best[i]);
        int64_t moves = 0;
        for (int64_t begin = 1; begin < n; begin += 64) {
            const int64_t end = n - begin < 64 ? n : begin + 64;
            rank<T> late = 0;
            for (int64_t i = begin; i < end; ++i)
                late |= ranks[i] > ranks[i - 1];
            for (int64_t i = late ? begin : end; i < end && moves <= n; ++i)
                moves += insert(i);
        }
        return moves <= n;
    }

    // Entry i among those before it, which are in order; how far it moves.
    int64_t insert(int64_t i)
    {
        const rank<T> moved = ranks[i];
        const T value = best[i];
        const int64_t column = columns[i];
        int64_t at = i;
        for (; at > 0 && ranks[at - 1] < moved; --at) {
            ranks[at] = ranks[at - 1];
            best[at] = best[at - 1];
            columns[at] = columns[at - 1];
        }
        ranks[at] = moved;
        best[at] = value;
        columns[at] = column;
        return i - at;
    }
};

}  // namespace

}  // namespace fusegen
