// softmax_weighted_variance    algebra_cases.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (max_x, sum_exp, sum_exp_x, sum_dev2_exp, sum_dev_exp), of no elements (-inf, 0, 0, 0, 0)
// a ⊕ b      max_x = max(a.max_x, b.max_x)
//            sum_exp = a.sum_exp·exp(a.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)
//            sum_exp_x = a.sum_exp_x·exp(a.max_x - max_x) + b.sum_exp_x·exp(b.max_x - max_x)
//            sum_dev2_exp = a.sum_dev2_exp·exp(a.max_x - max_x) + a.sum_dev_exp·2·exp(a.max_x - max_x)·(a.nu - nu) + a.sum_exp·exp(a.max_x - max_x)·(a.nu - nu)·(a.nu - nu) + b.sum_dev2_exp·exp(b.max_x - max_x) + b.sum_dev_exp·2·exp(b.max_x - max_x)·(b.nu - nu) + b.sum_exp·exp(b.max_x - max_x)·(b.nu - nu)·(b.nu - nu)
//            sum_dev_exp = a.sum_dev_exp·exp(a.max_x - max_x) + a.sum_exp·exp(a.max_x - max_x)·(a.nu - nu) + b.sum_dev_exp·exp(b.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)·(b.nu - nu)
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, known zero
// Tree       block online, chunks of 2048
// Schedule   vectors of 8, chunks of 2048, pieces of 32768 columns
// Bytes      reads each element once, writes 4 bytes a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(32)));  // 8 at a time
constexpr int64_t piece = 32768;  // columns folded in one go, of longer rows on however many threads

}  // namespace

}  // namespace fusegen

#include <fusegen/cpu/vectors.hpp>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/walk.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/exp.hpp>
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>
#include <fusegen/cpu/abreast.hpp>

namespace fg = fusegen;

namespace {

namespace softmax_weighted_variance {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* sum_mul;
    int64_t sum_mul_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* sum_mul;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.sum_mul + row * arrays.sum_mul_stride,
        arrays.n_cols,
    };
}

constexpr int64_t short_columns = 256;  // of rows that take turns
constexpr int64_t rows_together = 8;

constexpr int64_t abreast_columns = 256;  // of rows that stand in the lanes of a vector

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float max_x;  // max of x   algebra_cases.py  m = fg.max(x)
    float max_x_anchor;  // max_x, or 0 where that is no usable number
    float nu_anchor;  // sum_exp_x / sum_exp, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_max_x)   algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    float sum_exp_x;  // sum of x·exp(x_minus_max_x)   algebra_cases.py  nu = fg.sum(y * x)
    float sum_dev2_exp;  // sum of exp(x_minus_max_x)·x_minus_nu·x_minus_nu   algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
    float sum_dev_exp;  // sum of exp(x_minus_max_x)·x_minus_nu   algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
};

