// softmax_topk    texts.py:74
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 5 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 5 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, monotone
// Tree       block online, chunks of 256
// Schedule   vectors of 8, chunks of 256, pieces of 262144 columns
// Bytes      reads each element once, writes 60 bytes a row

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace {

namespace fg {

typedef float lanes __attribute__((vector_size(32)));  // 8 at a time

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

template <typename M>
inline M inverse(M m)
{
    return m == M();
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
        for (size_t i = 0; i < sizeof m / 32; ++i) {
            if constexpr (sizeof m[0] == 4) {
                float part __attribute__((vector_size(32)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 32 * i, 32);
                bits |= uint64_t(__builtin_ia32_movmskps256(part)) << 8 * i;
            } else {
                double part __attribute__((vector_size(32)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 32 * i, 32);
                bits |= uint64_t(__builtin_ia32_movmskpd256(part)) << 4 * i;
            }
        }
        return bits;
    }
}

// The order of lists: greatest first, NaN ahead of all numbers.
struct descending {
    template <typename T>
    static bool ahead(T a, T b)
    {
        return (a > b) | ((a != a) & (b == b));
    }

    // The lanes of v that could be ahead of the bar, as bits.
    template <typename V, typename T>
    static uint64_t admitted(V v, T bar)
    {
        return lanes_where(inverse(v <= bar));
    }
};

// By value, then by column. (No short circuits: which of two candidates leads cannot be predicted.)
template <typename order, typename T>
inline bool precedes(T a, int64_t a_column, T b, int64_t b_column)
{
    return order::ahead(a, b) | (!order::ahead(b, a) & (a_column < b_column));
}

// Asks for n elements that are needed soon; beyond the end of the memory that does nothing.
template <typename T>
inline void prefetch(const T* from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64 / sizeof(T))
        __builtin_prefetch(from + i);
}

// A T from memory.
template <typename T, typename E>
inline T fetch(const E* from)
{
    T v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

// A T to memory.
template <typename T, typename E>
inline void put(E* to, T v)
{
    std::memcpy(to, &v, sizeof v);
}

template <typename V>
inline V load(const float* from)
{
    return fetch<V>(from);
}

template <typename V>
inline void store(float* to, V v)
{
    put(to, v);
}

// Integers clamped to the range of T.
template <typename T, typename I>
inline void store_int(T* to, I v)
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
        put(to, stored);
    }
}

// a·b, but 0 wherever a is 0, even against an infinity or NaN in b.
template <typename V>
inline V zero_wins(V a, V b)
{
    return a == V() ? V() : a * b;
}

// e^x for numbers in the range of normal results, to 1 ulp. With n = round(x / ln 2) and
// r = x - n ln 2, e^x = 2^(n-1) * 2 e^r. A large constant rounds to n, and leaves the biased exponent
// of 2^(n-1) in the low bits of the sum; 2^-127 comes out as 0.
template <typename V>
inline V exp_within(V x)
{
    typedef like<uint32_t, V> bits;
    const V shifted = x * 1.44269504f + (0x1.8p23f + 126);
    const V scale = as<V>(as<bits>(shifted) << 23);
    const V n = shifted - (0x1.8p23f + 126);
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 0.00276278618f + 0.0167376324f;
    p = p * r + 0.0833368298f;
    p = p * r + 0.333330395f;
    p = p * r + 0.999999865f;
    p = p * r + 2.0f;
    p = p * r + 2.0f;
    return p * scale;
}

// e^x for x <= 0. The bits of negative numbers grow with their size, so one integer minimum bounds
// them. Sums of other x, and of NaN, hang on a pivot that is no number: they are discarded.
template <typename V>
inline V exp_below(V x)
{
    typedef like<uint32_t, V> bits;
    const bits given = as<bits>(x), least = as<bits>(all<V>(-87.6f));
    return exp_within(as<V>(given < least ? given : least));
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

// The K best values and their columns, best first: NaN, then descending; ties by column.
template <typename T, int64_t K>
struct best_list {
    static constexpr int64_t none = INT64_MAX;  // column of an entry that all elements precede

    T values[K];
    int64_t columns[K];
    T bound;  // nothing below it can stay

    void clear()
    {
        bound = lowest_of<T>;
        for (int64_t i = 0; i < K; ++i) {
            values[i] = lowest_of<T>;
            columns[i] = none;
        }
    }

    bool is_full() const { return columns[K - 1] != none; }

    // The lanes of v that could enter the list, as bits.
    template <typename V>
    uint64_t admitted(V v) const
    {
        mask<V> below = v < bound;
        if (is_full())
            below |= v <= values[K - 1];
        return lanes_where(inverse(below));
    }

    // Before a chunk: v holds some of it, so the K-th of v bounds the K-th of all. Found where it
    // spares more than it costs: before the first chunk, and where a row ascends.
    template <typename V>
    void prepare(V v)
    {
        if constexpr (sizeof(V) / sizeof(T) >= K && K > 1)
            if (!is_full() || __builtin_popcountll(admitted(v)) > K) {
                T best[K];
                for (int64_t i = 0; i < K; ++i)
                    best[i] = lowest_of<T>;
                for (size_t lane = 0; lane < sizeof(V) / sizeof(T); ++lane) {
                    T next = v[lane];
                    for (int64_t i = 0; i < K; ++i) {
                        const T held = best[i];
                        best[i] = next > held ? next : held;
                        next = next > held ? held : next;
                    }
                }
                bound = best[K - 1] > bound ? best[K - 1] : bound;
            }
    }

    void offer(T value, int64_t column)
    {
        if (!precedes<descending>(value, column, values[K - 1], columns[K - 1]))
            return;
        int64_t at = K - 1;
        for (; at > 0 && precedes<descending>(value, column, values[at - 1], columns[at - 1]); --at) {
            values[at] = values[at - 1];
            columns[at] = columns[at - 1];
        }
        values[at] = value;
        columns[at] = column;
    }

    void merge(const best_list& other)
    {
        for (int64_t i = 0; i < K && other.columns[i] != none; ++i)
            offer(other.values[i], other.columns[i]);
    }

    T value(int64_t i) const { return values[i]; }
    int64_t column(int64_t i) const { return columns[i]; }
};

// The elements of v, which start at `column`, to a list or leader.
template <typename L, typename V>
inline void offer(L& list, V v, int64_t column)
{
    if constexpr (std::is_arithmetic_v<V>)
        list.offer(v, column);
    else
        for (uint64_t bits = list.admitted(v); bits != 0; bits &= bits - 1) {
            const int lane = __builtin_ctzll(bits);
            list.offer(v[lane], column + lane);
        }
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
    float* values;  // 5 entries
    int64_t* indices;  // 5 entries
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.values + row * 5,
        arrays.indices + row * 5,
        arrays.n_cols,
    };
}

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float m;  // max of x   texts.py:27  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::best_list<float, 5> top;  // top 5 of x   texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
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
//   top = best 5 of both lists
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
    const float chunk_m = m_lanes.across();

    // 2. The new m; the sums so far move there.
    const float m = fg::greater_of(state.m, chunk_m);
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

    // 4. top: only chunks with something ahead of the last of the 5 so far are searched.
    if (fg::rarely(state.top.admitted(chunk_m))) {
        state.top.prepare(m_lanes.so_far);
        for (int64_t col = begin; col < end; col += fg::width<V>) {
            const V x = fg::load<V>(row.x + col);
            fg::offer(state.top, x, col);  // texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        }
    }
}

// Columns [begin, end) of a row, chunk by chunk; what fills no vector comes last.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 256;
    const int64_t rest = end - (end - begin) % fg::width<fg::lanes>;
    for (; begin < rest; begin += chunk) {
        fg::prefetch(row.x + begin + 2048, chunk);
        absorb<fg::lanes>(state, row, begin, rest - begin < chunk ? rest : begin + chunk);
    }
    if (rest < end)
        absorb<float>(state, row, rest, end);
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float m = state.m;  // texts.py:27  m = fg.max(x)
    const float sum_exp = std::isfinite(m) ? state.sum_exp : fg::nan;  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    for (int64_t entry = 0; entry < 5; ++entry) {
        const float top_value = state.top.value(entry);
        fg::store(row.values + entry, std::exp(top_value - m) / sum_exp);  // texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
    for (int64_t entry = 0; entry < 5; ++entry) {
        const int64_t top_column = state.top.column(entry);
        fg::store_int(row.indices + entry, top_column);  // texts.py:80  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
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
