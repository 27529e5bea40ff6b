// statistics    own_cases.py
// form online, for x86-64-v3; by fusegen 0.1.0, do not edit
//
// State      (max_x, min_x, mean_x_total, count, derived, sum_dev, welford_state, max_count_state), of no elements (-inf, +inf, 0, 0, 0, 0, WelfordMonoid(0, 0, 0), MaxCountMonoid(-inf, 0))
// a ⊕ b      max_x = max(a.max_x, b.max_x)
//            min_x = min(a.min_x, b.min_x)
//            mean_x_total = a.mean_x_total + b.mean_x_total
//            count = a.count + b.count
//            derived = a.derived + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + a.sum_dev·2·(a.mean_x - mean_x) + b.derived + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x) + b.sum_dev·2·(b.mean_x - mean_x)
//            sum_dev = a.count·(a.mean_x - mean_x) + a.sum_dev + b.count·(b.mean_x - mean_x) + b.sum_dev
//            welford_state = a.welford_state ⊕ b.welford_state of welford:
//              n = a.n + b.n
//              delta = b.mu - a.mu
//              share_ = where(n > 0, to_float(b.n) / to_float(n), 0)
//              mu = a.mu + delta·share_
//              m2 = a.m2 + b.m2 + square(delta)·to_float(a.n)·share_
//            max_count_state = a.max_count_state ⊕ b.max_count_state of max_count:
//              s0 = maximum(a.s0, b.s0)
//              s1 = where(a.s0 > b.s0, a.s1, where(b.s0 > a.s0, b.s1, a.s1 + b.s1))
// Proved     associative, identity, commutative, pointwise identity, read-out, cocycle, unit, known zero, range, conditioning
// Tree       block online, chunks of 2048
// Schedule   vectors of 8, chunks of 2048, pieces of 32768 columns
// Bytes      reads each element once, writes 28 bytes a row

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
#include <fusegen/cpu/types.hpp>
#include <fusegen/cpu/maths.hpp>
#include <fusegen/cpu/pivots.hpp>

namespace fg = fusegen;

namespace {

namespace statistics {

// Every array of the launch: its first row, and where the next row starts.
struct Arrays {
    const float* x;
    int64_t x_stride;
    float* mean;
    int64_t mean_stride;
    float* variance;
    int64_t variance_stride;
    int64_t* ties_;
    int64_t ties__stride;
    float* greatest_;
    int64_t greatest__stride;
    float* spread;
    int64_t spread_stride;
    float* derived;
    int64_t derived_stride;
    int64_t n_cols;
};

// One row of each.
struct Row {
    const float* x;  // n_cols elements
    float* mean;  // one value
    float* variance;  // one value
    int64_t* ties_;  // one value
    float* greatest_;  // one value
    float* spread;  // one value
    float* derived;  // one value
    int64_t n_cols;
};

inline Row row_of(const Arrays& arrays, int64_t row)
{
    return {
        arrays.x + row * arrays.x_stride,
        arrays.mean + row * arrays.mean_stride,
        arrays.variance + row * arrays.variance_stride,
        arrays.ties_ + row * arrays.ties__stride,
        arrays.greatest_ + row * arrays.greatest__stride,
        arrays.spread + row * arrays.spread_stride,
        arrays.derived + row * arrays.derived_stride,
        arrays.n_cols,
    };
}

// Sweep 1: reads x.
namespace sweep_1 {

// welford of own_cases.py: one state, or one in every lane.
template <typename V>
struct WelfordMonoid {
    fg::whole<V> n;
    V mu;
    V m2;

    static WelfordMonoid identity()
    {
        WelfordMonoid e;
        e.n = fg::all<fg::whole<V>>(0);
        e.mu = fg::all<V>(0.0f);
        e.m2 = fg::all<V>(0.0f);
        return e;
    }