// The state of no elements.
inline void identity(State& state)
{
    state.max_x = -fg::infinity;
    state.max_x_anchor = 0.0f;
    state.nu_anchor = 0.0f;
    state.sum_exp = 0.0f;
    state.sum_exp_x = 0.0f;
    state.sum_dev2_exp = 0.0f;
    state.sum_dev_exp = 0.0f;
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float max_x_anchor, float nu_anchor)
{
    const float max_x_shift = state.max_x_anchor - max_x_anchor;
    const float nu_shift = state.nu_anchor - nu_anchor;
    const float sum_exp = fg::zero_wins(state.sum_exp, fg::exp(max_x_shift));
    const float sum_exp_x = fg::zeros_win(state.sum_exp_x, fg::exp(max_x_shift));
    const float sum_dev2_exp = fg::zeros_win(state.sum_dev2_exp, fg::exp(max_x_shift)) + fg::zeros_win(state.sum_dev_exp, 2.0f * fg::zero_wins(fg::exp(max_x_shift), nu_shift)) + fg::zeros_win(state.sum_exp, fg::zero_wins(fg::exp(max_x_shift), nu_shift * nu_shift));
    const float sum_dev_exp = fg::zeros_win(state.sum_dev_exp, fg::exp(max_x_shift)) + fg::zeros_win(state.sum_exp, fg::zero_wins(fg::exp(max_x_shift), nu_shift));
    state.sum_exp = sum_exp;
    state.sum_exp_x = sum_exp_x;
    state.sum_dev2_exp = sum_dev2_exp;
    state.sum_dev_exp = sum_dev_exp;
    state.max_x_anchor = max_x_anchor;
    state.nu_anchor = nu_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   max_x = max(a.max_x, b.max_x)
//   sum_exp = a.sum_exp·exp(a.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)
//   sum_exp_x = a.sum_exp_x·exp(a.max_x - max_x) + b.sum_exp_x·exp(b.max_x - max_x)
//   sum_dev2_exp = a.sum_dev2_exp·exp(a.max_x - max_x) + a.sum_dev_exp·2·exp(a.max_x - max_x)·(a.nu - nu) + a.sum_exp·exp(a.max_x - max_x)·(a.nu - nu)·(a.nu - nu) + b.sum_dev2_exp·exp(b.max_x - max_x) + b.sum_dev_exp·2·exp(b.max_x - max_x)·(b.nu - nu) + b.sum_exp·exp(b.max_x - max_x)·(b.nu - nu)·(b.nu - nu)
//   sum_dev_exp = a.sum_dev_exp·exp(a.max_x - max_x) + a.sum_exp·exp(a.max_x - max_x)·(a.nu - nu) + b.sum_dev_exp·exp(b.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)·(b.nu - nu)
inline void merge(State& state, State& part)
{
    const float max_x = fg::greater_of(state.max_x, part.max_x);
    const float max_x_anchor = fg::shift_anchor(max_x);
    rebase(state, max_x_anchor, state.nu_anchor);
    rebase(part, max_x_anchor, part.nu_anchor);
    const float sum_exp = state.sum_exp + part.sum_exp;
    const float sum_exp_x = state.sum_exp_x + part.sum_exp_x;
    const float nu_anchor = fg::shift_anchor(sum_exp_x / sum_exp);
    rebase(state, max_x_anchor, nu_anchor);
    rebase(part, max_x_anchor, nu_anchor);
    state.max_x = max_x;
    state.sum_exp += part.sum_exp;
    state.sum_exp_x += part.sum_exp_x;
    state.sum_dev2_exp += part.sum_dev2_exp;
    state.sum_dev_exp += part.sum_dev_exp;
}

// One chunk, columns [begin, end): the pivots, and the sums so far moved there.
template <typename V>
inline void settle(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::highest<V> max_x_lanes[2];
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        const V x = fg::load<V>(row.x + col, live);
        max_x_lanes[turn].take(live(x, -fg::infinity));  // algebra_cases.py  m = fg.max(x)
    });

    // 2. The new max_x; the sums so far move there.
    const float max_x = fg::greater_of(state.max_x, fg::both(max_x_lanes[0], max_x_lanes[1]).across());
    const float max_x_anchor = fg::shift_anchor(max_x);
    if (fg::rarely(max_x_anchor != state.max_x_anchor))
        rebase(state, max_x_anchor, state.nu_anchor);
    state.max_x = max_x;
}

