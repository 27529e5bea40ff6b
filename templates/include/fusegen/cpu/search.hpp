#pragma once
// What of a chunk enters a short list.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <fusegen/cpu/best.hpp>
#include <fusegen/cpu/compress.hpp>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// The first n of some numbers, as bits.
inline uint64_t first_of(int64_t n) { return n >= 64 ? ~uint64_t(0) : (uint64_t(1) << n) - 1; }

// The lanes that are columns of the chunk, as bits.
inline uint64_t live_of(all_lanes) { return ~uint64_t(0); }
inline uint64_t live_of(first_lanes live) { return first_of(live.n); }

// A few values that can enter a list, in the order of their columns.
template <typename V, typename T>
struct entrants {
    static constexpr int64_t most = width<V> <= 16 ? 4 * width<V> : width<V>;

    alignas(64) T values[most + 2 * width<V>];
    alignas(64) uint32_t numbers[most + width<V>];  // of columns, from the chunk's first on
    int64_t n = 0;

    // Those of v whose bit is set; there are no more than `most` so far.
    template <typename P>
    void take(P v, uint64_t bits, int64_t number) { n += append(values + n, numbers + n, v, bits, uint32_t(number)); }

    // Columns [begin, end), those that reach the bar; false if they are too many. In a long chunk, which
    // vectors hold any is found out before any is taken: that is a branch that cannot be predicted.
    template <typename F>
    bool gather(int64_t begin, int64_t end, T bar, F at)
    {
        constexpr int64_t lanes_of = width<V>;
        const int64_t whole = end - (end - begin) % lanes_of;
        if (end - begin <= 8 * lanes_of) {
            for (int64_t col = begin; col < whole; col += lanes_of) {
                const auto v = at(col, all_lanes());
                if (rarely(n > most))
                    return false;
                take(v, reaching(v, bar), col - begin);
            }
        } else {
            uint16_t entering[64];
            for (int64_t first = begin; first < whole; first += 64 * lanes_of) {
                const int64_t stop = whole - first < 64 * lanes_of ? whole : first + 64 * lanes_of;
                uint64_t some = 0;
                for (int64_t col = first, i = 0; col < stop; col += lanes_of, ++i) {
                    const uint64_t bits = reaching(at(col, all_lanes()), bar);
                    entering[i] = bits;
                    some |= uint64_t(bits != 0) << i;
                }
                for (; some != 0; some &= some - 1) {
                    const int64_t i = __builtin_ctzll(some), col = first + i * lanes_of;
                    if (rarely(n > most))
                        return false;
                    take(at(col, all_lanes()), entering[i], col - begin);
                }
            }
        }
        if (whole < end && n <= most) {
            const first_lanes live{end - whole};
            const auto v = at(whole, live);
            take(v, reaching(v, bar) & live_of(live), whole - begin);
        }
        return n <= most;
    }
};

// To an empty list the best of some values, which fill so many vectors; false where one is NaN. How
// many exceed each says where it stands, and equals stand as they come: nothing depends on a prediction.
template <int64_t n_parts, typename V, typename T, int64_t K>
inline bool choose(best_list<T, K>& list, const entrants<V, T>& from, int64_t first_column)
{
    typedef like<T, V> part;
    part parts[n_parts];
    mask<part> above[n_parts];
    uint64_t nans = 0;
    for (int64_t i = 0; i < n_parts; ++i) {
        std::memcpy(&parts[i], from.values + i * width<V>, sizeof(part));
        nans |= lanes_where(parts[i] != parts[i]);
        above[i] = mask<part>();
    }
    if (rarely(nans != 0))
        return false;
    for (int64_t j = 0; j < n_parts * width<V>; ++j)
        for (int64_t i = 0; i < n_parts; ++i)
            above[i] -= from.values[j] - part() > parts[i];
    uint64_t left = first_of(from.n);
    for (int64_t entry = 0; entry < K && left != 0; ++entry) {
        uint64_t bits = 0;
        for (int64_t i = 0; i < n_parts; ++i)
            bits |= lanes_where(above[i] <= all<mask<part>>(entry)) << i * width<V>;
        bits &= left;
        const int at = __builtin_ctzll(bits);
        left &= ~(bits & -bits);
        list.values[entry] = from.values[at];
        list.columns[entry] = first_column + from.numbers[at];
    }
    return true;
}