    WelfordMonoid<float> lane(int64_t item) const
    {
        return {fg::in_lane(n, item), fg::in_lane(mu, item), fg::in_lane(m2, item)};
    }
};

// a ⊕ b
template <typename V>
inline WelfordMonoid<V> merge(const WelfordMonoid<V>& a, const WelfordMonoid<V>& b)
{
    const fg::whole<V> n = a.n + b.n;
    const V delta = b.mu - a.mu;
    const V share_ = fg::select(fg::narrow<V>(n > fg::all<fg::whole<V>>(0)), fg::convert<V>(b.n) / fg::convert<V>(n), fg::all<V>(0.0f));
    WelfordMonoid<V> r;
    r.n = n;
    r.mu = a.mu + delta * share_;
    r.m2 = a.m2 + b.m2 + fg::square(delta) * fg::convert<V>(a.n) * share_;
    return r;
}

// max_count of own_cases.py: one state, or one in every lane.
template <typename V>
struct MaxCountMonoid {
    V s0;
    fg::whole<V> s1;

    static MaxCountMonoid identity()
    {
        MaxCountMonoid e;
        e.s0 = fg::all<V>(-fg::infinity);
        e.s1 = fg::all<fg::whole<V>>(0);
        return e;
    }

    MaxCountMonoid<float> lane(int64_t item) const
    {
        return {fg::in_lane(s0, item), fg::in_lane(s1, item)};
    }
};

// a ⊕ b
template <typename V>
inline MaxCountMonoid<V> merge(const MaxCountMonoid<V>& a, const MaxCountMonoid<V>& b)
{
    MaxCountMonoid<V> r;
    r.s0 = fg::greater_of(a.s0, b.s0);
    r.s1 = fg::select(a.s0 > b.s0, a.s1, fg::select(b.s0 > a.s0, b.s1, a.s1 + b.s1));
    return r;
}

struct State {
    float max_x;  // max of x   own_cases.py  spread = fg.max(x) - fg.min(x)
    float min_x;  // min of x   own_cases.py  spread = fg.max(x) - fg.min(x)
    float mean_x_total;  // sum of x   own_cases.py  derived = fg.var(x)
    float count;  // sum of 1   own_cases.py  derived = fg.var(x)
    float mean_x_anchor;  // mean_x_total / count, or 0 where that is no usable number
    float derived;  // sum of x_minus_mean_x·x_minus_mean_x   own_cases.py  derived = fg.var(x)
    float sum_dev;  // sum of x_minus_mean_x   own_cases.py  derived = fg.var(x)
    WelfordMonoid<float> welford_state;  // welford   own_cases.py  own = fg.reduce(welford, x)
    MaxCountMonoid<float> max_count_state;  // max_count   own_cases.py  greatest, ties = fg.reduce(max_count, x)
};

// The state of no elements.
inline void identity(State& state)
{
    state.max_x = -fg::infinity;
    state.min_x = fg::infinity;
    state.mean_x_total = 0.0f;
    state.count = 0.0f;
    state.mean_x_anchor = 0.0f;
    state.derived = 0.0f;
    state.sum_dev = 0.0f;
    state.welford_state = WelfordMonoid<float>::identity();
    state.max_count_state = MaxCountMonoid<float>::identity();
}

// The sums of a state at other anchors. A sum that is 0 stays 0, whatever the factor.
inline void rebase(State& state, float mean_x_anchor)
{
    const float mean_x_shift = state.mean_x_anchor - mean_x_anchor;
    const float derived = state.derived + fg::zero_wins(mean_x_shift, 2.0f * state.sum_dev + fg::zero_wins(mean_x_shift, state.count));
    const float sum_dev = state.sum_dev + fg::zero_wins(mean_x_shift, state.count);
    state.derived = derived;
    state.sum_dev = sum_dev;
    state.mean_x_anchor = mean_x_anchor;
}

// state ⊕ part, into state; part is used up. With a and b for them:
//   max_x = max(a.max_x, b.max_x)
//   min_x = min(a.min_x, b.min_x)
//   mean_x_total = a.mean_x_total + b.mean_x_total
//   count = a.count + b.count
//   derived = a.derived + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + a.sum_dev·2·(a.mean_x - mean_x) + b.derived + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x) + b.sum_dev·2·(b.mean_x - mean_x)
//   sum_dev = a.count·(a.mean_x - mean_x) + a.sum_dev + b.count·(b.mean_x - mean_x) + b.sum_dev
//   welford_state = a.welford_state ⊕ b.welford_state of welford:
//     n = a.n + b.n
//     delta = b.mu - a.mu
//     share_ = where(n > 0, to_float(b.n) / to_float(n), 0)
//     mu = a.mu + delta·share_
//     m2 = a.m2 + b.m2 + square(delta)·to_float(a.n)·share_
//   max_count_state = a.max_count_state ⊕ b.max_count_state of max_count:
//     s0 = maximum(a.s0, b.s0)
//     s1 = where(a.s0 > b.s0, a.s1, where(b.s0 > a.s0, b.s1, a.s1 + b.s1))
inline void merge(State& state, State& part)
{
    const float mean_x_total = state.mean_x_total + part.mean_x_total;
    const float count = state.count + part.count;
    const float mean_x_anchor = fg::shift_anchor(mean_x_total / count);
    rebase(state, mean_x_anchor);
    rebase(part, mean_x_anchor);
    state.mean_x_total = mean_x_total;
    state.count = count;
    state.max_x = fg::greater_of(state.max_x, part.max_x);
    state.min_x = fg::lesser_of(state.min_x, part.min_x);
    state.derived += part.derived;
    state.sum_dev += part.sum_dev;
    state.welford_state = merge(state.welford_state, part.welford_state);
    state.max_count_state = merge(state.max_count_state, part.max_count_state);
}

// One chunk, columns [begin, end): a whole number of V.
template <typename V, bool in_runs = true>
inline void absorb(State& state, const Row& shared, int64_t begin, int64_t end)
{
    const Row row = shared;  // so that compilers see: no store changes it

    // 1. What each base monoid makes of the chunk.
    fg::highest<V> max_x_lanes;
    fg::lowest<V> min_x_lanes;
    fg::sums<V, 1, in_runs> mean_x_total_lanes;
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        const V x = fg::load<V>(row.x + col);
        max_x_lanes.take(x);  // own_cases.py  spread = fg.max(x) - fg.min(x)
        min_x_lanes.take(x);  // own_cases.py  spread = fg.max(x) - fg.min(x)
        mean_x_total_lanes += x;  // own_cases.py  derived = fg.var(x)
    }, mean_x_total_lanes);

