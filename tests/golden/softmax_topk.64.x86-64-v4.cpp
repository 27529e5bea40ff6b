// softmax_topk    texts.py:74
// form online, for x86-64-v4; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 64 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 64 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, monotone
// Tree       block online, chunks of 256
// Schedule   vectors of 16, chunks of 256, pieces of 262144 columns
// Bytes      reads each element once, writes 768 bytes a row

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace {

namespace fg {

typedef float lanes __attribute__((vector_size(64)));  // 16 at a time

constexpr int rounding_as_set = 4;  // as instructions number it

constexpr float infinity = std::numeric_limits<float>::infinity();

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <typename T>
constexpr T lowest_of = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();

// Columns folded in one go; longer rows merge pieces of this length, on however many threads.
constexpr int64_t piece = 262144;

// Elements in a V: 1 for a plain value.
template <typename V>
constexpr int64_t width = sizeof(V) / sizeof(float);

template <typename T, int64_t n>
struct pack {
    typedef T type __attribute__((vector_size(n * sizeof(T))));
};
template <typename T>
struct pack<T, 1> {
    typedef T type;
};
// As many T as there are values in a V.
template <typename T, typename V>
using like = typename pack<T, sizeof(V) / sizeof(float)>::type;

template <typename V>
using whole = like<int64_t, V>;

// What comparing two V gives: a bool, or lanes of all ones and all zeros.
template <typename V>
using mask = decltype(V() < V());

// One value in every lane. (s - 0 is s for every s, -0 and NaN included.)
template <typename V, typename S>
inline V all(S s)
{
    if constexpr (std::is_arithmetic_v<V>)
        return static_cast<V>(s);
    else
        return static_cast<std::decay_t<decltype(V()[0])>>(s) - V();
}

// The same bits as another type.
template <typename To, typename From>
inline To as(From from)
{
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline bool rarely(bool condition) { return __builtin_expect(condition, 0); }

// The greater; NaN if either is.
template <typename V>
inline V greater_of(V a, V b)
{
    const V found = a > b ? a : b;  // b where they do not compare
    return a != a ? a : found;
}

// The lesser; NaN if either is.
template <typename V>
inline V lesser_of(V a, V b)
{
    const V found = a < b ? a : b;  // b where they do not compare
    return a != a ? a : found;
}

template <typename T, typename V, size_t... i>
inline auto half_of(V v, size_t first, std::index_sequence<i...>)
{
    typedef T half __attribute__((vector_size(sizeof...(i) * sizeof(T))));
    return half{v[first + i]...};
}

// Folds the lanes of v, halves onto halves: the same order whatever the processor.
template <typename V, typename F>
inline auto across(V v, F f)
{
    if constexpr (std::is_arithmetic_v<V>) {
        return v;
    } else {
        typedef std::decay_t<decltype(v[0])> T;
        constexpr size_t n = sizeof(V) / sizeof(T) / 2;
        if constexpr (n == 1) {
            return f(T(v[0]), T(v[1]));
        } else {
            const auto low = half_of<T>(v, 0, std::make_index_sequence<n>());
            const auto high = half_of<T>(v, n, std::make_index_sequence<n>());
            return across(f(low, high), f);
        }
    }
}

// Is the mask set in any lane?
template <typename M>
inline bool any(M m)
{
    if constexpr (std::is_arithmetic_v<M>) {
        return m;
    } else {
        typedef int64_t words __attribute__((vector_size(sizeof(M))));
        return across(as<words>(m), [](auto a, auto b) { return a | b; }) != 0;
    }
}

// The greatest so far, lane by lane. NaN is noted beside it: to test for it in the comparison would
// lengthen the chain from one element to the next.
template <typename V>
struct highest {
    V so_far = all<V>(-infinity);
    mask<V> nans = mask<V>();

    void take(V x)
    {
        so_far = x > so_far ? x : so_far;
        nans |= x != x;
    }

    float across() const
    {
        const float found = fg::across(so_far, [](auto a, auto b) { return a > b ? a : b; });
        return rarely(any(nans)) ? nan : found;
    }
};

template <typename V>
inline auto least(V v)
{
    return across(v, [](auto a, auto b) { return lesser_of(a, b); });
}

template <typename V>
inline auto total(V v)
{
    return across(v, [](auto a, auto b) { return a + b; });
}

// The lanes where m is set, as bits.
template <typename M>
inline uint64_t lanes_where(M m)
{
    if constexpr (std::is_arithmetic_v<M>) {
        return m;
    } else {
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof m / 64; ++i) {
            if constexpr (sizeof m[0] == 4) {
                int part __attribute__((vector_size(64)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 64 * i, 64);
                bits |= uint64_t(__builtin_ia32_cvtd2mask512(part)) << 16 * i;
            } else {
                long long part __attribute__((vector_size(64)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 64 * i, 64);
                bits |= uint64_t(__builtin_ia32_cvtq2mask512(part)) << 8 * i;
            }
        }
        return bits;
    }
}

// Asks for n elements that are needed soon; beyond the end of the memory that does nothing.
template <typename T>
inline void prefetch(const T* from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64 / sizeof(T))
        __builtin_prefetch(from + i);
}

// Asks for the part-th two cache lines of n results, which are going to be written.
template <typename T>
inline void expect(T* to, int64_t n, int64_t part)
{
    constexpr int64_t line = 64 / sizeof(T);
    if (2 * line * part < n) {
        __builtin_prefetch(to + 2 * line * part, 1);
        __builtin_prefetch(to + 2 * line * part + line, 1);
    }
}

// Which lanes of a vector are columns of the chunk: every one. What is not is left alone.
struct all_lanes {
    template <typename T, typename S>
    T operator()(T v, S) const
    {
        return v;
    }
};

// The same at the end of a row: the first n lanes.
struct first_lanes {
    int64_t n;

    template <typename T, typename S>
    T operator()(T v, S otherwise) const
    {
        typedef std::conditional_t<sizeof v[0] == 8, int64_t, int32_t> number;
        typedef number numbers __attribute__((vector_size(sizeof(T))));
        numbers at;
        for (size_t i = 0; i < sizeof(T) / sizeof(number); ++i)
            at[i] = i;
        return at < number(n) ? v : all<T>(otherwise);
    }
};

template <int64_t n>
struct pack_of_bytes {
    typedef char type __attribute__((vector_size(n)));
};
template <int64_t n>
using byte_vector = typename pack_of_bytes<n>::type;

// An address as instructions that move some bytes of a vector take it.
template <int64_t n, typename E>
inline auto byte_place(E* at)
{
#ifdef __clang__
    return (byte_vector<n>*)at;
#else
    return (char*)at;
#endif
}

// The first n bytes of a vector, as bits.
inline uint64_t first_bytes(int64_t n) { return n >= 64 ? -1 : n <= 0 ? 0 : (uint64_t(1) << n) - 1; }

// A T from memory.
template <typename T, typename E>
inline T fetch(const E* from, all_lanes = {})
{
    T v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

// The live lanes of a T from memory; the others are 0, and what lies there is not touched.
template <typename T, typename E>
inline T fetch(const E* from, first_lanes live)
{
    const int64_t count = live.n * sizeof(E);
    T v;
    if constexpr (sizeof v <= 16) {
        const auto found = __builtin_ia32_loaddquqi128_mask(byte_place<16>(from), byte_vector<16>(), first_bytes(count));
        std::memcpy(&v, &found, sizeof v);
    } else if constexpr (sizeof v == 32) {
        const auto found = __builtin_ia32_loaddquqi256_mask(byte_place<32>(from), byte_vector<32>(), first_bytes(count));
        std::memcpy(&v, &found, sizeof v);
    } else {
        for (int64_t at = 0; at < int64_t(sizeof v); at += 64) {
            const auto part = reinterpret_cast<const char*>(from) + at;
            const auto found = __builtin_ia32_loaddquqi512_mask(byte_place<64>(part), byte_vector<64>(), first_bytes(count - at));
            std::memcpy(reinterpret_cast<char*>(&v) + at, &found, 64);
        }
    }
    return v;
}

// A T to memory.
template <typename T, typename E>
inline void put(E* to, T v, all_lanes = {})
{
    std::memcpy(to, &v, sizeof v);
}

// The live lanes of a T to memory.
template <typename T, typename E>
inline void put(E* to, T v, first_lanes live)
{
    const int64_t count = live.n * sizeof(E);
    if constexpr (sizeof v <= 16) {
        byte_vector<16> stored = {};
        std::memcpy(&stored, &v, sizeof v);
        __builtin_ia32_storedquqi128_mask(byte_place<16>(to), stored, first_bytes(count));
    } else if constexpr (sizeof v == 32) {
        __builtin_ia32_storedquqi256_mask(byte_place<32>(to), as<byte_vector<32>>(v), first_bytes(count));
    } else {
        for (int64_t at = 0; at < int64_t(sizeof v); at += 64) {
            byte_vector<64> stored;
            std::memcpy(&stored, reinterpret_cast<const char*>(&v) + at, 64);
            __builtin_ia32_storedquqi512_mask(byte_place<64>(reinterpret_cast<char*>(to) + at), stored, first_bytes(count - at));
        }
    }
}

template <typename V, typename L = all_lanes>
inline V load(const float* from, L live = {})
{
    return fetch<V>(from, live);
}

template <typename V, typename L = all_lanes>
inline void store(float* to, V v, L live = {})
{
    put(to, v, live);
}

// Integers clamped to the range of T.
template <typename T, typename I, typename L = all_lanes>
inline void store_int(T* to, I v, L live = {})
{
    if constexpr (sizeof(T) < 8) {
        constexpr int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
        v = v < low ? all<I>(low) : v;
        v = v > high ? all<I>(high) : v;
    }
    if constexpr (std::is_arithmetic_v<I>) {
        *to = T(v);
    } else {
        typedef T narrow_lanes __attribute__((vector_size(sizeof(I) / 8 * sizeof(T))));
        const narrow_lanes stored = __builtin_convertvector(v, narrow_lanes);
        put(to, stored, live);
    }
}

// a·b, but 0 wherever a is 0, even against an infinity or NaN in b.
template <typename V>
inline V zero_wins(V a, V b)
{
    return a == V() ? V() : a * b;
}

// e^x for x from -110 to 89, to 1 ulp or half the least subnormal number. With n = round(x / ln 2) and
// r = x - n ln 2, e^x = 2^n * e^r: one instruction, which rounds once. A large constant rounds to n.
template <typename V>
inline V exp_within(V x)
{
    const V n = (x * 1.44269504f + 0x1.8p23f) - 0x1.8p23f;
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 0.00138139306f + 0.00836881623f;
    p = p * r + 0.0416684151f;
    p = p * r + 0.166665196f;
    p = p * r + 0.49999994f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    typedef float vector __attribute__((vector_size(64)));
    vector value = {}, power = {};
    if constexpr (sizeof(V) == 64) {
        return __builtin_ia32_scalefps512_mask(p, n, p, -1, rounding_as_set);
    } else {
        value[0] = p, power[0] = n;
        return __builtin_ia32_scalefps512_mask(value, power, value, -1, rounding_as_set)[0];
    }
}

// e^x for x <= 0. NaN stays NaN.
template <typename V>
inline V exp_below(V x)
{
    const V low = all<V>(-110.0f);
#if __has_builtin(__builtin_ia32_maxps512_mask)
    if constexpr (sizeof(V) == 64)
        return exp_within(__builtin_ia32_maxps512_mask(low, x, x, -1, rounding_as_set));
    else
#endif
        return exp_within(low > x ? low : x);
}

// e^x; beyond these bounds it is 0, or no finite number, all the same. NaN stays NaN.
template <typename V>
inline V exp(V x)
{
    const V high = all<V>(89.0f);
#if __has_builtin(__builtin_ia32_minps512_mask)
    if constexpr (sizeof(V) == 64)
        return exp_below(__builtin_ia32_minps512_mask(high, x, x, -1, rounding_as_set));
    else
#endif
        return exp_below(high < x ? high : x);
}

// What elements are kept relative to: the pivot, or 0 while it is no usable number.
inline float shift_anchor(float pivot) { return std::isfinite(pivot) ? pivot : 0; }

// Bytes of the largest of some types.
template <typename... T>
constexpr int64_t largest_of()
{
    int64_t bytes = 0;
    ((bytes = int64_t(sizeof(T)) > bytes ? sizeof(T) : bytes), ...);
    return bytes;
}

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
    typedef int32_t row __attribute__((vector_size(64)));
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
    int64_t slots = 128;
    while (slots < K)
        slots *= 2;
    return slots;
}

// The K best values and their columns in order, from a few more than K. Equals stay in order.
template <typename T, int64_t K>
struct ranking {
    static constexpr int64_t slots = slots_for(K);  // of a network
    static constexpr bool by_network = slots <= 4096;
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
        const like<uint32_t, lanes> at = first + like<uint32_t, lanes>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        keep(values, reinterpret_cast<const T*>(&v), bits);
        return keep(numbers, reinterpret_cast<const uint32_t*>(&at), bits);
    }
}

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
                bits |= uint64_t(uint8_t(__builtin_ia32_cmpq512_mask(longs(some), longs(bar - part()), not_below_int, -1))) << 8 * i;
            } else {
                bits |= uint64_t(uint8_t(__builtin_ia32_cmppd512_mask(some, bar - part(), not_below, -1, rounding_as_set))) << 8 * i;
            }
        }
        return bits;
    }
}

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

