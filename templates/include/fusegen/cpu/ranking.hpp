#pragma once
// Lists put in order.

#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <fusegen/cpu/ranks.hpp>
#include <fusegen/cpu/reduce.hpp>
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
    static constexpr int64_t in_network = by_network ? slots : 0;
    static constexpr int place_bits = __builtin_ctzll(slots), key_bits = 31 - place_bits;
    static constexpr int n_lanes = network::n_lanes;
    static constexpr bool few_rows = slots == slots_for(1);
    static constexpr int64_t room = (most + n_lanes - 1) / n_lanes * n_lanes;  // in whole rows
    static constexpr int32_t none = std::numeric_limits<int32_t>::max();
    typedef unsigned_rank<T> distance;

    alignas(64) T best[room];  // best first
    alignas(64) int64_t columns[room];
    alignas(64) rank<T> ranks[room];
    alignas(64) distance behind[room];  // the first, so many ranks
    alignas(64) int32_t places[slots];
    uint32_t order[2][most];
    ranked<T> pairs[2][by_network ? 1 : most];
    int64_t n;
    int rows_bits;  // of the network's rows that n numbers take

    // Whole vectors of the values are read; column_of says where the i-th of them is.
    template <typename F>
    void sort(const T* values, int64_t held, F column_of)
    {
        n = held;
        const rank<T> start = rank_of(values[0]);
        rank<T> highest[n_lanes], lowest[n_lanes];
        for (int lane = 0; lane < n_lanes; ++lane)
            highest[lane] = lowest[lane] = start;
        for (int64_t i = 0; i < n; i += n_lanes) {
            const int here = int(n - i);
            for (int lane = 0; lane < n_lanes; ++lane) {
                const rank<T> own = rank_of(values[i + lane]), r = lane < here ? own : start;
                ranks[i + lane] = r;
                highest[lane] = r > highest[lane] ? r : highest[lane];
                lowest[lane] = r < lowest[lane] ? r : lowest[lane];
            }
        }
        rank<T> first = start, last = start;
        for (int lane = 0; lane < n_lanes; ++lane) {
            first = highest[lane] > first ? highest[lane] : first;
            last = lowest[lane] < last ? lowest[lane] : last;
        }
        distance used[n_lanes] = {}, any = 0;
        for (int64_t i = 0; i < n; i += n_lanes)
            for (int lane = 0; lane < n_lanes; ++lane)
                used[lane] |= behind[i + lane] = distance(first) - distance(ranks[i + lane]);
        for (int lane = 0; lane < n_lanes; ++lane)
            any |= used[lane];
        if constexpr (by_network)
            sort_by_network(values, column_of, distance(first) - distance(last), any);
        else
            sort_by_bytes(values, column_of);
    }

    // By the highest bits in use, as many as there is room for; where numbers share these and differ
    // in others, what that leaves out of order is inserted. Should that be much: by all bits, the
    // lowest first. `used`: bits that are 1 in any.
    template <typename F>
    void sort_by_network(const T* values, F column_of, distance farthest, distance used)
    {
        const auto as_placed = [&](int64_t i) { return placed(i); };
        int low = 0;
        while (farthest >> low >> key_bits != 0)
            ++low;
        arrange(low);
        if ((used & ((distance(1) << low) - 1)) == 0 || distinct(farthest >> low))
            return deliver(n < K ? n : K, values, column_of, as_placed);
        deliver(n, values, column_of, as_placed);
        if (insert_late())
            return;
        const auto as_held = [](int64_t i) { return i; };
        arrange_again(0, as_held);
        for (int64_t i = 0; i < n; ++i)
            order[0][i] = placed(i);
        uint32_t *from = order[0], *to = order[1];
        for (low = key_bits; low < int(8 * sizeof farthest) && farthest >> low != 0; low += key_bits) {
            arrange_again(low, [&](int64_t i) { return from[i]; });
            for (int64_t i = 0; i < n; ++i)
                to[i] = from[placed(i)];
            std::swap(from, to);
        }
        deliver(n, values, column_of, [&](int64_t i) { return from[i]; });
    }

    // Sorts numbers made of key_bits of how far a value is behind the first, and of its place, which
    // settles ties.
    void arrange(int low)
    {
        constexpr distance mask = (distance(1) << key_bits) - 1;
        rows_bits = few_rows ? 0 : place_bits - __builtin_ctz(n_lanes);
        while (n > int64_t(n_lanes) << rows_bits)
            ++rows_bits;
        for (int64_t i = 0; i < int64_t(n_lanes) << rows_bits; i += n_lanes)
            for (int lane = 0; lane < n_lanes; ++lane) {
                const int32_t key = int32_t((behind[i + lane] >> low) & mask), at = int32_t(i) + lane;
                places[i + lane] = at < int32_t(n) ? key * int32_t(slots) + at : none;
            }
        sort_rows<slots / n_lanes>();
    }

    // Likewise, of their places among those that entry gives.
    template <typename F>
    void arrange_again(int low, F entry)
    {
        for (int64_t i = 0; i < n; ++i) {
            const uint32_t key = uint32_t(behind[entry(i)] >> low) & ((uint32_t(1) << key_bits) - 1);
            places[i] = int32_t(key * slots + i);
        }
        for (int64_t i = n; i < int64_t(n_lanes) << rows_bits; ++i)
            places[i] = none;
        sort_rows<slots / n_lanes>();
    }

    // Few numbers take a smaller network, where K may be as few.
    template <int64_t n_rows>
    void sort_rows()
    {
        if constexpr (few_rows && n_rows > 1)
            if (n_rows >> rows_bits > 1)
                return sort_rows<n_rows / 2>();
        network::sort<n_rows>(reinterpret_cast<network::row*>(places));
    }

    // Do all keys differ? `last`: the greatest.
    bool distinct(distance last) const
    {
        constexpr int32_t nobody = none >> place_bits;
        if (last >= distance(nobody))
            return false;
        typedef network::row row;
        const auto key_of = [&](int64_t i) {
            row r;
            std::memcpy(&r, places + i, sizeof r);
            return r >> place_bits;
        };
        const int64_t end = int64_t(n_lanes) << rows_bits;
        row same = row();
        row above = key_of(0);
        for (int64_t i = n_lanes; i < end; i += n_lanes) {
            const row below = key_of(i);
            same |= (above == below) & (below != nobody);
            above = below;
        }
        row next = key_of(1);  // a lane goes on where the one before ends
        next[n_lanes - 1] = nobody;
        same |= (above == next) & (next != nobody);
        return !any(same);
    }

    // The place of what is i-th now. (A lane of the network goes on where the one before ends.)
    int64_t placed(int64_t i) const
    {
        const int64_t row = i & ((int64_t(1) << rows_bits) - 1);
        return places[row * n_lanes + (i >> rows_bits)] & (slots - 1);
    }

    template <typename F>
    void sort_by_bytes(const T* values, F column_of)
    {
        for (int64_t i = 0; i < n; ++i)
            pairs[0][i] = {behind[i], distance(i)};
        sort_ranked(pairs[0], pairs[1], n);
        deliver(n, values, column_of, [&](int64_t i) { return pairs[0][i].at; });
    }

    // The first of them.
    template <typename C, typename F>
    void deliver(int64_t count, const T* values, C column_of, F from)
    {
        for (int64_t i = 0; i < count; ++i) {
            const int64_t at = from(i);
            best[i] = values[at];
            columns[i] = column_of(at);
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
