// softmax_topk    texts.py
// form online, for x86-64-v4; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 64 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 64 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       block online, chunks of 512
// Schedule   vectors of 16, chunks of 512, pieces of 131072 columns
// Bytes      reads each element once, writes 768 bytes a row

#include <cmath>
#include <cstdint>

namespace fusegen {

namespace {

typedef float real;  // what is computed with
typedef real lanes __attribute__((vector_size(64)));  // 16 at a time
constexpr int64_t piece = 131072;  // columns folded in one go, of longer rows on however many threads
constexpr int64_t list_block = 2048;  // columns between two looks at the room of long lists

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
#include <fusegen/cpu/candidates.hpp>

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
    float* values;  // 64 entries
    int64_t* indices;  // 64 entries
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.values + row * 64,
        arrays.indices + row * 64,
        arrays.n_cols,
    };
}

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float m;  // max of x   texts.py  m = fg.max(x)
    float m_anchor;  // m, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_m)   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::candidates<float, 64> top;  // top 64 of x   texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
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
//   top = best 64 of both lists
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

    // 2. The new m; the sums so far move there.
    const float m = fg::greater_of(state.m, fg::both(m_lanes[0], m_lanes[1]).across());
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
}

// Every list that is too long to be kept in order, with the function that gives its values: as many
// as a V has, from a column on.
template <typename V, typename F>
inline void each_list(State& state, const Row& row, F visit)
{
    visit(state.top, [&](int64_t col, auto live) {
        const V x = fg::load<V>(row.x + col, live);
        return x;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    });
}

// Columns [begin, end) of a row, chunk by chunk, and to the lists several chunks at a time; what
// fills no vector comes last. The columns that the lists survey are folded first: that is when they
// come from memory. Rows that networks sort whole go to the lists whole.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    const int64_t first = begin, rest = end - (end - begin) % fg::width<fg::lanes>;
    const auto absorb_all = [&](int64_t from, int64_t to) {
        for (int64_t stop; from < to; from = stop) {
            stop = to - from < 512 + 16 ? to : from + 512;
            fg::prefetch(row.x + from + 4096, 512);
            fg::expect(row.values, 64, (from - first) / 512);
            fg::expect(row.indices, 64, (from - first) / 512);
            absorb<fg::lanes>(state, row, from, stop);
        }
    };
    const auto with_rest = [&](int64_t to) { return to == rest ? end : to; };
    bool whole = true;
    each_list<fg::lanes>(state, row, [&](auto& list, auto) {
        whole &= end - first <= list.at_once;
    });
    if (whole) {
        absorb_all(first, end);
        each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
            list.template take_all<fg::lanes>(first, end, lift);
        });
        return;
    }
    each_list<fg::lanes>(state, row, [&](auto& list, auto) {
        const int64_t chunks = (list.surveyed(rest - first) + 511) / 512;
        begin = first + chunks * 512 > begin ? first + chunks * 512 : begin;
    });
    begin = begin < rest ? begin : rest;
    absorb_all(first, with_rest(begin));
    each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
        list.template survey<fg::lanes>(first, rest, lift);
        list.template search<fg::lanes>(first, begin, lift);
    });
    while (begin < rest) {
        const int64_t stop = rest - begin < 2048 ? rest : begin + 2048;
        each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
            list.template mark<fg::lanes>(begin, stop, lift);
        });
        absorb_all(begin, with_rest(stop));
        each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
            list.template take<fg::lanes>(begin, stop, lift);
        });
        begin = stop;
    }
    each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
        list.template review<fg::lanes>(first, rest, lift);
    });
    if (rest < end)
        each_list<fg::lanes>(state, row, [&](auto& list, auto lift) {
            list.template take_rest<fg::lanes>(rest, end, lift);
        });
}

// The row is folded: its values and results.
inline void finish(State& state, const Row& row)
{
    state.top.sort();
    const float m = state.m;  // texts.py  m = fg.max(x)
    const float sum_exp = std::isfinite(m) ? state.sum_exp : fg::nan;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    fg::over_entries<64>([&](int64_t entry, auto live) {
        typedef fg::lanes V;
        const V top_value = state.top.value<V>(entry);
        fg::store(row.values + entry, fg::quotient(fg::exp(top_value - m), sum_exp), live);  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    });
    fg::over_entries<64>([&](int64_t entry, auto live) {
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
