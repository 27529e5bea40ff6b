// softmax    texts.py:21
// form online, for x86-64-v4; by fusegen 0.1.0, do not edit
//
// Sweep 1    reads x
// State      (m, sum_exp), of no elements (-inf, 0)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
// Sweep 2    reads x
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning
// Tree       block online, chunks of 512
// Schedule   vectors of 16, chunks of 512, pieces of 262144 columns
// Bytes      reads each element twice, writes once

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

// Columns folded in one go; longer rows merge pieces of this length, on however many threads.
constexpr int64_t piece = 262144;

// Elements in a V: 1 for a plain value.
template <typename V>
constexpr int64_t width = sizeof(V) / sizeof(float);

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
inline auto total(V v)
{
    return across(v, [](auto a, auto b) { return a + b; });
}

// Asks for n elements that are needed soon; beyond the end of the memory that does nothing.
template <typename T>
inline void prefetch(const T* from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64 / sizeof(T))
        __builtin_prefetch(from + i);
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

// Columns [begin, end), a vector of lanes at a time.
template <typename V, typename F>
inline void each(int64_t begin, int64_t end, F visit)
{
    for (; begin + width<V> <= end; begin += width<V>)
        visit(begin, all_lanes());
    if (begin < end)
        visit(begin, first_lanes{end - begin});
}

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

// Are exponentials relative to one pivot good for another, which is no less? Between them must be a
// number, and the factor, by which they may also be divided, one that has all its digits.
inline bool movable(float from, float to, float divisor = 1)
{
    const float size = std::fabs(divisor);
    return std::isfinite(from) && to - from < 40 && size > 0x1p-60f && size < 0x1p60f;
}

// The factor that takes exponentials relative to one pivot to another.
inline float factor_between(float from, float to, float divisor = 1)
{
    return (from == to ? 1 : std::exp(from - to)) / divisor;
}

// Bytes of the largest of some types.
template <typename... T>
constexpr int64_t largest_of()
{
    int64_t bytes = 0;
    ((bytes = int64_t(sizeof(T)) > bytes ? sizeof(T) : bytes), ...);
    return bytes;
}

}  // namespace fg

namespace softmax {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* div;
    int64_t div_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* div;  // n_cols elements
    int64_t n_cols;
    float* terms = nullptr;  // of sweep 1, for sweep 2, if it is short enough
    float* pivots = nullptr;  // that those of each chunk are relative to
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.div + row * arrays.div_stride,
        arrays.n_cols,
    };
}

// Terms are kept of rows that stay in a cache: whole vectors, and then a pivot for each chunk.
constexpr int64_t kept_columns = 262144;

inline int64_t kept_terms(int64_t n_cols) { return (n_cols + 15) / 16 * 16; }

inline int64_t kept_bytes(int64_t n_cols)
{
    const int64_t pivots = kept_terms(n_cols / 512 + 1);
    return n_cols > kept_columns ? 0 : (kept_terms(n_cols) + pivots) * sizeof(float);
}

inline void keep(Row& row, void* room)
{
    if (row.n_cols > kept_columns)
        return;
    row.terms = static_cast<float*>(room);
    row.pivots = row.terms + kept_terms(row.n_cols);
}

// Row values that later sweeps use.
struct Known {
    float m;
    float sum_exp;
};

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float m;  // max of x   texts.py:27  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
};

// The state of no elements.
inline void identity(State& state)
{
    state.m = -fg::infinity;
    state.m_anchor = 0.0f;
    state.sum_exp = 0.0f;
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
inline void merge(State& state, State& part)
{
    const float m = fg::greater_of(state.m, part.m);
    const float m_anchor = fg::shift_anchor(m);
    rebase(state, m_anchor);
    rebase(part, m_anchor);
    state.m = m;
    state.sum_exp += part.sum_exp;
}

// One chunk, columns [begin, end).
template <typename V>
inline void absorb(State& state, Row row, int64_t begin, int64_t end)
{
    // 1. What each base monoid makes of the chunk.
    fg::highest<V> m_lanes;
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        m_lanes.take(live(x, -fg::infinity));  // texts.py:27  m = fg.max(x)
    });

    // 2. The new m; the sums so far move there.
    const float m = fg::greater_of(state.m, m_lanes.across());
    const float m_anchor = fg::shift_anchor(m);
    if (fg::rarely(m_anchor != state.m_anchor))
        rebase(state, m_anchor);
    state.m = m;

    // 3. Sums relative to m.
    V sum_exp_lanes = fg::all<V>(0.0f);
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_m = x - m_anchor;
        const V term = fg::exp_below(x_minus_m);
        if (row.terms)
            fg::store(row.terms + col, term);
        sum_exp_lanes += live(term, 0.0f);  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
    state.sum_exp += fg::total(sum_exp_lanes);
    if (row.terms)
        row.pivots[begin / 512] = m;
}

