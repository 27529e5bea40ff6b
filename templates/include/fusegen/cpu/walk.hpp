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
// those of a run are added up, and then to the runs before. Short rows are one run.
template <typename V, int turns = 1, bool has_runs = true>
struct sums {
    static constexpr bool in_runs = has_runs;
    V run[turns] = {}, before = V();

    V& operator[](int turn) { return run[turn]; }
    void operator+=(V term) { run[0] += term; }
    V of_run() const { return turns == 1 ? run[0] : run[0] + run[turns - 1]; }
    V each() const { return has_runs ? before + of_run() : of_run(); }

    void end_run()
    {
        before += of_run();
        for (V& lanes : run)
            lanes = V();
    }
};

// Columns of a run of these sums; all there are where nothing is added up, or rows are short.
template <typename V, typename... S>
constexpr int64_t run_columns = (false || ... || S::in_runs) ? 64 * width<V> : INT64_MAX;

// Columns [begin, end), a vector of lanes at a time; what is added up of them.
template <typename V, typename F, typename... S>
inline void each(int64_t begin, int64_t end, F visit, S&... lanes)
{
    constexpr int64_t run = run_columns<V, S...>;
    for (; end - begin > run; (lanes.end_run(), ...))
        for (const int64_t stop = begin + run; begin < stop; begin += width<V>)
            visit(begin, all_lanes());
    for (; begin + width<V> <= end; begin += width<V>)
        visit(begin, all_lanes());
    if (begin < end)
        visit(begin, first_lanes{end - begin});
}

// The same, two vectors at a time: `visit` is told whose turn it is, 0 or 1, of two folds. A fold waits
// for what it has made of the last vector; two wait side by side.
template <typename V, typename F, typename... S>
inline void each_by_turns(int64_t begin, int64_t end, F visit, S&... lanes)
{
    constexpr int64_t run = run_columns<V, S...>;
    constexpr std::integral_constant<int, 0> one{};
    constexpr std::integral_constant<int, 1> other{};
    for (; end - begin > run; (lanes.end_run(), ...)) {
        for (const int64_t stop = begin + run; begin < stop; begin += 2 * width<V>) {
            visit(begin, all_lanes(), one);
            visit(begin + width<V>, all_lanes(), other);
        }
    }
    for (; begin + 2 * width<V> <= end; begin += 2 * width<V>) {
        visit(begin, all_lanes(), one);
        visit(begin + width<V>, all_lanes(), other);
    }
    if (begin + width<V> <= end) {
        visit(begin, all_lanes(), one);
        begin += width<V>;
    }
    if (begin < end)
        visit(begin, first_lanes{end - begin}, other);
}

// Likewise a whole number of vectors, whose lanes are all columns.
template <typename V, typename F, typename... S>
inline void each_whole(int64_t begin, int64_t end, F visit, S&... lanes)
{
    constexpr int64_t run = run_columns<V, S...>;
    for (; end - begin > run; (lanes.end_run(), ...))
        for (const int64_t stop = begin + run; begin < stop; begin += width<V>)
            visit(begin);
    for (; begin < end; begin += width<V>)
        visit(begin);
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