// One chunk, columns [begin, end): sums relative to the pivots.
template <typename V, bool in_runs = true>
inline void add_up(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it
    const float max_x_anchor = state.max_x_anchor;

    // 3. Sums relative to max_x.
    fg::sums<V, 1, in_runs> sum_exp_lanes;
    fg::sums<V, 1, in_runs> sum_exp_x_lanes;
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_max_x = x - max_x_anchor;
        sum_exp_lanes += live(fg::exp_below(x_minus_max_x), 0.0f);  // algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        sum_exp_x_lanes += live(x * fg::exp_below(x_minus_max_x), 0.0f);  // algebra_cases.py  nu = fg.sum(y * x)
    }, sum_exp_lanes, sum_exp_x_lanes);
    const float sum_exp = state.sum_exp + fg::total(sum_exp_lanes.each());
    const float sum_exp_x = state.sum_exp_x + fg::total(sum_exp_x_lanes.each());

    // 4. The new max_x and nu; the sums so far move there.
    const float nu_anchor = fg::shift_anchor(sum_exp_x / sum_exp);
    if (fg::rarely(nu_anchor != state.nu_anchor))
        rebase(state, max_x_anchor, nu_anchor);
    state.sum_exp = sum_exp;
    state.sum_exp_x = sum_exp_x;

    // 5. Sums relative to max_x and nu.
    fg::sums<V, 1, in_runs> sum_dev2_exp_lanes;
    fg::sums<V, 1, in_runs> sum_dev_exp_lanes;
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_max_x = x - max_x_anchor;
        const V x_minus_nu = x - nu_anchor;
        sum_dev2_exp_lanes += live(fg::zero_wins(fg::exp_below(x_minus_max_x), x_minus_nu * x_minus_nu), 0.0f);  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
        sum_dev_exp_lanes += live(fg::zero_wins(fg::exp_below(x_minus_max_x), x_minus_nu), 0.0f);  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
    }, sum_dev2_exp_lanes, sum_dev_exp_lanes);
    state.sum_dev2_exp += fg::total(sum_dev2_exp_lanes.each());
    state.sum_dev_exp += fg::total(sum_dev_exp_lanes.each());
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
        stop = end - begin < chunk + 8 ? end : begin + chunk;
        absorb<fg::lanes>(state, row, begin, stop);
    }
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float max_x = state.max_x;  // algebra_cases.py  m = fg.max(x)
    const float sum_exp = std::isfinite(max_x) ? state.sum_exp : fg::nan;  // algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    const float nu = std::isfinite(max_x) ? state.sum_exp_x / sum_exp : fg::nan;  // algebra_cases.py  nu = fg.sum(y * x)
    const float sum_mul = std::isfinite(max_x) & std::isfinite(nu) ? state.sum_dev2_exp / sum_exp : fg::nan;  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
    fg::store(row.sum_mul, sum_mul);  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
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
            sweep_1::settle<fg::lanes>(states_1[i], rows[i], 0, arrays.n_cols);
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
    alignas(64) float x_tile[abreast_columns * 8];
    for (int64_t together; first < last; first += together) {
        together = last - first < 8 ? last - first : 8;
        Row rows[8];
        for (int64_t i = 0; i < 8; ++i)
            rows[i] = row_of(arrays, first + (i < together ? i : together - 1));
        const Row& row = rows[0];
        fg::turn_rows<V>(x_tile, arrays.n_cols, [&](int64_t i, int64_t col, auto live) {
            fg::prefetch(rows[i].x + 8 * arrays.x_stride + col);
            return fg::load<V>(rows[i].x + col, live);
        });
        struct {
            V max_x;
            V sum_exp;
            V sum_exp_x;
            V sum_dev2_exp;
            V sum_dev_exp;
        } state;
        {
            fg::highest<V> max_x_lanes[2];
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                max_x_lanes[turn].take(x);  // algebra_cases.py  m = fg.max(x)
            });
            const V max_x = state.max_x = fg::both(max_x_lanes[0], max_x_lanes[1]).each();
            const V max_x_anchor = fg::shift_anchor(max_x);
            fg::sums<V, 2, true> sum_exp_lanes;
            fg::sums<V, 2, true> sum_exp_x_lanes;
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                const V x_minus_max_x = x - max_x_anchor;
                sum_exp_lanes[turn] += fg::exp_below(x_minus_max_x);  // algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
                sum_exp_x_lanes[turn] += x * fg::exp_below(x_minus_max_x);  // algebra_cases.py  nu = fg.sum(y * x)
            }, sum_exp_lanes, sum_exp_x_lanes);
            const V sum_exp = state.sum_exp = sum_exp_lanes.each();
            const V sum_exp_x = state.sum_exp_x = sum_exp_x_lanes.each();
            const V nu_anchor = fg::shift_anchor(sum_exp_x / sum_exp);
            fg::sums<V, 2, true> sum_dev2_exp_lanes;
            fg::sums<V, 2, true> sum_dev_exp_lanes;
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                const V x_minus_max_x = x - max_x_anchor;
                const V x_minus_nu = x - nu_anchor;
                sum_dev2_exp_lanes[turn] += fg::zero_wins(fg::exp_below(x_minus_max_x), x_minus_nu * x_minus_nu);  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
                sum_dev_exp_lanes[turn] += fg::zero_wins(fg::exp_below(x_minus_max_x), x_minus_nu);  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
            }, sum_dev2_exp_lanes, sum_dev_exp_lanes);
            state.sum_dev2_exp = sum_dev2_exp_lanes.each();
            state.sum_dev_exp = sum_dev_exp_lanes.each();
        }
        const V max_x = state.max_x;  // algebra_cases.py  m = fg.max(x)
        const V sum_exp = fg::select(fg::is_finite(max_x), state.sum_exp, fg::all<V>(fg::nan));  // algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        const V nu = fg::select(fg::is_finite(max_x), state.sum_exp_x / sum_exp, fg::all<V>(fg::nan));  // algebra_cases.py  nu = fg.sum(y * x)
        const V sum_mul = fg::select(fg::is_finite(max_x) & fg::is_finite(nu), state.sum_dev2_exp / sum_exp, fg::all<V>(fg::nan));  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
        {
            float sum_mul_lanes[fg::width<V>];
            fg::store(sum_mul_lanes, sum_mul);  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
            for (int64_t i = 0; i < together; ++i)
                *rows[i].sum_mul = sum_mul_lanes[i];
        }
    }
}

}  // namespace softmax_weighted_variance

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t softmax_weighted_variance_scratch_bytes(int64_t)
{
    using namespace softmax_weighted_variance;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void softmax_weighted_variance_rows(const softmax_weighted_variance::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace softmax_weighted_variance;
    if (arrays->n_cols >= 1 && arrays->n_cols <= abreast_columns)
        return rows_abreast(*arrays, first, last);
    if (arrays->n_cols <= short_columns)
        return short_rows(*arrays, first, last);
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t softmax_weighted_variance_state_bytes_1() { return sizeof(softmax_weighted_variance::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void softmax_weighted_variance_fold_1(const softmax_weighted_variance::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace softmax_weighted_variance;
    const Row row = row_of(*arrays, r);
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
}

// The pieces of a row, in order, into one, and its results.
void softmax_weighted_variance_finish_1(const softmax_weighted_variance::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace softmax_weighted_variance;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
