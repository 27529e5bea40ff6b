// softmax_weighted_variance    algebra_cases.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (max_x, sum_exp, sum_exp_x, sum_dev2_exp, sum_dev_exp), of no elements (-inf, 0, 0, 0, 0)
// a ⊕ b      max_x = max(a.max_x, b.max_x)
//            sum_exp = a.sum_exp·exp(a.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)
//            sum_exp_x = a.sum_exp_x·exp(a.max_x - max_x) + b.sum_exp_x·exp(b.max_x - max_x)
//            sum_dev2_exp = a.sum_dev2_exp·exp(a.max_x - max_x) + a.sum_dev_exp·2·exp(a.max_x - max_x)·(a.nu - nu) + a.sum_exp·exp(a.max_x - max_x)·(a.nu - nu)·(a.nu - nu) + b.sum_dev2_exp·exp(b.max_x - max_x) + b.sum_dev_exp·2·exp(b.max_x - max_x)·(b.nu - nu) + b.sum_exp·exp(b.max_x - max_x)·(b.nu - nu)·(b.nu - nu)
//            sum_dev_exp = a.sum_dev_exp·exp(a.max_x - max_x) + a.sum_exp·exp(a.max_x - max_x)·(a.nu - nu) + b.sum_dev_exp·exp(b.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)·(b.nu - nu)
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, known zero
// Tree       chunks of 32, merged thread → warp
// Schedule   row per 32 lanes, 8 × 4 elements per thread and chunk, aligned loads
// Launch     softmax_weighted_variance_kernel<<<⌈n_rows / 4⌉, 128>>>
// Assumes    4 divides n_cols
//            rows of x begin on 16 bytes
//            n_cols ≤ 2^30
// Bytes      reads each element once, writes 4 bytes a row

#include <fusegen/math/exp_term.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/zeros_win.cuh>
#include <fusegen/math/shift_anchor.cuh>
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

// What sweep 1 keeps of a row.
struct State {
    float max_x;  // max of x   algebra_cases.py  m = fg.max(x)
    float sum_exp;  // sum of exp(x_minus_max_x)   algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    float sum_exp_x;  // sum of x·exp(x_minus_max_x)   algebra_cases.py  nu = fg.sum(y * x)
    float sum_dev2_exp;  // sum of exp(x_minus_max_x)·x_minus_nu·x_minus_nu   algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
    float sum_dev_exp;  // sum of exp(x_minus_max_x)·x_minus_nu   algebra_cases.py  return fg.sum(y * (x - nu) ** 2)

    static __device__ __forceinline__ State identity() { return {-kInfinity, 0.0f, 0.0f, 0.0f, 0.0f}; }
    using Exchange = AboutPivots<Members<&State::max_x>, Members<&State::sum_exp, &State::sum_exp_x>,
        Members<&State::sum_dev2_exp, &State::sum_dev_exp>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b)
{
    return {greater_of(a.max_x, b.max_x), 0.0f, 0.0f, 0.0f, 0.0f};
}

__device__ __forceinline__ float max_x_anchor_of(const State& s) { return shift_anchor(s.max_x); }

// The sums of s, moved to the max_x of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at, Level<1>)
{
    const float max_x_shift = max_x_anchor_of(s) - max_x_anchor_of(at);
    State moved = at;
    moved.sum_exp = zero_wins(s.sum_exp, expf(max_x_shift));
    moved.sum_exp_x = zeros_win(s.sum_exp_x, expf(max_x_shift));
    return moved;
}

__device__ __forceinline__ float nu_anchor_of(const State& s) { return shift_anchor(__fdividef(s.sum_exp_x, s.sum_exp)); }

// The sums of s, moved to the max_x and nu of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at, Level<2>)
{
    const float max_x_shift = max_x_anchor_of(s) - max_x_anchor_of(at);
    const float nu_shift = nu_anchor_of(s) - nu_anchor_of(at);
    State moved = at;
    moved.sum_dev2_exp = zeros_win(s.sum_dev2_exp, expf(max_x_shift)) + zeros_win(s.sum_dev_exp, 2.0f * zero_wins(expf(max_x_shift), nu_shift)) + zeros_win(s.sum_exp, zero_wins(expf(max_x_shift), nu_shift * nu_shift));
    moved.sum_dev_exp = zeros_win(s.sum_dev_exp, expf(max_x_shift)) + zeros_win(s.sum_exp, zero_wins(expf(max_x_shift), nu_shift));
    return moved;
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
    });
    const State next = combine(state, chunk);
    const State before = state;

    // Move the sums to the new max_x, once a chunk, and add the chunk's.
    state = rebase(before, next, Level<1>{});
    const float max_x_anchor = max_x_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_max_x = x - max_x_anchor;
        state.sum_exp += exp_term(x_minus_max_x);
        state.sum_exp_x += x * exp_term(x_minus_max_x);
    });

    // Move the sums to the new max_x and nu, once a chunk, and add the chunk's.
    state = rebase(before, state, Level<2>{});
    const float nu_anchor = nu_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_max_x = x - max_x_anchor;
        const float x_minus_nu = x - nu_anchor;
        state.sum_dev2_exp += zero_wins(exp_term(x_minus_max_x), x_minus_nu * x_minus_nu);
        state.sum_dev_exp += zero_wins(exp_term(x_minus_max_x), x_minus_nu);
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
softmax_weighted_variance_kernel(
    const float* __restrict__ x, float* __restrict__ sum_mul_out, long long x_stride,
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
    const float max_x = state.max_x;  // algebra_cases.py  m = fg.max(x)
    const float sum_exp = isfinite(max_x) ? state.sum_exp : kNaN;  // algebra_cases.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    const float nu = isfinite(max_x) ? state.sum_exp_x / sum_exp : kNaN;  // algebra_cases.py  nu = fg.sum(y * x)
    const float sum_mul = (isfinite(max_x) & isfinite(nu)) ? state.sum_dev2_exp / sum_exp : kNaN;  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
    if (rank == 0)
        sum_mul_out[row] = sum_mul;  // algebra_cases.py  return fg.sum(y * (x - nu) ** 2)
}
