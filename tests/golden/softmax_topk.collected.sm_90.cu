// softmax_topk    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 64 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 64 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       chunks of 48, merged thread → warp → block
// Schedule   row per block in registers, 6 × 8 elements per thread and chunk, aligned loads, lists collected
// Launch     softmax_topk_kernel<<<n_rows, 128>>>
// Assumes    8 divides n_cols
//            rows of x begin on 16 bytes
//            64 ≤ n_cols
//            n_cols ≤ 2^30
//            n_cols ≤ 128 · 48
// Bytes      reads each element once, writes 640 bytes a row

#include <cuda_bf16.h>
#include <fusegen/math/divisor.cuh>
#include <fusegen/math/exp_term.cuh>
#include <fusegen/math/exp_narrow.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/pairs/bfloat16.cuh>
#include <fusegen/pairs/items.cuh>
#include <fusegen/topk/pair_keys.cuh>
#include <fusegen/topk/each_pair.cuh>
#include <fusegen/topk/collected.cuh>
#include <fusegen/meet/block.cuh>

using namespace fusegen;

using Team = Block<128>;  // threads of a block, which owns a row
constexpr int kMostThreads = 128;  // of a block
constexpr int kVectors = 6, kWidth = 8;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

using TopKeys = PairKeys<__nv_bfloat16, column_t>;  // candidates for top

// What sweep 1 keeps of a row.
struct State {
    float m;  // max of x   texts.py  m = fg.max(x)
    float sum_exp;  // sum of exp(x_minus_m)   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))

    static __device__ __forceinline__ State identity() { return {-kInfinity, 0.0f}; }
    using Exchange = AboutPivots<Members<&State::m>, Members<&State::sum_exp>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b) { return {greater_of(a.m, b.m), 0.0f}; }

__device__ __forceinline__ float m_anchor_of(const State& s) { return shift_anchor(s.m); }

// The sums of s, moved to the m of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at)
{
    const float m_shift = m_anchor_of(s) - m_anchor_of(at);
    State moved = at;
    moved.sum_exp = zero_wins(s.sum_exp, exp_narrow(m_shift));
    return moved;
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Items<__nv_bfloat16, kCount>& x_items, int live)
{
    State chunk = State::identity();
    chunk.m = greatest_item(x_items, live);
    const State next = combine(state, chunk);

    // Move the sums to the new m, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float m_anchor = m_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items.widened(i);
        const float x_minus_m = x - m_anchor;
        state.sum_exp += exp_term(x_minus_m);
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 10)
softmax_topk_kernel(
    const __nv_bfloat16* __restrict__ x, __nv_bfloat16* __restrict__ values_out,
    long long* __restrict__ indices_out, long long x_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kMostThreads / 32];
    const TopKeys top_keys{};
    __shared__ Collected<Team, TopKeys, 64, 200, 8> top_collected;
    TopKeys::Key* top_best = top_collected.best;
    const long long row = blockIdx.x;
    const __nv_bfloat16* x_row = x + row * x_stride;
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);

    // 1. Fold the row.
    State folded1 = State::identity();
    const auto column_of = [&](int i) { return (at + i / kWidth * Team::threads()) * kWidth + i % kWidth; };
    Items<__nv_bfloat16, kItems> x_items;
    load_items(x_items, x_row, at, live);
    for_held<kVectors>(whole, live, [&](int live) { sweep1_fold<kItems>(folded1, x_items, live); });
    const auto top_key = [&](column_t column) { return TopKeys::key(x_row[column], column); };
    const PairPeaks<TopKeys, __nv_bfloat16, kItems, Layout, 2, 6> top_peaks(x_items, live);
    EachPair<TopKeys, __nv_bfloat16, kItems, Layout, false, decltype(column_of)> top_each(x_items, live, column_of);
    collect_best(top_collected, WholeRow<column_t>{n_cols}, end - begin, live, rank, column_t{-1}, top_peaks, top_each, top_key);
    const State state = block_reduce<Team>(folded1, warp_states1);
    const float m = state.m;  // texts.py  m = fg.max(x)
    const float sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    if (const int entry = rank; entry < 64) {
        const auto top_entry = top_best[entry];
        const auto top_value = top_keys.value(top_entry);
        const column_t top_column = top_keys.column(top_entry);
        const NearDivisor sum_exp_divisor(sum_exp);
        values_out[row * 64 + entry] = __float2bfloat16_rn(sum_exp_divisor.under(exp_narrow(top_value - m)));  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        indices_out[row * 64 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
}
