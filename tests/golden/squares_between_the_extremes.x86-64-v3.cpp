// squares_between_the_extremes    algebra_cases.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (lo, hi, count, sum_pow, sum_dev), of no elements (+inf, -inf, 0, 0, 0)
// a ⊕ b      lo = min(a.lo, b.lo)
//            hi = max(a.hi, b.hi)
//            count = a.count + b.count
//            sum_pow = a.sum_pow·(a.sub_2 / sub_2)·(a.sub_2 / sub_2) + a.count·((a.lo - lo) / sub_2)·((a.lo - lo) / sub_2) + a.sum_dev·2·((a.lo - lo) / sub_2)·(a.sub_2 / sub_2) + b.sum_pow·(b.sub_2 / sub_2)·(b.sub_2 / sub_2) + b.count·((b.lo - lo) / sub_2)·((b.lo - lo) / sub_2) + b.sum_dev·2·((b.lo - lo) / sub_2)·(b.sub_2 / sub_2)
//            sum_dev = a.count·((a.lo - lo) / sub_2) + a.sum_dev·(a.sub_2 / sub_2) + b.count·((b.lo - lo) / sub_2) + b.sum_dev·(b.sub_2 / sub_2)
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning
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
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>
#include <fusegen/cpu/abreast.hpp>

namespace fg = fusegen;

namespace {

namespace squares_between_the_extremes {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* sum_pow;
    int64_t sum_pow_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* sum_pow;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.sum_pow + row * arrays.sum_pow_stride,
        arrays.n_cols,
    };
}

constexpr int64_t short_columns = 256;  // of rows that take turns
constexpr int64_t rows_together = 8;

constexpr int64_t abreast_columns = 256;  // of rows that stand in the lanes of a vector

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float lo;  // min of x   algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
    float hi;  // max of x   algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
    float count;  // sum of 1   algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
    float sub_2_anchor;  // hi - lo, or 1 where that is no usable number
    float lo_anchor;  // lo, or 0 where that is no usable number
    float sum_pow;  // sum of x_minus_lo_over_sub_2·x_minus_lo_over_sub_2   algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
    float sum_dev;  // sum of x_minus_lo_over_sub_2   algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
};

// The state of no elements.
inline void identity(State& state)
{
    state.lo = fg::infinity;
    state.hi = -fg::infinity;
    state.count = 0.0f;
    state.sub_2_anchor = 1.0f;
    state.lo_anchor = 0.0f;
    state.sum_pow = 0.0f;
    state.sum_dev = 0.0f;
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float sub_2_anchor, float lo_anchor)
{
    const float sub_2_ratio = state.sub_2_anchor / sub_2_anchor;
    const float lo_shift_over_sub_2 = (state.lo_anchor - lo_anchor) / sub_2_anchor;
    const float sum_pow = fg::zero_wins(state.sum_pow, sub_2_ratio * sub_2_ratio) + fg::zero_wins(state.count, lo_shift_over_sub_2 * lo_shift_over_sub_2) + fg::zero_wins(state.sum_dev, 2.0f * lo_shift_over_sub_2 * sub_2_ratio);
    const float sum_dev = fg::zero_wins(state.count, lo_shift_over_sub_2) + fg::zero_wins(state.sum_dev, sub_2_ratio);
    state.sum_pow = sum_pow;
    state.sum_dev = sum_dev;
    state.sub_2_anchor = sub_2_anchor;
    state.lo_anchor = lo_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   lo = min(a.lo, b.lo)
//   hi = max(a.hi, b.hi)
//   count = a.count + b.count
//   sum_pow = a.sum_pow·(a.sub_2 / sub_2)·(a.sub_2 / sub_2) + a.count·((a.lo - lo) / sub_2)·((a.lo - lo) / sub_2) + a.sum_dev·2·((a.lo - lo) / sub_2)·(a.sub_2 / sub_2) + b.sum_pow·(b.sub_2 / sub_2)·(b.sub_2 / sub_2) + b.count·((b.lo - lo) / sub_2)·((b.lo - lo) / sub_2) + b.sum_dev·2·((b.lo - lo) / sub_2)·(b.sub_2 / sub_2)
//   sum_dev = a.count·((a.lo - lo) / sub_2) + a.sum_dev·(a.sub_2 / sub_2) + b.count·((b.lo - lo) / sub_2) + b.sum_dev·(b.sub_2 / sub_2)
inline void merge(State& state, State& part)
{
    const float lo = fg::lesser_of(state.lo, part.lo);
    const float hi = fg::greater_of(state.hi, part.hi);
    const float sub_2_anchor = fg::scale_anchor(hi - lo);
    const float lo_anchor = fg::shift_anchor(lo);
    rebase(state, sub_2_anchor, lo_anchor);
    rebase(part, sub_2_anchor, lo_anchor);
    state.lo = lo;
    state.hi = hi;
    state.count += part.count;
    state.sum_pow += part.sum_pow;
    state.sum_dev += part.sum_dev;
}

// One chunk, columns [begin, end): the pivots, and the sums so far moved there.
template <typename V>
inline void settle(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::lowest<V> lo_lanes[2];
    fg::highest<V> hi_lanes[2];
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        const V x = fg::load<V>(row.x + col, live);
        lo_lanes[turn].take(live(x, fg::infinity));  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
        hi_lanes[turn].take(live(x, -fg::infinity));  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
    });

    // 2. The new sub_2 and lo; the sums so far move there.
    const float lo = fg::lesser_of(state.lo, fg::both(lo_lanes[0], lo_lanes[1]).across());
    const float hi = fg::greater_of(state.hi, fg::both(hi_lanes[0], hi_lanes[1]).across());
    const float count = state.count + float(end - begin);
    const float sub_2_anchor = fg::scale_anchor(hi - lo);
    const float lo_anchor = fg::shift_anchor(lo);
    if (fg::rarely(sub_2_anchor != state.sub_2_anchor || lo_anchor != state.lo_anchor))
        rebase(state, sub_2_anchor, lo_anchor);
    state.lo = lo;
    state.hi = hi;
    state.count = count;
}

