// softmax_topk    texts.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 5 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 5 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       block online, chunks of 2048
// Schedule   vectors of 8, chunks of 2048, pieces of 131072 columns
// Bytes      reads each element once, writes 60 bytes a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(32)));  // 8 at a time
constexpr int64_t piece = 131072;  // columns folded in one go, of longer rows on however many threads

}  // namespace

}  // namespace fusegen

#include <fusegen/cpu/vectors.hpp>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/walk.hpp>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/types.hpp>
#include <fusegen/cpu/exp.hpp>
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>
#include <fusegen/cpu/best.hpp>
#include <fusegen/cpu/search.hpp>
#include <fusegen/cpu/abreast.hpp>

namespace fg = fusegen;

namespace {

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

constexpr int64_t short_columns = 256;  // of rows that take turns
constexpr int64_t rows_together = 8;

constexpr int64_t abreast_columns = 128;  // of rows that stand in the lanes of a vector

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float m;  // max of x   texts.py  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::best_list<float, 5> top;  // top 5 of x   texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
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
    state.sum_exp = fg::zero_wins(state.sum_exp, fg::exp(m_shift));
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

// One chunk, columns [begin, end).
template <typename V, bool in_runs = true>
inline void absorb(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::highest<V> m_lanes[2];
    fg::each_by_turns<V>(begin, end, [&](int64_t col, auto live, auto turn) {
        const V x = fg::load<V>(row.x + col, live);
        m_lanes[turn].take(live(x, -fg::infinity));  // texts.py  m = fg.max(x)
    });
    const float chunk_m = fg::both(m_lanes[0], m_lanes[1]).across();

    // 2. The new m; the sums so far move there.
    const float m = fg::greater_of(state.m, chunk_m);
    const float m_anchor = fg::shift_anchor(m);
    if (fg::rarely(m_anchor != state.m_anchor))
        rebase(state, m_anchor);
    state.m = m;

    // 3. Sums relative to m.
    fg::sums<V, 1, in_runs> sum_exp_lanes;
    fg::each<V>(begin, end, [&](int64_t col, auto live) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col, live);
        const V x_minus_m = x - m_anchor;
        sum_exp_lanes += live(fg::exp_below(x_minus_m), 0.0f);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    }, sum_exp_lanes);
    state.sum_exp += fg::total(sum_exp_lanes.each());

    // 4. top: only chunks with something ahead of the last of the 5 so far are searched.
    if (fg::rarely(state.top.admitted(chunk_m))) {
        fg::search<V>(state.top, fg::both(m_lanes[0], m_lanes[1]).so_far, begin, end, [&](int64_t col, auto live) {
            const V x = fg::load<V>(row.x + col, live);
            return x;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        });
    }
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
    const float m = state.m;  // texts.py  m = fg.max(x)
    const float sum_exp = std::isfinite(m) ? state.sum_exp : fg::nan;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::over_entries<5>([&](int64_t entry, auto live) {
        typedef fg::lanes V;
        const V top_value = state.top.value<V>(entry);
        fg::store(row.values + entry, fg::quotient(fg::exp(top_value - m), sum_exp), live);  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    });
    fg::over_entries<5>([&](int64_t entry, auto live) {
        typedef fg::lanes V;
        const fg::whole<V> top_column = state.top.column<V>(entry);
        fg::store_int(row.indices + entry, top_column, live);  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
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
            sweep_1::absorb<fg::lanes, false>(states_1[i], rows[i], 0, arrays.n_cols);
        }
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
            V m;
            V sum_exp;
            fg::best_lists<V, 5> top;
        } state;
        {
            fg::highest<V> m_lanes[2];
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                m_lanes[turn].take(x);  // texts.py  m = fg.max(x)
            });
            const V m = state.m = fg::both(m_lanes[0], m_lanes[1]).each();
            const V m_anchor = fg::shift_anchor(m);
            fg::sums<V, 2, true> sum_exp_lanes;
            fg::each_by_turns<float>(0, arrays.n_cols, [&](int64_t col, auto, auto turn) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                const V x_minus_m = x - m_anchor;
                sum_exp_lanes[turn] += fg::exp_below(x_minus_m);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
            }, sum_exp_lanes);
            state.sum_exp = sum_exp_lanes.each();
            state.top.find(fg::both(m_lanes[0], m_lanes[1]), together, arrays.n_cols, [&](int64_t col) {
                const V x = fg::fetch<V>(x_tile + col * fg::width<V>);
                return x;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
            });
        }
        const V m = state.m;  // texts.py  m = fg.max(x)
        const V sum_exp = fg::select(fg::is_finite(m), state.sum_exp, fg::all<V>(fg::nan));  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        for (int64_t entry = 0; entry < 5; ++entry) {
            const V top_value = state.top.values[entry];
            {
                float values_lanes[fg::width<V>];
                fg::store(values_lanes, fg::exp(top_value - m) / sum_exp);  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
                for (int64_t i = 0; i < together; ++i)
                    rows[i].values[entry] = values_lanes[i];
            }
        }
        for (int64_t entry = 0; entry < 5; ++entry) {
            const fg::whole<V> top_column = state.top.columns[entry];
            {
                int64_t indices_lanes[fg::width<V>];
                fg::store_int(indices_lanes, top_column);  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
                for (int64_t i = 0; i < together; ++i)
                    rows[i].indices[entry] = indices_lanes[i];
            }
        }
    }
}

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
    if (arrays->n_cols >= 5 && arrays->n_cols <= abreast_columns)
        return rows_abreast(*arrays, first, last);
    if (arrays->n_cols <= short_columns)
        return short_rows(*arrays, first, last);
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
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
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