    // 2. The new mean_x; the sums so far move there.
    const float max_x = fg::greater_of(state.max_x, max_x_lanes.across());
    const float min_x = fg::lesser_of(state.min_x, min_x_lanes.across());
    const float mean_x_total = state.mean_x_total + fg::total(mean_x_total_lanes.each());
    const float count = state.count + float(end - begin);
    const float mean_x_anchor = fg::shift_anchor(mean_x_total / count);
    if (mean_x_anchor != state.mean_x_anchor)
        rebase(state, mean_x_anchor);
    state.max_x = max_x;
    state.min_x = min_x;
    state.mean_x_total = mean_x_total;
    state.count = count;

    // 3. Sums relative to mean_x.
    fg::sums<V, 1, in_runs> derived_lanes;
    fg::sums<V, 1, in_runs> sum_dev_lanes;
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        const V x = fg::load<V>(row.x + col);
        const V x_minus_mean_x = x - mean_x_anchor;
        derived_lanes += x_minus_mean_x * x_minus_mean_x;  // own_cases.py  derived = fg.var(x)
        sum_dev_lanes += x_minus_mean_x;  // own_cases.py  derived = fg.var(x)
    }, derived_lanes, sum_dev_lanes);
    state.derived += fg::total(derived_lanes.each());
    state.sum_dev += fg::total(sum_dev_lanes.each());

    // 4. welford_state: every lane by itself, then the lanes.
    auto welford_state_lanes = WelfordMonoid<V>::identity();
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        const V x = fg::load<V>(row.x + col);
        WelfordMonoid<V> welford_state_item;
        welford_state_item.n = fg::all<fg::whole<V>>(1);
        welford_state_item.mu = x;
        welford_state_item.m2 = fg::all<V>(0.0f);  // own_cases.py  own = fg.reduce(welford, x)
        welford_state_lanes = merge(welford_state_lanes, welford_state_item);
    });
    for (int64_t lane = 0; lane < fg::width<V>; ++lane)
        state.welford_state = merge(state.welford_state, welford_state_lanes.lane(lane));

    // 5. max_count_state: every lane by itself, then the lanes.
    auto max_count_state_lanes = MaxCountMonoid<V>::identity();
    fg::each_whole<V>(begin, end, [&](int64_t col) {
        fg::prefetch(row.x + col + 2048);
        const V x = fg::load<V>(row.x + col);
        MaxCountMonoid<V> max_count_state_item;
        max_count_state_item.s0 = x;
        max_count_state_item.s1 = fg::all<fg::whole<V>>(1);  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
        max_count_state_lanes = merge(max_count_state_lanes, max_count_state_item);
    });
    for (int64_t lane = 0; lane < fg::width<V>; ++lane)
        state.max_count_state = merge(state.max_count_state, max_count_state_lanes.lane(lane));
}