// Columns [begin, end) to an empty list; false, and none, where many can enter, or NaN can.
template <typename V, typename T, int64_t K, typename F>
inline bool fill(best_list<T, K>& list, int64_t begin, int64_t end, F at)
{
    entrants<V, T> found;
    if (!found.gather(begin, end, list.bound, at))
        return false;
    for (int64_t behind : {found.n, found.n + width<V>})
        put(found.values + behind, all<like<T, V>>(lowest_of<T>));
    if (found.n <= width<V>)
        return choose<1>(list, found, begin);
    if (found.n <= 2 * width<V>)
        return choose<2>(list, found, begin);
    return choose<entrants<V, T>::most / width<V>>(list, found, begin);
}

// The lanes of v whose bit is set.
template <typename T, int64_t K, typename P>
inline void offer_lanes(best_list<T, K>& list, P v, uint64_t bits, int64_t column)
{
    for (; bits != 0; bits &= bits - 1) {
        const int lane = __builtin_ctzll(bits);
        list.offer(v[lane], column + lane);
    }
}

// Columns [begin, end) to a list, those that reach its bar.
template <typename V, typename T, int64_t K, typename F>
inline void scan(best_list<T, K>& list, int64_t begin, int64_t end, F at)
{
    constexpr int64_t n = width<V>;
    T bar = list.bar();
    for (; begin + 4 * n <= end; begin += 4 * n) {
        uint64_t bits[4], some = 0;
        for (int64_t i = 0; i < 4; ++i)
            some |= bits[i] = reaching(at(begin + i * n, all_lanes()), bar);
        if (rarely(some != 0)) {
            for (int64_t i = 0; i < 4; ++i)
                offer_lanes(list, at(begin + i * n, all_lanes()), bits[i], begin + i * n);
            bar = list.bar();
        }
    }
    each<V>(begin, end, [&](int64_t col, auto live) {
        const auto v = at(col, live);
        offer_lanes(list, v, reaching(v, bar) & live_of(live), col);
    });
}

// Columns [begin, end) to a list; `top`: lane by lane, the greatest of them.
template <typename V, typename T, int64_t K, typename P, typename F>
inline void search(best_list<T, K>& list, P top, int64_t begin, int64_t end, F at)
{
    if constexpr (std::is_arithmetic_v<V>) {
        for (; begin < end; ++begin)
            list.offer(at(begin, all_lanes()), begin);
    } else {
        list.prepare(top);
        if constexpr (K <= 8 && K <= width<V>)
            if (list.is_empty() && fill<V>(list, begin, end, at))
                return;
        scan<V>(list, begin, end, at);
    }
}

// Likewise, of which nothing is known.
template <typename V, typename T, int64_t K, typename F>
inline void find(best_list<T, K>& list, int64_t begin, int64_t end, F at)
{
    if constexpr (std::is_arithmetic_v<V>) {
        for (; begin < end; ++begin)
            list.offer(at(begin, all_lanes()), begin);
    } else if (list.is_empty()) {
        typedef like<T, V> part;
        part top[2] = {all<part>(lowest_of<T>), all<part>(lowest_of<T>)};
        each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
            const auto v = live(at(col, live), lowest_of<T>);
            top[turn] = v > top[turn] ? v : top[turn];
        });
        search<V>(list, top[0] > top[1] ? top[0] : top[1], begin, end, at);
    } else {
        scan<V>(list, begin, end, at);
    }
}

}  // namespace

}  // namespace fusegen
