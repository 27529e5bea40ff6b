// logsumexp    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (max_x, sum_exp), of no elements (-inf, 0)
// a ⊕ b      max_x = max(a.max_x, b.max_x)
//            sum_exp = a.sum_exp·exp(a.max_x - max_x) + b.sum_exp·exp(b.max_x - max_x)
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference
// Tree       one element at a time, merged thread → warp → block
// Schedule   row per block, 1 × 1 elements per thread and chunk, aligned loads
// Launch     logsumexp_kernel<<<n_rows, 256>>>
// Assumes    n_cols ≤ 2^30
// Bytes      reads each element once, writes 4 bytes a row

#include <fusegen/math/exp_term.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/meet/block.cuh>

using namespace fusegen;

using Team = Block<256>;  // threads of a block, which owns a row
constexpr int kMostThreads = 256;  // of a block
constexpr int kVectors = 1, kWidth = 1;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

// What sweep 1 keeps of a row.
struct State {
    float max_x;  // max of x   texts.py  return fg.logsumexp(x)
    float sum_exp;  // sum of exp(x_minus_max_x)   texts.py  return fg.logsumexp(x)

    static __device__ __forceinline__ State identity() { return {-kInfinity, 0.0f}; }
    using Exchange = AboutPivots<Members<&State::max_x>, Members<&State::sum_exp>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b)
{
    return {greater_of(a.max_x, b.max_x), 0.0f};
}

__device__ __forceinline__ float max_x_anchor_of(const State& s) { return shift_anchor(s.max_x); }

// The sums of s, moved to the max_x of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at)
{
    const float max_x_shift = max_x_anchor_of(s) - max_x_anchor_of(at);
    State moved = at;
    moved.sum_exp = zero_wins(s.sum_exp, expf(max_x_shift));
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

    // Move the sums to the new max_x, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float max_x_anchor = max_x_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_max_x = x - max_x_anchor;
        state.sum_exp += exp_term(x_minus_max_x);
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
logsumexp_kernel(
    const float* __restrict__ x, float* __restrict__ where_out, long long x_stride, long long n_rows,
    long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kMostThreads / 32];
    const long long row = blockIdx.x;
    const float* x_row = x + row * x_stride;
    const column_t begin = 0, end = n_cols / kWidth;

    // 1. Fold the row.
    State folded1 = State::identity();
    for_chunks<Team, kVectors>(begin, end, rank, [&](column_t at, int live) {
        Items<float, kItems> x_items;
        load_items(x_items, x_row, at, live);
        sweep1_fold<kItems>(folded1, x_items, live);
    });
    const State state = block_reduce<Team>(folded1, warp_states1);
    const float max_x = state.max_x;  // texts.py  return fg.logsumexp(x)
    const bool isinf_ = isinf(max_x);  // texts.py  return fg.logsumexp(x)
    const float sum_exp = isfinite(max_x) ? state.sum_exp : kNaN;  // texts.py  return fg.logsumexp(x)
    const float log_ = logf(sum_exp);  // texts.py  return fg.logsumexp(x)
    const float add = max_x + log_;  // texts.py  return fg.logsumexp(x)
    const float where = isinf_ ? max_x : add;  // texts.py  return fg.logsumexp(x)
    if (rank == 0)
        where_out[row] = where;  // texts.py  return fg.logsumexp(x)
}
