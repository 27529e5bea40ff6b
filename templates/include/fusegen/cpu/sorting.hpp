#pragma once
// Numbers in order: by their bytes, and by a network of vectors.

#include <cstdint>
#include <utility>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

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

}  // namespace

}  // namespace fusegen
