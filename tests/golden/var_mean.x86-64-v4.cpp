// var_mean    texts.py:101
// form online, for x86-64-v4; by fusegen 0.1.0, do not edit
//
// State      (mean_x_total, count, mean_pow, sum_dev), of no elements (0, 0, 0, 0)
// a ⊕ b      mean_x_total = a.mean_x_total + b.mean_x_total
//            count = a.count + b.count
//            mean_pow = a.mean_pow + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + a.sum_dev·2·(a.mean_x - mean_x) + b.mean_pow + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x) + b.sum_dev·2·(b.mean_x - mean_x)
//            sum_dev = a.count·(a.mean_x - mean_x) + a.sum_dev + b.count·(b.mean_x - mean_x) + b.sum_dev
// Proved     pointwise identity, read-out, cocycle, unit, known zero, range, conditioning
// Tree       block online, chunks of 512
// Schedule   vectors of 16, chunks of 512, pieces of 262144 columns
// Bytes      reads each element once, writes 8 bytes a row

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace {

namespace fg {

typedef float lanes __attribute__((vector_size(64)));  // 16 at a time

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

// Columns folded in one go; longer rows merge pieces of this length, on however many threads.
constexpr int64_t piece = 262144;

// Elements in a V: 1 for a plain value.
template <typename V>
constexpr int64_t width = sizeof(V) / sizeof(float);

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

}  // namespace fg

namespace var_mean {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* mean_pow;
    int64_t mean_pow_stride;
    float* mean_x;
    int64_t mean_x_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* mean_pow;  // one value
    float* mean_x;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.mean_pow + row * arrays.mean_pow_stride,
        arrays.mean_x + row * arrays.mean_x_stride,
        arrays.n_cols,
    };
}

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float mean_x_total;  // sum of x   texts.py:107  return fg.var(x), fg.mean(x)
    float count;  // sum of 1   texts.py:107  return fg.var(x), fg.mean(x)
    float mean_x_anchor;  // mean_x_total / count, or 0 where that is no usable number
    float mean_pow;  // sum of x_minus_mean_x·x_minus_mean_x   texts.py:107  return fg.var(x), fg.mean(x)
    float sum_dev;  // sum of x_minus_mean_x   texts.py:107  return fg.var(x), fg.mean(x)
};

// The state of no elements.
inline void identity(State& state)
{
    state.mean_x_total = 0.0f;
    state.count = 0.0f;
    state.mean_x_anchor = 0.0f;
    state.mean_pow = 0.0f;
    state.sum_dev = 0.0f;
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float mean_x_anchor)
{
    const float mean_x_shift = state.mean_x_anchor - mean_x_anchor;
    const float mean_pow = state.mean_pow + fg::zero_wins(mean_x_shift, 2.0f * state.sum_dev + fg::zero_wins(mean_x_shift, state.count));
    const float sum_dev = state.sum_dev + fg::zero_wins(mean_x_shift, state.count);
    state.mean_pow = mean_pow;
    state.sum_dev = sum_dev;
    state.mean_x_anchor = mean_x_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   mean_x_total = a.mean_x_total + b.mean_x_total
//   count = a.count + b.count
//   mean_pow = a.mean_pow + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + a.sum_dev·2·(a.mean_x - mean_x) + b.mean_pow + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x) + b.sum_dev·2·(b.mean_x - mean_x)
//   sum_dev = a.count·(a.mean_x - mean_x) + a.sum_dev + b.count·(b.mean_x - mean_x) + b.sum_dev
inline void merge(State& state, State& part)
{
    const float mean_x_total = state.mean_x_total + part.mean_x_total;
    const float count = state.count + part.count;
    const float mean_x_anchor = fg::shift_anchor(mean_x_total / count);
    rebase(state, mean_x_anchor);
    rebase(part, mean_x_anchor);
    state.mean_x_total = mean_x_total;
    state.count = count;
    state.mean_pow += part.mean_pow;
    state.sum_dev += part.sum_dev;
}

// One chunk, columns [begin, end).
template <typename V>
inline void absorb(State& state, Row row, int64_t begin, int64_t end)
{
    // 1. What each base monoid makes of the chunk.
    V mean_x_total_lanes = fg::all<V>(0.0f);
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        mean_x_total_lanes += live(x, 0.0f);  // texts.py:107  return fg.var(x), fg.mean(x)
    });

    // 2. The new mean_x; the sums so far move there.
    const float mean_x_total = state.mean_x_total + fg::total(mean_x_total_lanes);
    const float count = state.count + float(end - begin);
    const float mean_x_anchor = fg::shift_anchor(mean_x_total / count);
    if (mean_x_anchor != state.mean_x_anchor)
        rebase(state, mean_x_anchor);
    state.mean_x_total = mean_x_total;
    state.count = count;

    // 3. Sums relative to mean_x.
    V mean_pow_lanes = fg::all<V>(0.0f);
    V sum_dev_lanes = fg::all<V>(0.0f);
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_mean_x = x - mean_x_anchor;
        mean_pow_lanes += live(x_minus_mean_x * x_minus_mean_x, 0.0f);  // texts.py:107  return fg.var(x), fg.mean(x)
        sum_dev_lanes += live(x_minus_mean_x, 0.0f);  // texts.py:107  return fg.var(x), fg.mean(x)
    });
    state.mean_pow += fg::total(mean_pow_lanes);
    state.sum_dev += fg::total(sum_dev_lanes);
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
inline void finish(const State& state, const Row& row)
{
    const float mean_x = state.mean_x_total / float(row.n_cols);  // texts.py:107  return fg.var(x), fg.mean(x)
    const float mean_pow = std::isfinite(mean_x) ? state.mean_pow / float(row.n_cols) : fg::nan;  // texts.py:107  return fg.var(x), fg.mean(x)
    fg::store(row.mean_pow, mean_pow);  // texts.py:107  return fg.var(x), fg.mean(x)
    fg::store(row.mean_x, mean_x);  // texts.py:107  return fg.var(x), fg.mean(x)
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

}  // namespace var_mean

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t var_mean_scratch_bytes(int64_t)
{
    using namespace var_mean;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void var_mean_rows(const var_mean::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace var_mean;
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t var_mean_state_bytes_1() { return sizeof(var_mean::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void var_mean_fold_1(const var_mean::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace var_mean;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(own_state);
    identity(state);
    sweep_1::fold(state, row, begin, end);
}

// The pieces of a row, in order, into one, and its results.
void var_mean_finish_1(const var_mean::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace var_mean;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
