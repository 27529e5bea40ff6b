#pragma once
// Long lists of the best: what may be among them is gathered.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/ranking.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

#if defined(__AVX512BW__)
// Those of as many values as a vector has lanes whose bit is set, one after the other, to a place that
// may be their own; how many there are.
template <typename T>
inline int64_t keep(T* to, const T* values, uint64_t bits)
{
    if constexpr (sizeof(T) == 4 && width<lanes> == 16) {
        int part __attribute__((vector_size(64)));
        std::memcpy(&part, values, sizeof part);
        part = __builtin_ia32_compresssi512_mask(part, part ^ part, bits);
        std::memcpy(to, &part, sizeof part);
    } else if constexpr (sizeof(T) == 4) {
        int part __attribute__((vector_size(32)));
        std::memcpy(&part, values, sizeof part);
        part = __builtin_ia32_compresssi256_mask(part, part ^ part, bits);
        std::memcpy(to, &part, sizeof part);
    } else {
        int64_t n = 0;
        for (int64_t i = 0; i < width<lanes>; i += 8) {
            long long part __attribute__((vector_size(64)));
            std::memcpy(&part, values + i, sizeof part);
            part = __builtin_ia32_compressdi512_mask(part, part ^ part, bits >> i);
            std::memcpy(to + n, &part, sizeof part);
            n += __builtin_popcountll(bits >> i & 255);
        }
    }
    return __builtin_popcountll(bits);
}
#else
// Those of as many values as a vector has lanes whose bit is set, one after the other, to a place that
// may be their own; how many there are.
template <typename T>
inline int64_t keep(T* to, const T* values, uint64_t bits)
{
    int64_t n = 0;
    for (; bits != 0; bits &= bits - 1, ++n)
        to[n] = values[__builtin_ctzll(bits)];
    return n;
}
#endif

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

#if defined(__AVX512BW__)
template <uint32_t... number>
inline like<uint32_t, lanes> lane_numbers(std::integer_sequence<uint32_t, number...>)
{
    return like<uint32_t, lanes>{number...};
}

// The lanes of v whose bit is set, one after the other, and their numbers, from `first` on; how many
// there are. (Whole vectors are stored: what lies behind the last is overwritten by the next.)
template <typename V, typename T>
inline int64_t append(T* values, uint32_t* numbers, V v, uint64_t bits, uint32_t first)
{
    if constexpr (std::is_arithmetic_v<V>) {
        *values = v;
        *numbers = first;
        return bits;
    } else {
        const auto at = first + lane_numbers(std::make_integer_sequence<uint32_t, width<lanes>>());
        keep(values, reinterpret_cast<const T*>(&v), bits);
        return keep(numbers, reinterpret_cast<const uint32_t*>(&at), bits);
    }
}
#else
// The lanes of v whose bit is set, one after the other, and their numbers, from `first` on; how many
// there are.
template <typename V, typename T>
inline int64_t append(T* values, uint32_t* numbers, V v, uint64_t bits, uint32_t first)
{
    int64_t n = 0;
    for (; bits != 0; bits &= bits - 1, ++n) {
        const int lane = __builtin_ctzll(bits);
        values[n] = in_lane(v, lane);
        numbers[n] = first + lane;
    }
    return n;
}
#endif

#if defined(__AVX512BW__)
// The lanes of v that are not below the bar, as bits.
template <typename V, typename T>
inline uint64_t reaching(V v, T bar)
{
    constexpr int not_below = 21, not_below_int = 5;  // as instructions number them
    if constexpr (std::is_arithmetic_v<V>) {
        return !(v < bar);
    } else if constexpr (sizeof(T) == 4) {
        typedef float part __attribute__((vector_size(64)));
        return uint16_t(__builtin_ia32_cmpps512_mask(as<part>(v), bar - part(), not_below, -1, rounding_as_set));
    } else {
        typedef T part __attribute__((vector_size(64)));
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof v / 64; ++i) {
            part some;
            std::memcpy(&some, reinterpret_cast<const char*>(&v) + 64 * i, 64);
            if constexpr (std::is_integral_v<T>) {
                typedef long long longs __attribute__((vector_size(64)));
                const uint8_t here = __builtin_ia32_cmpq512_mask(longs(some), longs(bar - part()), not_below_int, -1);
                bits |= uint64_t(here) << 8 * i;
            } else {
                const uint8_t here = __builtin_ia32_cmppd512_mask(some, bar - part(), not_below, -1, rounding_as_set);
                bits |= uint64_t(here) << 8 * i;
            }
        }
        return bits;
    }
}
#else
// The lanes of v that are not below the bar, as bits.
template <typename V, typename T>
inline uint64_t reaching(V v, T bar)
{
    return lanes_where(inverse(v < bar));
}
#endif

