// softmax    texts.py
// form online, for x86-64-v4; by fusegen 0.1.0, do not edit
//
// Sweep 1    reads x
// State      (m, sum_exp), of no elements (-inf, 0)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
// Sweep 2    reads x
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference
// Tree       block online, chunks of 2048
// Schedule   vectors of 16, chunks of 2048, pieces of 32768 columns
// Bytes      reads each element twice, writes once

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
#include <fusegen/cpu/results.hpp>
#include <fusegen/cpu/exp.hpp>
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>

namespace fg = fusegen;

namespace {

namespace softmax {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* div;
    int64_t div_stride;
    int64_t n_cols;
    int64_t past;  // do results go past the caches?
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* div;  // n_cols elements
    int64_t n_cols;
    bool past;  // do results go past the caches?
    float* terms = nullptr;  // of sweep 1, for sweep 2, if it is short enough
    float* pivots = nullptr;  // that those of each chunk are relative to
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.div + row * arrays.div_stride,
        arrays.n_cols,
        arrays.past != 0,
    };
}

constexpr int64_t short_columns = 512;  // of rows that take turns
constexpr int64_t rows_together = 8;

// Terms are kept of rows that stay in a cache: whole vectors, and then a pivot for each chunk.
constexpr int64_t kept_columns = 262144;

inline int64_t kept_terms(int64_t n_cols) { return (n_cols + 15) / 16 * 16; }

inline int64_t kept_bytes(int64_t n_cols)
{
    const int64_t pivots = kept_terms(n_cols / 2048 + 1);
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
    float m;  // max of x   texts.py  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
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
    state.sum_exp = fg::zero_wins(state.sum_exp, fg::exp(m_shift));
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

// One chunk, columns [begin, end): the pivots, and the sums so far moved there.
template <typename V>
inline void settle(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::highest<V> m_lanes[2];
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        const V x = fg::load<V>(row.x + col, live);
        m_lanes[turn].take(live(x, -fg::infinity));  // texts.py  m = fg.max(x)
    });

    // 2. The new m; the sums so far move there.
    const float m = fg::greater_of(state.m, fg::both(m_lanes[0], m_lanes[1]).across());
    const float m_anchor = fg::shift_anchor(m);
    if (fg::rarely(m_anchor != state.m_anchor))
        rebase(state, m_anchor);
    state.m = m;
}