// The K best values and their columns, too many to keep in order. Whatever can still be among them
// is gathered, in the order of columns; a cut leaves a few more than K and raises the bar. The first
// bar is a guess from a sample: if fewer than K reach it, the row is searched again without one.
template <typename T, int64_t K>
struct candidates {
    static constexpr int64_t kept = K + K / 8 + 16;              // by a cut, at most
    static constexpr int64_t full = kept + (K < 256 ? 256 : K);  // time for a cut
    static constexpr int64_t block = 1024;                       // columns between two looks at the room
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
    template <typename V = float>
    like<T, V> value(int64_t i) const
    {
        like<T, V> v;
        std::memcpy(&v, sorted.best + i, sizeof v);
        return v;
    }

    template <typename V = float>
    whole<V> column(int64_t i) const
    {
        whole<V> v;
        std::memcpy(&v, sorted.columns + i, sizeof v);
        return v;
    }
};

// All K entries of a list: vectors full, then what fills none.
template <int64_t K, typename F>
inline void over_entries(F visit)
{
    constexpr int64_t full = K - K % width<lanes>;
    for (int64_t entry = 0; entry < full; entry += width<lanes>)
        visit(lanes(), entry);
    for (int64_t entry = full; entry < K; ++entry)
        visit(float(), entry);
}

}  // namespace fg

