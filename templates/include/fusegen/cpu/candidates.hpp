#pragma once
// Long lists of the best: what may be among them is gathered.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <fusegen/cpu/compress.hpp>
#include <fusegen/cpu/kth.hpp>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/ranking.hpp>
#include <fusegen/cpu/ranks.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// The K best values and their columns, too many to keep in order. Whatever can still be among them
// is gathered, in the order of columns; a cut leaves a few more than K and raises the bar. The first
// bar is a guess from a sample: if fewer than K reach it, the row is searched again without one.
template <typename T, int64_t K>
struct candidates {
    static constexpr int64_t kept = K + K / 8 + 16;              // by a cut, at most
    static constexpr int64_t full = kept + (K < 256 ? 256 : K);  // time for a cut
    static constexpr int64_t block = list_block;                 // columns between two looks at the room
    static constexpr int64_t room = full + block + width<lanes>;
    static constexpr int64_t at_once = ranking<T, K>::in_network < block ? ranking<T, K>::in_network : block;

    alignas(64) T values[room];
    alignas(64) uint32_t offsets[room];  // of their columns from the origin, until the list is merged
    alignas(64) int64_t columns[room];   // from then on
    alignas(64) rank<T> ranks[room];     // of the values
    alignas(64) rank<T> close[room / 4 + width<lanes>];  // those about the K-th
    alignas(64) uint16_t entering[(block / width<lanes> + 63) / 64 * 64];  // lanes of every vector
    ranking<T, K> sorted;
    int64_t held;
    int64_t origin;  // the first column, once there is any
    bool merged;     // are the columns held in full?
    T bar;  // nothing below it can enter

    void clear()
    {
        held = 0;
        merged = false;
        bar = lowest_of<T>;
    }

    // Could v enter the list?
    bool admitted(T v) const { return !(v < bar); }

    // How many of a row's first columns a survey looks at.
    static int64_t surveyed(int64_t n_cols)
    {
        constexpr int64_t n = width<lanes>, enough = 2048 + 2 * K, looks = 16;
        const int64_t seen = (n_cols / 2 < enough ? n_cols / 2 : enough) / n;
        return seen < looks ? 0 : seen * n;
    }

    // Before any search: guesses the bar from the first columns; of few, from all, so that K do reach
    // it. Where far more of the row than that
    // would reach it, by a look here and there, from columns that are far apart instead: the row
    // is not shuffled, and they cost more to read.
    template <typename V, typename F>
    void survey(int64_t begin, int64_t end, F lift)
    {
        constexpr int64_t n = width<V>, looks = 16;
        const int64_t vectors = (end - begin) / n, seen = surveyed(end - begin) / n;
        if (seen == 0)
            return guess<V>(begin, vectors, n, K, lift);
        const double expected = double(K) * seen / vectors;
        const int64_t kth = expected + 3 * std::sqrt(expected) + 2;
        guess<V>(begin, seen, n, kth, lift);
        int64_t reach = 0;
        for (int64_t look = 1; look <= looks; ++look)
            reach += __builtin_popcountll(reaching(lift(begin + (vectors * look / looks - 1) * n, all_lanes()), bar));
        if (rarely(reach * seen > 4 * looks * kth + 8 * seen))
            guess<V>(begin, seen, vectors / seen * n, kth, lift);
    }

    // From a sample of which `kth` are to reach the bar: if the row is shuffled, fewer than K of all
    // do in one of a thousand, and review() is due. Groups are as good as columns, and fewer.
    // lift gives as many values as a V has, from a column on, of those that are live.
    template <typename V, typename F>
    void guess(int64_t column, int64_t vectors, int64_t step, int64_t kth, F lift)
    {
        constexpr int64_t n = width<V>;
        const int64_t wanted = 8 * kth < room - n ? 8 * kth / n + 1 : room / n;
        const int64_t depth = (vectors + wanted - 1) / wanted, groups = vectors / depth;
        if (groups * n <= kth)
            return;
        for (int64_t group = 0; group < groups; ++group) {
            auto most = lift(column, all_lanes());
            column += step;
            for (int64_t i = 1; i < depth; ++i, column += step) {
                const auto next = lift(column, all_lanes());
                most = next > most ? next : most;
            }
            std::memcpy(values + group * n, &most, sizeof most);
        }
        for (int64_t i = 0; i < groups * n; ++i)
            ranks[i] = rank_of(values[i]);
        bar = value_of<T>(kth_of(ranks, groups * n, kth, kth + kth / 8, close).rank);
    }

    // Columns [begin, end), from left to right: those that can enter.
    template <typename V, typename F>
    void search(int64_t begin, int64_t end, F lift)
    {
        for (; begin < end; begin += block) {
            const int64_t stop = end - begin < block ? end : begin + block;
            mark<V>(begin, stop, lift);
            take<V>(begin, stop, lift);
        }
    }