// Columns [begin, end) of a row, chunk by chunk; what fills no vector comes last.
inline void fold(State& state, const Row& row, int64_t begin, int64_t end)
{
    constexpr int64_t chunk = 2048;
    const int64_t rest = end - (end - begin) % fg::width<fg::lanes>;
    for (; begin < rest; begin += chunk) {
        absorb<fg::lanes>(state, row, begin, rest - begin < chunk ? rest : begin + chunk);
    }
    if (rest < end)
        absorb<float>(state, row, rest, end);
}

// The row is folded: its values and results.
inline void finish(const State& state, const Row& row)
{
    const float welford_mu = state.welford_state.mu;  // own_cases.py  own = fg.reduce(welford, x)
    const float welford_m2 = state.welford_state.m2;  // own_cases.py  own = fg.reduce(welford, x)
    const int64_t welford_n = state.welford_state.n;  // own_cases.py  own = fg.reduce(welford, x)
    const float div = welford_m2 / float(welford_n);  // own_cases.py  project=lambda s: {"mean": s["mu"], "variance": s["m2"] / s["n"]},
    const int64_t ties_ = state.max_count_state.s1;  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    const float greatest_ = state.max_count_state.s0;  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    const float max_x = state.max_x;  // own_cases.py  spread = fg.max(x) - fg.min(x)
    const float min_x = state.min_x;  // own_cases.py  spread = fg.max(x) - fg.min(x)
    const float spread = max_x - min_x;  // own_cases.py  spread = fg.max(x) - fg.min(x)
    const float mean_x = state.mean_x_total / float(row.n_cols);  // own_cases.py  derived = fg.var(x)
    const float derived = std::isfinite(mean_x) ? state.derived / float(row.n_cols) : fg::nan;  // own_cases.py  derived = fg.var(x)
    fg::store(row.mean, welford_mu);  // own_cases.py  own = fg.reduce(welford, x)
    fg::store(row.variance, div);  // own_cases.py  project=lambda s: {"mean": s["mu"], "variance": s["m2"] / s["n"]},
    fg::store_int(row.ties_, ties_);  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    fg::store(row.greatest_, greatest_);  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    fg::store(row.spread, spread);  // own_cases.py  spread = fg.max(x) - fg.min(x)
    fg::store(row.derived, derived);  // own_cases.py  derived = fg.var(x)
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

}  // namespace statistics

}  // namespace

extern "C" {

// Memory that each thread needs: two states of the sweep that has the largest.
int64_t statistics_scratch_bytes(int64_t)
{
    using namespace statistics;
    return 2 * fg::largest_of<sweep_1::State>();
}

// Rows [first, last), with scratch memory.
void statistics_rows(const statistics::Arrays* arrays, int64_t first, int64_t last, void* scratch)
{
    using namespace statistics;
    for (int64_t r = first; r < last; ++r) {
        const Row row = row_of(*arrays, r);
        sweep_1::run(row, static_cast<sweep_1::State*>(scratch));
    }
}

int64_t statistics_state_bytes_1() { return sizeof(statistics::sweep_1::State); }

// Columns [begin, end) of a row into a state of their own.
void statistics_fold_1(const statistics::Arrays* arrays, int64_t r, int64_t begin, int64_t end, const void*, void* own_state)
{
    using namespace statistics;
    const Row row = row_of(*arrays, r);
    fg::apart<sweep_1::State>(own_state, [&](auto& state) {
        identity(state);
        sweep_1::fold(state, row, begin, end);
    });
}

// The pieces of a row, in order, into one, and its results.
void statistics_finish_1(const statistics::Arrays* arrays, int64_t r, int64_t pieces, void*, void* states)
{
    using namespace statistics;
    const Row row = row_of(*arrays, r);
    auto& state = *static_cast<sweep_1::State*>(states);
    for (int64_t piece = 1; piece < pieces; ++piece)
        merge(state, (&state)[piece]);
    sweep_1::finish(state, row);
}

}  // extern "C"