#if defined(__AVX512BW__)
// Which of 64 numbers are not 0, as bits.
inline uint64_t where_any(const uint16_t* numbers)
{
    short low __attribute__((vector_size(64))), high __attribute__((vector_size(64)));
    std::memcpy(&low, numbers, 64);
    std::memcpy(&high, numbers + 32, 64);
    const int unequal = 4;
    return uint64_t(__builtin_ia32_cmpw512_mask(low, low ^ low, unequal, -1))
        | uint64_t(__builtin_ia32_cmpw512_mask(high, high ^ high, unequal, -1)) << 32;
}
#else
// Which of 64 numbers are not 0, as bits.
inline uint64_t where_any(const uint16_t* numbers)
{
    uint64_t bits = 0;
    for (int i = 0; i < 64; ++i)
        bits |= uint64_t(numbers[i] != 0) << i;
    return bits;
}
#endif

// The K best values and their columns, too many to keep in order. Whatever can still be among them
// is gathered, in the order of columns; a cut leaves a few more than K and raises the bar. The first
// bar is a guess from a sample: if fewer than K reach it, the row is searched again without one.
template <typename T, int64_t K>
struct candidates {
    static constexpr int64_t kept = K + K / 8 + 16;              // by a cut, at most
    static constexpr int64_t full = kept + (K < 256 ? 256 : K);  // time for a cut
    static constexpr int64_t block = list_block;                 // columns between two looks at the room
    static constexpr int64_t room = full + block + width<lanes>;

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

    // Before any search: guesses the bar from the first columns. Where far more of the row than that
    // would reach it, by a look here and there, from columns that are far apart instead: the row
    // is not shuffled, and they cost more to read.
    template <typename V, typename F>
    void survey(int64_t begin, int64_t end, F lift)
    {
        constexpr int64_t n = width<V>, looks = 16;
        const int64_t vectors = (end - begin) / n, seen = surveyed(end - begin) / n;
        if (seen == 0)
            return;
        const double expected = double(K) * seen / vectors;
        const int64_t kth = expected + 3 * std::sqrt(expected) + 2;
        guess<V>(begin, seen, n, kth, lift);
        int64_t reach = 0;
        for (int64_t look = 1; look <= looks; ++look)
            reach += __builtin_popcountll(reaching(lift(begin + (vectors * look / looks - 1) * n), bar));
        if (rarely(reach * seen > 4 * looks * kth + 8 * seen))
            guess<V>(begin, seen, vectors / seen * n, kth, lift);
    }

    // From a sample of which `kth` are to reach the bar: if the row is shuffled, fewer than K of all
    // do in one of a thousand, and review() is due. Groups are as good as columns, and fewer.
    // lift gives as many values as a V has, from a column on.
    template <typename V, typename F>
    void guess(int64_t column, int64_t vectors, int64_t step, int64_t kth, F lift)
    {
        constexpr int64_t n = width<V>;
        const int64_t wanted = 8 * kth < room - n ? 8 * kth / n + 1 : room / n;
        const int64_t depth = (vectors + wanted - 1) / wanted, groups = vectors / depth;
        if (groups * n <= kth)
            return;
        for (int64_t group = 0; group < groups; ++group) {
            auto most = lift(column);
            column += step;
            for (int64_t i = 1; i < depth; ++i, column += step) {
                const auto next = lift(column);
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
            entering[i] = reaching(lift(column), least);
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
                n += append(values + n, offsets + n, lift(column), entering[i], uint32_t(column - origin));
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
        widen();
        sorted.sort(values, columns, held);
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
