// var_mean    texts.py
// form online, for x86-64-v4; by fusegen 0.1.0, do not edit
//
// State      (mean_x_total, count, mean_pow, sum_dev), of no elements (0, 0, 0, 0)
// a ⊕ b      mean_x_total = a.mean_x_total + b.mean_x_total
//            count = a.count + b.count
//            mean_pow = a.mean_pow + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + a.sum_dev·2·(a.mean_x - mean_x) + b.mean_pow + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x) + b.sum_dev·2·(b.mean_x - mean_x)
//            sum_dev = a.count·(a.mean_x - mean_x) + a.sum_dev + b.count·(b.mean_x - mean_x) + b.sum_dev
// Proved     pointwise identity, read-out, cocycle, unit, known zero, range, conditioning
// Tree       block online, chunks of 2048
// Schedule   vectors of 16, chunks of 2048, pieces of 32768 columns
// Bytes      reads each element once, writes 8 bytes a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(64)));  // 16 at a time
constexpr int64_t piece = 32768;  // columns folded in one go, of longer rows on however many threads

}  // namespace

}  // namespace fusegen

#include <fusegen/cpu/vectors.hpp>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/walk.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>
#include <fusegen/cpu/abreast.hpp>

namespace fg = fusegen;

namespace {

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

constexpr int64_t short_columns = 512;  // of rows that take turns
constexpr int64_t rows_together = 8;

constexpr int64_t abreast_columns = 256;  // of rows that stand in the lanes of a vector

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float mean_x_total;  // sum of x   texts.py  return fg.var(x), fg.mean(x)
    float count;  // sum of 1   texts.py  return fg.var(x), fg.mean(x)
    float mean_x_anchor;  // mean_x_total / count, or 0 where that is no usable number
    float mean_pow;  // sum of x_minus_mean_x·x_minus_mean_x   texts.py  return fg.var(x), fg.mean(x)
    float sum_dev;  // sum of x_minus_mean_x   texts.py  return fg.var(x), fg.mean(x)
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

// One chunk, columns [begin, end): the pivots, and the sums so far moved there.
template <typename V, bool in_runs = true>
inline void settle(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::sums<V, 2, in_runs> mean_x_total_lanes;
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        const V x = fg::load<V>(row.x + col, live);
        mean_x_total_lanes[turn] += live(x, 0.0f);  // texts.py  return fg.var(x), fg.mean(x)
    }, mean_x_total_lanes);

    // 2. The new mean_x; the sums so far move there.
    const float mean_x_total = state.mean_x_total + fg::total(mean_x_total_lanes.each());
    const float count = state.count + float(end - begin);
    const float mean_x_anchor = fg::shift_anchor(mean_x_total / count);
    if (mean_x_anchor != state.mean_x_anchor)
        rebase(state, mean_x_anchor);
    state.mean_x_total = mean_x_total;
    state.count = count;
}

// One chunk, columns [begin, end): sums relative to the pivots.
template <typename V, bool in_runs = true>
inline void add_up(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it
    const float mean_x_anchor = state.mean_x_anchor;

    // 3. Sums relative to mean_x.
    fg::sums<V, 2, in_runs> mean_pow_lanes;
    fg::sums<V, 2, in_runs> sum_dev_lanes;
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_mean_x = x - mean_x_anchor;
        mean_pow_lanes[turn] += live(x_minus_mean_x * x_minus_mean_x, 0.0f);  // texts.py  return fg.var(x), fg.mean(x)
        sum_dev_lanes[turn] += live(x_minus_mean_x, 0.0f);  // texts.py  return fg.var(x), fg.mean(x)
    }, mean_pow_lanes, sum_dev_lanes);
    state.mean_pow += fg::total(mean_pow_lanes.each());
    state.sum_dev += fg::total(sum_dev_lanes.each());
}

// One chunk, columns [begin, end).
template <typename V>
inline void absorb(State& state, const Row& shared, int64_t begin, int64_t end)
{
    settle<V>(state, shared, begin, end);
    add_up<V>(state, shared, begin, end);
}

// Columns [begin, end) of a row, chunk by chunk; the last takes what is left.
__attribute__((noinline)) void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 2048;
    for (int64_t stop; begin < end; begin = stop) {
        stop = end - begin < chunk + 16 ? end : begin + chunk;
        absorb<fg::lanes>(state, row, begin, stop);
    }
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float mean_x = state.mean_x_total / float(row.n_cols);  // texts.py  return fg.var(x), fg.mean(x)
    const float mean_pow = std::isfinite(mean_x) ? state.mean_pow / float(row.n_cols) : fg::nan;  // texts.py  return fg.var(x), fg.mean(x)
    fg::store(row.mean_pow, mean_pow);  // texts.py  return fg.var(x), fg.mean(x)
    fg::store(row.mean_x, mean_x);  // texts.py  return fg.var(x), fg.mean(x)
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