// One chunk, columns [begin, end): sums relative to the pivots.
template <typename V, bool in_runs = true>
inline void add_up(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it
    const float m_anchor = state.m_anchor;

    // 3. Sums relative to m.
    fg::sums<V, 1, in_runs> sum_exp_lanes;
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_m = x - m_anchor;
        const V term = fg::exp_below(x_minus_m);
        if (row.terms)
            fg::store(row.terms + col, term);
        sum_exp_lanes += live(term, 0.0f);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    }, sum_exp_lanes);
    state.sum_exp += fg::total(sum_exp_lanes.each());
    if (row.terms)
        row.pivots[begin / 2048] = state.m;
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
inline void finish(const State& state, Known& known)
{
    const float m = state.m;  // texts.py  m = fg.max(x)
    const float sum_exp = std::isfinite(m) ? state.sum_exp : fg::nan;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
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
inline void absorb(const Row& shared, const Known& known, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it
    const float m = known.m;
    const float sum_exp = known.sum_exp;

    // 1. Elements to memory.
    const fg::divisor<V> sum_exp_divisor(sum_exp);
    fg::each_result<V>(fg::past_lines(row.past, begin, end, row.div), begin, end, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        fg::store(row.div + col, fg::quotient(fg::exp(x - m), sum_exp_divisor), live);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

// The same, from terms that an earlier sweep has kept.
template <typename V>
inline void absorb_terms(const Row& shared, const Known& known, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it
    const float moved = fg::factor_between(row.pivots[begin / 2048], known.m, known.sum_exp);

    // 1. Elements to memory.
    fg::each_result<V>(fg::past_lines(row.past, begin, end, row.div), begin, end, [&](int64_t col, auto live) {
        const V term = fg::load<V>(row.terms + col) * moved;
        fg::store(row.div + col, term, live);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

// The same, from such terms if they can be moved.
inline void visit(const Row& row, const Known& known, int64_t begin, int64_t end)
{
    if (row.terms && fg::movable(row.pivots[begin / 2048], known.m, known.sum_exp))
        absorb_terms<fg::lanes>(row, known, begin, end);
    else
        absorb<fg::lanes>(row, known, begin, end);
}

// Columns [begin, end) of a row, chunk by chunk; the last takes what is left.
__attribute__((noinline)) void fold(const Row& row, const Known& known, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 2048;
    for (int64_t stop; begin < end; begin = stop) {
        stop = end - begin < chunk + 16 ? end : begin + chunk;
        fg::expect_part(row.div + stop + chunk, row.past);
        visit(row, known, begin, stop);
    }
}

// The whole row.
inline void run(const Row& row, Known& known)
{
    // Chunks end where those of the sweep do that has kept their terms.
    for (int64_t begin = 0; begin < row.n_cols; begin += fg::piece)
        fold(row, known, begin, row.n_cols - begin < fg::piece ? row.n_cols : begin + fg::piece);
}

}  // namespace sweep_2

// Rows [first, last), of no more than short_columns. Step by step, several take each before any takes
// the next: while a row waits for what it has just computed, the processor goes on with others.
inline void short_rows(const Arrays& arrays, int64_t first, int64_t last, void* room)
{
    Row rows[rows_together];
    Known known[rows_together];
    // Longer rows are waited for less; pieces of rows may have no columns.
    const int64_t fitting = arrays.n_cols > 0 ? short_columns / arrays.n_cols : rows_together;
    const int64_t most = fitting < rows_together ? fitting : rows_together;
    for (int64_t n; first < last; first += n) {
        n = last - first < most ? last - first : most;
        for (int64_t i = 0; i < n; ++i) {
            rows[i] = row_of(arrays, first + i);
            fg::expect_end(rows[i].div, rows[i].past, arrays.n_cols);
            keep(rows[i], static_cast<char*>(room) + i * kept_bytes(arrays.n_cols));
        }
        sweep_1::State states_1[rows_together];
        for (int64_t i = 0; i < n; ++i) {
            sweep_1::identity(states_1[i]);
            sweep_1::settle<fg::lanes>(states_1[i], rows[i], 0, arrays.n_cols);
        }
        for (int64_t i = 0; i < n; ++i)
            sweep_1::add_up<fg::lanes, false>(states_1[i], rows[i], 0, arrays.n_cols);
        for (int64_t i = 0; i < n; ++i)
            sweep_1::finish(states_1[i], known[i]);
        for (int64_t i = 0; i < n; ++i)
            sweep_2::visit(rows[i], known[i], 0, arrays.n_cols);
    }
}

}  // namespace softmax

}  // namespace

extern "C" {

// Memory that each thread needs: terms of a row, two states of the sweep that has the largest.
int64_t softmax_scratch_bytes(int64_t n_cols)
{
    using namespace softmax;
    return (n_cols > short_columns ? 1 : rows_together) * kept_bytes(n_cols) + 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void softmax_rows(const softmax::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace softmax;
    const fg::published at_last;
    void* const room = scratch;
    if (arrays->n_cols <= short_columns)
        return short_rows(*arrays, first, last, room);
    scratch = static_cast<char*>(room) + kept_bytes(arrays->n_cols);
    for (int64_t r = first; r < last; ++r) {
        Row row = row_of(*arrays, r);
        fg::expect_end(row.div, row.past, row.n_cols);
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
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
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
    const fg::published at_last;
    const Row row = row_of(*arrays, r);
    const Known& known = *static_cast<const Known*>(known_values);
    sweep_2::fold(row, known, begin, end);
}

}  // extern "C"
