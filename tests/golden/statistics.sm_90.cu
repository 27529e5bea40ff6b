// statistics    own_cases.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
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
// Tree       chunks of 32, merged thread → warp
// Schedule   row per 32 lanes, 8 × 4 elements per thread and chunk, aligned loads
// Launch     statistics_kernel<<<⌈n_rows / 4⌉, 128>>>
// Assumes    4 divides n_cols
//            rows of x begin on 16 bytes
//            n_cols ≤ 2^30
// Bytes      reads each element once, writes 28 bytes a row

#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/lesser_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/square.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/math/over_count.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/meet/lanes.cuh>

using namespace fusegen;

using Team = Lanes<32>;  // lanes of a warp, which own a row
constexpr int kRowsPerBlock = 4;
constexpr int kMostThreads = 128;  // of a block
constexpr int kVectors = 8, kWidth = 4;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

// welford of own_cases.py.
struct WelfordMonoid {
    long long n;
    float mu;
    float m2;

    static __device__ __forceinline__ WelfordMonoid identity() { return {0, 0.0f, 0.0f}; }
    using Parts = Members<&WelfordMonoid::n, &WelfordMonoid::mu, &WelfordMonoid::m2>;
};

// a ⊕ b
__device__ __forceinline__ WelfordMonoid merge(const WelfordMonoid& a, const WelfordMonoid& b)
{
    const long long n = a.n + b.n;
    const float delta = b.mu - a.mu;
    const float share_ = (n > 0) ? static_cast<float>(b.n) / static_cast<float>(n) : 0.0f;
    WelfordMonoid r;
    r.n = n;
    r.mu = a.mu + delta * share_;
    r.m2 = a.m2 + b.m2 + square(delta) * static_cast<float>(a.n) * share_;
    return r;
}

// max_count of own_cases.py.
struct MaxCountMonoid {
    float s0;
    long long s1;

    static __device__ __forceinline__ MaxCountMonoid identity() { return {-kInfinity, 0}; }
    using Parts = Members<&MaxCountMonoid::s0, &MaxCountMonoid::s1>;
};

// a ⊕ b
__device__ __forceinline__ MaxCountMonoid merge(const MaxCountMonoid& a, const MaxCountMonoid& b)
{
    MaxCountMonoid r;
    r.s0 = greater_of(a.s0, b.s0);
    r.s1 = (a.s0 > b.s0) ? a.s1 : ((b.s0 > a.s0) ? b.s1 : a.s1 + b.s1);
    return r;
}

// What sweep 1 keeps of a row.
struct State {
    float max_x;  // max of x   own_cases.py  spread = fg.max(x) - fg.min(x)
    float min_x;  // min of x   own_cases.py  spread = fg.max(x) - fg.min(x)
    float mean_x_total;  // sum of x   own_cases.py  derived = fg.var(x)
    float count;  // sum of 1   own_cases.py  derived = fg.var(x)
    float derived;  // sum of x_minus_mean_x·x_minus_mean_x   own_cases.py  derived = fg.var(x)
    float sum_dev;  // sum of x_minus_mean_x   own_cases.py  derived = fg.var(x)
    WelfordMonoid welford_state;  // welford   own_cases.py  own = fg.reduce(welford, x)
    MaxCountMonoid max_count_state;  // max_count   own_cases.py  greatest, ties = fg.reduce(max_count, x)

    static __device__ __forceinline__ State identity()
    {
        return {
            -kInfinity, kInfinity, 0.0f, 0.0f, 0.0f, 0.0f, WelfordMonoid::identity(),
            MaxCountMonoid::identity(),
        };
    }
    using Exchange = SideBySide<&State::max_x, &State::min_x, &State::mean_x_total, &State::count,
        &State::derived, &State::sum_dev, &State::welford_state, &State::max_count_state>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b)
{
    return {
        greater_of(a.max_x, b.max_x), lesser_of(a.min_x, b.min_x), a.mean_x_total + b.mean_x_total,
        a.count + b.count, 0.0f, 0.0f, merge(a.welford_state, b.welford_state),
        merge(a.max_count_state, b.max_count_state),
    };
}

__device__ __forceinline__ float mean_x_anchor_of(const State& s) { return shift_anchor(over_count(s.mean_x_total, s.count)); }