// Rows [first, last), of no more than short_columns. Step by step, several take each before any takes
// the next: while a row waits for what it has just computed, the processor goes on with others.
inline void short_rows(const Arrays& arrays, int64_t first, int64_t last)
{
    Row rows[rows_together];
    // Longer rows are waited for less; pieces of rows may have no columns.
    const int64_t fitting = arrays.n_cols > 0 ? short_columns / arrays.n_cols : rows_together;
    const int64_t most = fitting < rows_together ? fitting : rows_together;
    for (int64_t n; first < last; first += n) {
        n = last - first < most ? last - first : most;
        for (int64_t i = 0; i < n; ++i)
            rows[i] = row_of(arrays, first + i);
        sweep_1::State states_1[rows_together];
        for (int64_t i = 0; i < n; ++i) {
            sweep_1::identity(states_1[i]);
            sweep_1::settle<fg::lanes, false>(states_1[i], rows[i], 0, arrays.n_cols);
        }
        for (int64_t i = 0; i < n; ++i)
            sweep_1::add_up<fg::lanes, false>(states_1[i], rows[i], 0, arrays.n_cols);
        for (int64_t i = 0; i < n; ++i)
            sweep_1::finish(states_1[i], rows[i]);
    }
}

// Rows [first, last), of no more than abreast_columns: one in every lane.
inline void rows_abreast(const Arrays& arrays, int64_t first, int64_t last)
{
    typedef fg::lanes V;
    alignas(64) float x_tile[abreast_columns * 16];
    for (int64_t together; first < last; first += together) {
        together = last - first < 16 ? last - first : 16;
        Row rows[16];
        for (int64_t i = 0; i < 16; ++i)
            rows[i] = row_of(arrays, first + (i < together ? i : together - 1));
        const Row& row = rows[0];
        fg::turn_rows<V>(x_tile, arrays.n_cols, [&](int64_t i, int64_t col, auto live) {
            fg::prefetch(rows[i].x + 16 * arrays.x_stride + col);
            return fg::load<V>(rows[i].x + col, live);
        });
        struct {
            V mean_x_total;
            V count;
            V mean_pow;
            V sum_dev;
        } state;
        {
            fg::sums<V, 2, true> mean_x_total_lanes;
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                mean_x_total_lanes[turn] += x;  // texts.py  return fg.var(x), fg.mean(x)
            }, mean_x_total_lanes);
            const V mean_x_total = state.mean_x_total = mean_x_total_lanes.each();
            const V count = state.count = fg::all<V>(float(arrays.n_cols));
            const V mean_x_anchor = fg::shift_anchor(mean_x_total / count);
            fg::sums<V, 2, true> mean_pow_lanes;
            fg::sums<V, 2, true> sum_dev_lanes;
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                const V x_minus_mean_x = x - mean_x_anchor;
                mean_pow_lanes[turn] += x_minus_mean_x * x_minus_mean_x;  // texts.py  return fg.var(x), fg.mean(x)
                sum_dev_lanes[turn] += x_minus_mean_x;  // texts.py  return fg.var(x), fg.mean(x)
            }, mean_pow_lanes, sum_dev_lanes);
            state.mean_pow = mean_pow_lanes.each();
            state.sum_dev = sum_dev_lanes.each();
        }
        const V mean_x = state.mean_x_total / float(row.n_cols);  // texts.py  return fg.var(x), fg.mean(x)
        const V mean_pow = fg::select(fg::is_finite(mean_x), state.mean_pow / float(row.n_cols), fg::all<V>(fg::nan));  // texts.py  return fg.var(x), fg.mean(x)
        {
            float mean_pow_lanes[fg::width<V>];
            fg::store(mean_pow_lanes, mean_pow);  // texts.py  return fg.var(x), fg.mean(x)
            for (int64_t i = 0; i < together; ++i)
                *rows[i].mean_pow = mean_pow_lanes[i];
        }
        {
            float mean_x_lanes[fg::width<V>];
            fg::store(mean_x_lanes, mean_x);  // texts.py  return fg.var(x), fg.mean(x)
            for (int64_t i = 0; i < together; ++i)
                *rows[i].mean_x = mean_x_lanes[i];
        }
    }
}

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
    if (arrays->n_cols >= 1 && arrays->n_cols <= abreast_columns)
        return rows_abreast(*arrays, first, last);
    if (arrays->n_cols <= short_columns)
        return short_rows(*arrays, first, last);
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
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
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
