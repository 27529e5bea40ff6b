#pragma once
// The K-th of ranks, by counting.

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <fusegen/cpu/compress.hpp>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

template <typename R>
struct kth {
    R rank;
    int64_t above;  // how many exceed it, if more than enough share or exceed it
};

// The ranks from low to high, one after the other, to a place that may be their own; how many there
// are.
template <typename R>
inline int64_t between(R* to, const R* ranks, int64_t n, R low, R high)
{
    int64_t found = 0;
    for (int64_t i = 0; i < n; i += width<lanes>) {
        like<R, lanes> part;
        std::memcpy(&part, ranks + i, sizeof part);
        const uint64_t here = n - i < width<lanes> ? (1 << (n - i)) - 1 : ~uint64_t(0);
        found += keep(to + found, ranks + i, lanes_where((part >= low) & (part <= high)) & here);
    }
    return found;
}

// The least and the greatest of the ranks from low to high.
template <typename R>
inline void shrink(const R* ranks, int64_t n, R& low, R& high)
{
    R least = high, most = low;
    for (int64_t i = 0; i < n; ++i) {
        const R above = ranks[i] < low ? high : ranks[i], below = ranks[i] > high ? low : ranks[i];
        least = above < least ? above : least;
        most = below > most ? below : most;
    }
    low = least;
    high = most;
}

// A rank that at least K of the n share or exceed: the K-th's, or a lower one that no more than
// `enough` share or exceed. Where it is, is guessed from how many exceed both ends of the range that
// it is in; after a bad guess the range shrinks to the ranks that are there, and is halved. Counting
// runs at the speed of vectors; once few are left between the ends, only they are looked at. `room`:
// for a quarter of them.
template <typename R>
inline kth<R> kth_of(const R* ranks, int64_t n, int64_t K, int64_t enough, R* room)
{
    typedef std::make_unsigned_t<R> size;
    R low = std::numeric_limits<R>::min(), high = std::numeric_limits<R>::max();
    shrink(ranks, n, low, high);
    int64_t from_low = n, above_high = 0, above_all = 0;
    bool halve = false;
    while (low < high && from_low > enough) {
        const size span = size(high) - size(low);
        const double part = (from_low - 0.5 * (K + enough)) / (from_low - above_high);
        const size step = halve ? span / 2 : size(double(span) * part);
        const R middle = R(size(low) + (step < span ? step : span - 1) + 1);
        R count = 0;
        for (int64_t i = 0; i < n; ++i)
            count += ranks[i] >= middle;
        if (above_all + count >= K) {
            low = middle;
            from_low = above_all + count;
        } else {
            high = middle - 1;
            above_high = above_all + count;
        }
        halve = !halve && size(high) - size(low) > span / 2;
        if (4 * (from_low - above_high) < n) {
            n = between(room, ranks, n, low, high);
            ranks = room;
            above_all = above_high;
        }
        if (halve)
            shrink(ranks, n, low, high);
    }
    return {low, low < high ? 0 : above_high};
}

}  // namespace

}  // namespace fusegen