namespace softmax_topk {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* values;
    int64_t* indices;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* values;  // 64 entries
    int64_t* indices;  // 64 entries
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.values + row * 64,
        arrays.indices + row * 64,
        arrays.n_cols,
    };
}

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float m;  // max of x   texts.py:27  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::candidates<float, 64> top;  // top 64 of x   texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
};

// The state of no elements.
inline void identity(State& state)
{
    state.m = -fg::infinity;
    state.m_anchor = 0.0f;
    state.sum_exp = 0.0f;
    state.top.clear();
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float m_anchor)
{
    const float m_shift = state.m_anchor - m_anchor;
    state.sum_exp = fg::zero_wins(state.sum_exp, std::exp(m_shift));
    state.m_anchor = m_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   m = max(a.m, b.m)
//   sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//   top = best 64 of both lists
inline void merge(State& state, State& part)
{
    const float m = fg::greater_of(state.m, part.m);
    const float m_anchor = fg::shift_anchor(m);
    rebase(state, m_anchor);
    rebase(part, m_anchor);
    state.m = m;
    state.sum_exp += part.sum_exp;
    state.top.merge(part.top);
}

// One chunk, columns [begin, end): a whole number of V.
template <typename V>
inline void absorb(State& state, Row row, int64_t begin, int64_t end)
{
    // 1. What each base monoid makes of the chunk.
    fg::highest<V> m_lanes;
    for (int64_t col = begin; col < end; col += fg::width<V>) {
        const V x = fg::load<V>(row.x + col);
        m_lanes.take(x);  // texts.py:27  m = fg.max(x)
    }

    // 2. The new m; the sums so far move there.
    const float m = fg::greater_of(state.m, m_lanes.across());
    const float m_anchor = fg::shift_anchor(m);
    if (fg::rarely(m_anchor != state.m_anchor))
        rebase(state, m_anchor);
    state.m = m;

    // 3. Sums relative to m.
    V sum_exp_lanes = fg::all<V>(0.0f);
    for (int64_t col = begin; col < end; col += fg::width<V>) {
        const V x = fg::load<V>(row.x + col);
        const V x_minus_m = x - m_anchor;
        sum_exp_lanes += fg::exp_below(x_minus_m);  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    }
    state.sum_exp += fg::total(sum_exp_lanes);
}

// Every list that is too long to be kept in order, with the function that gives its values: as many
// as a V has, from a column on.
template <typename V, typename F>
inline void each_list(State& state, const Row& row, F visit)
{
    visit(state.top, [&](int64_t col) {
        const V x = fg::load<V>(row.x + col);
        return x;  // texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    });
}

// Columns [begin, end) of a row, chunk by chunk, and to the lists several chunks at a time; what
// fills no vector comes last. The columns that the lists survey are folded first: that is when they
// come from memory.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    const int64_t first = begin, rest = end - (end - begin) % fg::width<fg::lanes>;
    const auto absorb_all = [&](int64_t from, int64_t to) {
        for (; from < to; from += 256) {
            fg::prefetch(row.x + from + 4096, 256);
            fg::expect(row.values, 64, (from - first) / 256);
            fg::expect(row.indices, 64, (from - first) / 256);
            absorb<fg::lanes>(state, row, from, to - from < 256 ? to : from + 256);
        }
    };
    each_list<fg::lanes>(state, row, [&](auto& list, auto) {
        const int64_t chunks = (list.surveyed(rest - first) + 255) / 256;
        begin = first + chunks * 256 > begin ? first + chunks * 256 : begin;
    });
    begin = begin < rest ? begin : rest;
    absorb_all(first, begin);
    each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
        list.template survey<fg::lanes>(first, rest, lift);
        list.template search<fg::lanes>(first, begin, lift);
    });
    while (begin < rest) {
        const int64_t stop = rest - begin < 1024 ? rest : begin + 1024;
        each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
            list.template mark<fg::lanes>(begin, stop, lift);
        });
        absorb_all(begin, stop);
        each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
            list.template take<fg::lanes>(begin, stop, lift);
        });
        begin = stop;
    }
    each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
        list.template review<fg::lanes>(first, rest, lift);
    });
    if (rest < end) {
        absorb<float>(state, row, rest, end);
        each_list<float>(state, row, [&](auto& list, auto lift) {
            list.template search<float>(rest, end, lift);
        });
    }
}