    // Columns [begin, end), at_once at most: every one.
    template <typename V, typename F>
    void take_all(int64_t begin, int64_t end, F lift)
    {
        if (rarely(held > full))
            cut(kept);
        if (held == 0)
            origin = begin;
        each<V>(begin, end, [&](int64_t col, auto live) {
            const auto v = lift(col, live);
            const int64_t at = held + (col - begin);
            std::memcpy(values + at, &v, sizeof v);
            for (int lane = 0; lane < width<V>; ++lane)
                offsets[at + lane] = uint32_t(col - origin) + lane;
        });
        held += end - begin;
    }

    // What fills no vector, after all others.
    template <typename V, typename F>
    void take_rest(int64_t begin, int64_t end, F lift)
    {
        if (rarely(held > full))
            cut(kept);
        if (held == 0)
            origin = begin;
        const first_lanes live{end - begin};
        const auto v = lift(begin, live);
        const uint64_t bits = reaching(v, bar) & ((uint64_t(1) << live.n) - 1);
        held += append(values + held, offsets + held, v, bits, uint32_t(begin - origin));
    }

    // After all columns of a survey: was its bar too high?
    template <typename V, typename F>
    void review(int64_t begin, int64_t end, F lift)
    {
        if (rarely(held < K && bar != lowest_of<T>)) {
            clear();
            search<V>(begin, end, lift);
        }
    }

    // Which lanes of a block can enter. Found out for all its vectors before any is taken: whether
    // one holds any is a branch that cannot be predicted.
    template <typename V, typename F>
    void mark(int64_t begin, int64_t end, F lift)
    {
        if (rarely(held > full))
            cut(kept);
        if (held == 0)
            origin = begin;
        const T least = bar;
        int64_t i = 0;
        for (int64_t column = begin; column < end; ++i, column += width<V>)
            entering[i] = reaching(lift(column, all_lanes()), least);
        for (; i % 64 != 0; ++i)
            entering[i] = 0;
    }

    // What was marked. Not at once: what was written lane by lane is slow to read together.
    template <typename V, typename F>
    void take(int64_t begin, int64_t end, F lift)
    {
        int64_t n = held;
        for (int64_t first = 0; begin + first * width<V> < end; first += 64)
            for (uint64_t vectors = where_any(entering + first); vectors != 0; vectors &= vectors - 1) {
                const int64_t i = first + __builtin_ctzll(vectors), column = begin + i * width<V>;
                n += append(values + n, offsets + n, lift(column, all_lanes()), entering[i], uint32_t(column - origin));
            }
        held = n;
    }

    // The K best stay, and others if no more than `enough` stay so. Of equals the first stay.
    void cut(int64_t enough)
    {
        if (held <= enough)
            return;
        for (int64_t i = 0; i < held; ++i)
            ranks[i] = rank_of(values[i]);
        const auto kth = kth_of(ranks, held, K, enough, close);
        held = merged ? sift(columns, kth, enough) : sift(offsets, kth, enough);
        bar = following<T>(kth.rank);  // equals to come are behind those that are here
    }

    // What exceeds the K-th, and the first of those that share its rank; how many.
    template <typename C>
    int64_t sift(C* numbers, kth<rank<T>> kth, int64_t enough)
    {
        int64_t spare = enough - kth.above, n = 0;
        for (int64_t i = 0; i < held; i += width<lanes>) {
            like<rank<T>, lanes> part;
            std::memcpy(&part, ranks + i, sizeof part);
            const uint64_t here = held - i < width<lanes> ? (1 << (held - i)) - 1 : ~uint64_t(0);
            uint64_t shares = spare > 0 ? lanes_where(part == kth.rank) & here : 0;
            while (rarely(__builtin_popcountll(shares) > spare))
                shares ^= uint64_t(1) << (63 - __builtin_clzll(shares));  // the last of them
            spare -= __builtin_popcountll(shares);
            const uint64_t stay = (lanes_where(part > kth.rank) & here) | shares;
            keep(values + n, values + i, stay);
            n += keep(numbers + n, numbers + i, stay);
        }
        return n;
    }

    // Columns in full: those of a merged list may be as far apart as a row is long.
    void widen()
    {
        if (!merged)
            for (int64_t i = 0; i < held; ++i)
                columns[i] = origin + offsets[i];
        merged = true;
    }

    // The columns of `other` come after all of this list.
    void merge(candidates& other)
    {
        widen();
        other.widen();
        for (int64_t i = 0; i < other.held; ++i) {
            if (rarely(held > full))
                cut(kept);
            values[held] = other.values[i];
            columns[held] = other.columns[i];
            held += admitted(other.values[i]);
        }
    }

    // After all columns.
    void sort()
    {
        cut(sorted.most);
        sorted.sort(values, held, [&](int64_t i) { return merged ? columns[i] : origin + int64_t(offsets[i]); });
    }

    // Of as many entries as a V has, from the i-th best on.
    template <typename V = real>
    like<T, V> value(int64_t i) const
    {
        like<T, V> v;
        std::memcpy(&v, sorted.best + i, sizeof v);
        return v;
    }

    template <typename V = real>
    whole<V> column(int64_t i) const
    {
        whole<V> v;
        std::memcpy(&v, sorted.columns + i, sizeof v);
        return v;
    }
};

}  // namespace

}  // namespace fusegen