// Columns [begin, end) of a row, chunk by chunk; the last takes what is left.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 512;
    for (int64_t stop; begin < end; begin = stop) {
        stop = end - begin < chunk + 16 ? end : begin + chunk;
        fg::prefetch(row.x + begin + 2048, chunk);
        absorb<fg::lanes>(state, row, begin, stop);
    }
}

// The row is folded: its values and results.
inline void finish(const State& state, Known& known)
{
    const float m = state.m;  // texts.py:27  m = fg.max(x)
    const float sum_exp = std::isfinite(m) ? state.sum_exp : fg::nan;  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    known.m = m;
    known.sum_exp = sum_exp;
}

// The whole row, piece by piece, merged in order.
inline void run(const Row& row, Known& known, State* states)
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
    finish(state, known);
}

}  // namespace sweep_1

// Sweep 2: reads x.
namespace sweep_2 {

// One chunk, columns [begin, end).
template <typename V>
inline void absorb(Row row, const Known& known, int64_t begin, int64_t end)
{
    const float m = known.m;
    const float sum_exp = known.sum_exp;

    // 1. Elements to memory.
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        fg::store(row.div + col, fg::exp(x - m) / sum_exp, live);  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

// The same, from terms that an earlier sweep has kept.
template <typename V>
inline void absorb_terms(Row row, const Known& known, int64_t begin, int64_t end)
{
    const float moved = fg::factor_between(row.pivots[begin / 512], known.m, known.sum_exp);

    // 1. Elements to memory.
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V term = fg::load<V>(row.terms + col) * moved;
        fg::store(row.div + col, term, live);  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

// Columns [begin, end) of a row, chunk by chunk; the last takes what is left.
inline void fold(const Row& row, const Known& known, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 512;
    for (int64_t stop; begin < end; begin = stop) {
        stop = end - begin < chunk + 16 ? end : begin + chunk;
        if (row.terms && fg::movable(row.pivots[begin / chunk], known.m, known.sum_exp))
            absorb_terms<fg::lanes>(row, known, begin, stop);
        else
            absorb<fg::lanes>(row, known, begin, stop);
    }
}

// The whole row.
inline void run(const Row& row, Known& known)
{
    fold(row, known, 0, row.n_cols);
}

}  // namespace sweep_2

}  // namespace softmax

}  // namespace

extern "C" {

// Memory that each thread needs: terms of a row, two states of the sweep that has the largest.
int64_t softmax_scratch_bytes(int64_t n_cols)
{
    using namespace softmax;
    return kept_bytes(n_cols) + 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void softmax_rows(const softmax::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace softmax;
    void* const room = scratch;
    scratch = static_cast<char*>(room) + kept_bytes(arrays->n_cols);
    for (int64_t r = first; r < last; ++r) {
        Row row = row_of(*arrays, r);
        keep(row, room);
        Known known;
        sweep_1::run(row, known, static_cast<sweep_1::State*>(scratch));
        sweep_2::run(row, known);
    }
}

int64_t softmax_known_bytes() { return sizeof(softmax::Known); }

int64_t softmax_state_bytes_1() { return sizeof(softmax::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void softmax_fold_1(const softmax::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace softmax;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(own_state);
    identity(state);
    sweep_1::fold(state, row, begin, end);
}

// The pieces of a row, in order, into one, and its results.
void softmax_finish_1(const softmax::Arrays*, int64_t, int64_t pieces, void* known_values, void* states)
{
    using namespace softmax;
    Known& known = *static_cast<Known*>(known_values);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, known);
}

// Columns [begin, end) of a row.
void softmax_fold_2(const softmax::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void* known_values, void*)
{
    using namespace softmax;
    const Row row = row_of(*arrays, r);
    const Known& known = *static_cast<const Known*>(known_values);
    sweep_2::fold(row, known, begin, end);
}

}  // extern "C"
