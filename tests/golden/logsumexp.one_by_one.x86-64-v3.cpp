// logsumexp    texts.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (max_x, sum_exp), of no elements (-inf, 0)
// a ⊕ b      max_x = max(a.max_x, b.max_x)
//            sum_exp = a.sum_exp·exp(a.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference
// Tree       online, one element at a time
// Schedule   scalar, chunks of 1, pieces of 32768 columns
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

namespace fg = fusegen;

namespace {

namespace logsumexp {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* where;
    int64_t where_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* where;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.where + row * arrays.where_stride,
        arrays.n_cols,
    };
}

// Sweep 1: reads x.
namespace sweep_1 {

struct State {
    float max_x;  // max of x   texts.py  return fg.logsumexp(x)
    float max_x_anchor;  // max_x, or 0 where that is no usable number
    float sum_exp;  // sum of exp(x_minus_max_x)   texts.py  return fg.logsumexp(x)
};

// The state of no elements.
inline void identity(State& state)
{
    state.max_x = -fg::infinity;
    state.max_x_anchor = 0.0f;
    state.sum_exp = 0.0f;
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float max_x_anchor)
{
    const float max_x_shift = state.max_x_anchor - max_x_anchor;
    state.sum_exp = fg::zero_wins(state.sum_exp, fg::exp(max_x_shift));
    state.max_x_anchor = max_x_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   max_x = max(a.max_x, b.max_x)
//   sum_exp = a.sum_exp·exp(a.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)
inline void merge(State& state, State& part)
{
    const float max_x = fg::greater_of(state.max_x, part.max_x);
    const float max_x_anchor = fg::shift_anchor(max_x);
    rebase(state, max_x_anchor);
    rebase(part, max_x_anchor);
    state.max_x = max_x;
    state.sum_exp += part.sum_exp;
}

// One chunk, columns [begin, end): a whole number of V.
template <typename V, bool in_runs = true>
inline void absorb(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::highest<V> max_x_lanes;
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        const V x = fg::load<V>(row.x + col);
        max_x_lanes.take(x);  // texts.py  return fg.logsumexp(x)
    });

    // 2. The new max_x; the sums so far move there.
    const float max_x = fg::greater_of(state.max_x, max_x_lanes.across());
    const float max_x_anchor = fg::shift_anchor(max_x);
    if (fg::rarely(max_x_anchor != state.max_x_anchor))
        rebase(state, max_x_anchor);
    state.max_x = max_x;

    // 3. Sums relative to max_x.
    fg::sums<V, 1, in_runs> sum_exp_lanes;
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col);
        const V x_minus_max_x = x - max_x_anchor;
        sum_exp_lanes += fg::exp_below(x_minus_max_x);  // texts.py  return fg.logsumexp(x)
    }, sum_exp_lanes);
    state.sum_exp += fg::total(sum_exp_lanes.each());
}

// Columns [begin, end) of a row, one element at a time.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    for (; begin < end; ++begin)
        absorb<float>(state, row, begin, begin + 1);
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float max_x = state.max_x;  // texts.py  return fg.logsumexp(x)
    const bool isinf_ = std::isinf(max_x);  // texts.py  return fg.logsumexp(x)
    const float sum_exp = std::isfinite(max_x) ? state.sum_exp : fg::nan;  // texts.py  return fg.logsumexp(x)
    const float log_ = fg::log(sum_exp);  // texts.py  return fg.logsumexp(x)
    const float add = max_x + log_;  // texts.py  return fg.logsumexp(x)
    const float where = isinf_ ? max_x : add;  // texts.py  return fg.logsumexp(x)
    fg::store(row.where, where);  // texts.py  return fg.logsumexp(x)
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

}  // namespace logsumexp

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t logsumexp_scratch_bytes(int64_t)
{
    using namespace logsumexp;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void logsumexp_rows(const logsumexp::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace logsumexp;
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t logsumexp_state_bytes_1() { return sizeof(logsumexp::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void logsumexp_fold_1(const logsumexp::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace logsumexp;
    const Row row = row_of(*arrays, r);
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
}

// The pieces of a row, in order, into one, and its results.
void logsumexp_finish_1(const logsumexp::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace logsumexp;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