// One chunk, columns [begin, end): sums relative to the pivots.
template <typename V, bool in_runs = true>
inline void add_up(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it
    const float sub_2_anchor = state.sub_2_anchor;
    const float lo_anchor = state.lo_anchor;

    // 3. Sums relative to sub_2 and lo.
    const fg::divisor<V> sub_2_anchor_divisor(sub_2_anchor);
    fg::sums<V, 2, in_runs> sum_pow_lanes;
    fg::sums<V, 2, in_runs> sum_dev_lanes;
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_lo_over_sub_2 = fg::quotient(x - lo_anchor, sub_2_anchor_divisor);
        sum_pow_lanes[turn] += live(x_minus_lo_over_sub_2 * x_minus_lo_over_sub_2, 0.0f);  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
        sum_dev_lanes[turn] += live(x_minus_lo_over_sub_2, 0.0f);  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
    }, sum_pow_lanes, sum_dev_lanes);
    state.sum_pow += fg::total(sum_pow_lanes.each());
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
        stop = end - begin < chunk + 8 ? end : begin + chunk;
        absorb<fg::lanes>(state, row, begin, stop);
    }
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float lo = state.lo;  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
    const float hi = state.hi;  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
    const float sub_2 = hi - lo;  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
    const float sum_pow = std::isfinite(lo) & (std::isfinite(sub_2) & (sub_2 != 0.0f)) ? state.sum_pow : fg::nan;  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
    fg::store(row.sum_pow, sum_pow);  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
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
            V lo;
            V hi;
            V count;
            V sum_pow;
            V sum_dev;
        } state;
        {
            fg::lowest<V> lo_lanes[2];
            fg::highest<V> hi_lanes[2];
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                lo_lanes[turn].take(x);  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
                hi_lanes[turn].take(x);  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
            });
            const V lo = state.lo = fg::both(lo_lanes[0], lo_lanes[1]).each();
            const V hi = state.hi = fg::both(hi_lanes[0], hi_lanes[1]).each();
            const V count = state.count = fg::all<V>(float(arrays.n_cols));
            const V sub_2_anchor = fg::scale_anchor(hi - lo);
            const V lo_anchor = fg::shift_anchor(lo);
            fg::sums<V, 2, true> sum_pow_lanes;
            fg::sums<V, 2, true> sum_dev_lanes;
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                const V x_minus_lo_over_sub_2 = (x - lo_anchor) / sub_2_anchor;
                sum_pow_lanes[turn] += x_minus_lo_over_sub_2 * x_minus_lo_over_sub_2;  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
                sum_dev_lanes[turn] += x_minus_lo_over_sub_2;  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
            }, sum_pow_lanes, sum_dev_lanes);
            state.sum_pow = sum_pow_lanes.each();
            state.sum_dev = sum_dev_lanes.each();
        }
        const V lo = state.lo;  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
        const V hi = state.hi;  // algebra_cases.py  lo, hi = fg.min(x), fg.max(x)
        const V sub_2 = hi - lo;  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
        const V sum_pow = fg::select(fg::is_finite(lo) & (fg::is_finite(sub_2) & (sub_2 != 0.0f)), state.sum_pow, fg::all<V>(fg::nan));  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
        {
            float sum_pow_lanes[fg::width<V>];
            fg::store(sum_pow_lanes, sum_pow);  // algebra_cases.py  return fg.sum(((x - lo) / (hi - lo)) ** 2)
            for (int64_t i = 0; i < together; ++i)
                *rows[i].sum_pow = sum_pow_lanes[i];
        }
    }
}

}  // namespace squares_between_the_extremes

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t squares_between_the_extremes_scratch_bytes(int64_t)
{
    using namespace squares_between_the_extremes;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void squares_between_the_extremes_rows(const squares_between_the_extremes::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace squares_between_the_extremes;
    if (arrays->n_cols >= 1 && arrays->n_cols <= abreast_columns)
        return rows_abreast(*arrays, first, last);
    if (arrays->n_cols <= short_columns)
        return short_rows(*arrays, first, last);
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t squares_between_the_extremes_state_bytes_1() { return sizeof(squares_between_the_extremes::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void squares_between_the_extremes_fold_1(const squares_between_the_extremes::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace squares_between_the_extremes;
    const Row row = row_of(*arrays, r);
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
}

// The pieces of a row, in order, into one, and its results.
void squares_between_the_extremes_finish_1(const squares_between_the_extremes::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace squares_between_the_extremes;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
