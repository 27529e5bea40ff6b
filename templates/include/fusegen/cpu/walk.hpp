#pragma once
// How a chunk's columns are gone over, a vector of lanes at a time, and added up.

#include <cstdint>
#include <type_traits>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

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

// A sum, lane by lane, of vectors one after the other or by turns. One by one n terms are off by n roundings:
// those of a run are added up, and then to the runs before.
template <typename V, int turns = 1>
struct sums {
    V so_far = V(), run[turns] = {};

    V& operator[](int turn) { return run[turn]; }
    void operator+=(V term) { run[0] += term; }

    void end_run()
    {
        for (V& lanes : run)
            so_far += lanes, lanes = V();
    }
};

constexpr int64_t run_vectors = 64;

// Columns [begin, end) for `loop`, run by run where it adds up.
template <typename V, typename F, typename... S>
inline void in_runs(int64_t begin, int64_t end, F loop, S&... lanes)
{
    if constexpr (sizeof...(lanes) == 0)
        return loop(begin, end);
    for (int64_t stop; begin < end; begin = stop) {
        stop = end - begin < (run_vectors + 1) * width<V> ? end : begin + run_vectors * width<V>;
        loop(begin, stop);
        (lanes.end_run(), ...);
    }
}

// Columns [begin, end), a vector of lanes at a time.
template <typename V, typename F, typename... S>
inline void each(int64_t begin, int64_t end, F visit, S&... lanes)
{
    in_runs<V>(begin, end, [&](int64_t at, int64_t stop) {
        for (; at + width<V> <= stop; at += width<V>)
            visit(at, all_lanes());
        if (at < stop)
            visit(at, first_lanes{stop - at});
    }, lanes...);
}

// The same, two vectors at a time: `visit` is told whose turn it is, 0 or 1, of two folds. A fold waits
// for what it has made of the last vector; two wait side by side.
template <typename V, typename F, typename... S>
inline void each_by_turns(int64_t begin, int64_t end, F visit, S&... lanes)
{
    constexpr std::integral_constant<int, 0> one{};
    constexpr std::integral_constant<int, 1> other{};
    in_runs<V>(begin, end, [&](int64_t at, int64_t stop) {
        for (; at + 2 * width<V> <= stop; at += 2 * width<V>) {
            visit(at, all_lanes(), one);
            visit(at + width<V>, all_lanes(), other);
        }
        if (at + width<V> <= stop) {
            visit(at, all_lanes(), one);
            at += width<V>;
        }
        if (at < stop)
            visit(at, first_lanes{stop - at}, other);
    }, lanes...);
}

// The same of a whole number of vectors, whose lanes are all columns.
template <typename V, typename F, typename... S>
inline void each_whole(int64_t begin, int64_t end, F visit, S&... lanes)
{
    in_runs<V>(begin, end, [&](int64_t at, int64_t stop) {
        for (; at < stop; at += width<V>)
            visit(at);
    }, lanes...);
}

// Likewise, one after the other, until `visit` says that it is done.
template <typename V, typename F>
inline void until(int64_t begin, int64_t end, F visit)
{
    for (; begin + width<V> <= end; begin += width<V>)
        if (visit(begin, all_lanes()))
            return;
    if (begin < end)
        visit(begin, first_lanes{end - begin});
}

// All K entries of a list, a vector of lanes at a time.
template <int64_t K, typename F>
inline void over_entries(F visit)
{
    for (int64_t entry = 0; entry + width<lanes> <= K; entry += width<lanes>)
        visit(entry, all_lanes());
    if constexpr (K % width<lanes> != 0)
        visit(K - K % width<lanes>, first_lanes{K % width<lanes>});
}

}  // namespace

}  // namespace fusegen