// The sums of s, moved to the mean_x of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at)
{
    const float mean_x_shift = mean_x_anchor_of(s) - mean_x_anchor_of(at);
    State moved = at;
    moved.derived = s.derived + zero_wins(mean_x_shift, 2.0f * s.sum_dev + zero_wins(mean_x_shift, s.count));
    moved.sum_dev = s.sum_dev + zero_wins(mean_x_shift, s.count);
    return moved;
}

// a ⊕ b:
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
__device__ __forceinline__ State merge(const State& a, const State& b)
{
    State r = combine(a, b);
    const State a_moved = rebase(a, r), b_moved = rebase(b, r);
    r.derived = a_moved.derived + b_moved.derived;
    r.sum_dev = a_moved.sum_dev + b_moved.sum_dev;
    return r;
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Items<float, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        chunk.max_x = greater_of(chunk.max_x, x);
        chunk.min_x = lesser_of(chunk.min_x, x);
        chunk.mean_x_total += x;
        chunk.count += 1.0f;
        WelfordMonoid welford_state_item;
        welford_state_item.n = 1;
        welford_state_item.mu = x;
        welford_state_item.m2 = 0.0f;
        chunk.welford_state = merge(chunk.welford_state, welford_state_item);  // own_cases.py  own = fg.reduce(welford, x)
        MaxCountMonoid max_count_state_item;
        max_count_state_item.s0 = x;
        max_count_state_item.s1 = 1;
        chunk.max_count_state = merge(chunk.max_count_state, max_count_state_item);  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    });
    const State next = combine(state, chunk);

    // Move the sums to the new mean_x, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float mean_x_anchor = mean_x_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_mean_x = x - mean_x_anchor;
        state.derived += x_minus_mean_x * x_minus_mean_x;
        state.sum_dev += x_minus_mean_x;
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
statistics_kernel(
    const float* __restrict__ x, float* __restrict__ mean_out, float* __restrict__ variance_out,
    long long* __restrict__ ties__out, float* __restrict__ greatest__out,
    float* __restrict__ spread_out, float* __restrict__ derived_out, long long x_stride,
    long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x % Team::threads();  // of this thread in its team
    const int team = threadIdx.x / Team::threads();  // of this block
    const long long row = static_cast<long long>(blockIdx.x) * kRowsPerBlock + team;
    if (row >= n_rows) return;
    const float* x_row = x + row * x_stride;
    const column_t begin = 0, end = n_cols / kWidth;

    // 1. Fold the row.
    State folded1 = State::identity();
    for_chunks<Team, kVectors>(begin, end, rank, [&](column_t at, int live) {
        Items<float, kItems> x_items;
        load_items(x_items, x_row, at, live);
        sweep1_fold<kItems>(folded1, x_items, live);
    });
    const State state = lanes_reduce<Team::kThreads>(folded1);
    const float welford_mu = state.welford_state.mu;  // own_cases.py  own = fg.reduce(welford, x)
    const float welford_m2 = state.welford_state.m2;  // own_cases.py  own = fg.reduce(welford, x)
    const long long welford_n = state.welford_state.n;  // own_cases.py  own = fg.reduce(welford, x)
    const float div = welford_m2 / static_cast<float>(welford_n);  // own_cases.py  project=lambda s: {"mean": s["mu"], "variance": s["m2"] / s["n"]},
    const long long ties_ = state.max_count_state.s1;  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    const float greatest_ = state.max_count_state.s0;  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
    const float max_x = state.max_x;  // own_cases.py  spread = fg.max(x) - fg.min(x)
    const float min_x = state.min_x;  // own_cases.py  spread = fg.max(x) - fg.min(x)
    const float spread = max_x - min_x;  // own_cases.py  spread = fg.max(x) - fg.min(x)
    const float mean_x = state.mean_x_total / static_cast<float>(n_cols);  // own_cases.py  derived = fg.var(x)
    const float derived = isfinite(mean_x) ? state.derived / static_cast<float>(n_cols) : kNaN;  // own_cases.py  derived = fg.var(x)
    if (rank == 0) {
        mean_out[row] = welford_mu;  // own_cases.py  own = fg.reduce(welford, x)
        variance_out[row] = div;  // own_cases.py  project=lambda s: {"mean": s["mu"], "variance": s["m2"] / s["n"]},
        ties__out[row] = ties_;  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
        greatest__out[row] = greatest_;  // own_cases.py  greatest, ties = fg.reduce(max_count, x)
        spread_out[row] = spread;  // own_cases.py  spread = fg.max(x) - fg.min(x)
        derived_out[row] = derived;  // own_cases.py  derived = fg.var(x)
    }
}
