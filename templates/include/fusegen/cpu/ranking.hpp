#pragma once
// Lists put in order.

#include <cstdint>
#include <limits>
#include <utility>
#include <fusegen/cpu/ranks.hpp>
#include <fusegen/cpu/sorting.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// How far behind the first a value of a list ranks, and where it is.
template <typename T>
struct ranked {
    unsigned_rank<T> behind;
    unsigned_rank<T> at;
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