// The row is folded: its values and results.
inline void finish(State& state, const Row& row)
{
    state.top.sort();
    const float m = state.m;  // texts.py:27  m = fg.max(x)
    const float sum_exp = std::isfinite(m) ? state.sum_exp : fg::nan;  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::over_entries<64>([&](auto some, int64_t entry) {
        typedef decltype(some) V;
        const V top_value = state.top.value<V>(entry);
        fg::store(row.values + entry, fg::exp(top_value - m) / sum_exp);  // texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    });
    fg::over_entries<64>([&](auto some, int64_t entry) {
        typedef decltype(some) V;
        const fg::whole<V> top_column = state.top.column<V>(entry);
        fg::store_int(row.indices + entry, top_column);  // texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    });
}

// The whole row, piece by piece, merged in order.
inline void run(const Row& row, State* states)
{
    State& state = states[0];
    State& part = states[1];
    identity(state);
    fold(state, row, 0, row.n_cols < fg::piece ? row.n_cols : fg::piece);
    for (int64_t begin = fg::piece; begin < row.n_cols; begin += fg::piece) {
        const int64_t end = row.n_cols - begin < fg::piece ? row.n_cols : begin + fg::piece;
        identity(part);
        fold(part, row, begin, end);
        merge(state, part);
    }
    finish(state, row);
}

}  // namespace sweep_1

}  // namespace softmax_topk

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t softmax_topk_scratch_bytes(int64_t)
{
    using namespace softmax_topk;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void softmax_topk_rows(const softmax_topk::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace softmax_topk;
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t softmax_topk_state_bytes_1() { return sizeof(softmax_topk::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void softmax_topk_fold_1(const softmax_topk::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace softmax_topk;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(own_state);
    identity(state);
    sweep_1::fold(state, row, begin, end);
}

// The pieces of a row, in order, into one, and its results.
void softmax_topk_finish_1(const softmax_topk::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace softmax_topk;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
