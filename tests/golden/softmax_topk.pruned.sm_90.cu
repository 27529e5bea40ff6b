// softmax_topk    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 8 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 8 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       chunks of 64, merged thread → warp
// Schedule   row per 8 lanes in registers, 8 × 8 elements per thread and chunk, aligned loads, lists sorted
// Launch     softmax_topk_kernel<<<⌈n_rows / 16⌉, 128>>>
// Assumes    8 divides n_cols
//            rows of x begin on 16 bytes
//            8 ≤ n_cols
//            n_cols ≤ 2^30
//            n_cols ≤ 8 · 64
// Bytes      reads each element once, writes 80 bytes a row

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
#include <fusegen/topk/sorted.cuh>
#include <fusegen/meet/lanes.cuh>

using namespace fusegen;

using Team = Lanes<8>;  // lanes of a warp, which own a row
constexpr int kRowsPerBlock = 16;
constexpr int kMostThreads = 128;  // of a block
constexpr int kVectors = 8, kWidth = 8;  // a thread's chunk: so many vectors of so many neighbours
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

extern "C" __global__ void __launch_bounds__(kMostThreads)
softmax_topk_kernel(
    const __nv_bfloat16* __restrict__ x, __nv_bfloat16* __restrict__ values_out,
    long long* __restrict__ indices_out, long long x_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x % Team::threads();  // of this thread in its team
    const int team = threadIdx.x / Team::threads();  // of this block
    const TopKeys top_keys{};
    TopKeys::Key top_own[1];  // this lane's entry
    // Lanes without a row of their own go along with the last one and write nothing.
    const long long mine = static_cast<long long>(blockIdx.x) * kRowsPerBlock + team;
    const long long row = mine < n_rows ? mine : n_rows - 1;
    const __nv_bfloat16* x_row = x + row * x_stride;
    const column_t begin = 0, end = mine < n_rows ? n_cols / kWidth : 0;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);

    // 1. Fold the row.
    State folded1 = State::identity();
    Items<__nv_bfloat16, kItems> x_items;
    load_items(x_items, x_row, at, live);
    for_held<kVectors>(whole, live, [&](int live) { sweep1_fold<kItems>(folded1, x_items, live); });
    // The best 8 for top lie in the 8 vectors with the best peaks: only these are sorted.
    const auto top_peak_of = [&](int vector) {
        unsigned peak = x_items.word[vector * kWidth / 2];
#pragma unroll
        for (int item = 2; item < kWidth; item += 2) peak = top_keys.greater(peak, x_items.word[(vector * kWidth + item) / 2]);
        return top_keys.peak(peak, at + vector * Team::kThreads);
    };
    const auto top_vector_at = [&](TopKeys::Key (&found)[kWidth], column_t at) {
        const auto column_of = [&](int i) { return at * kWidth + i; };
        Items<__nv_bfloat16, kWidth> x_items;
        load_items(x_items, x_row, at, 1);
#pragma unroll
        for (int item = 0; item < kWidth; item += 2) {
            top_keys.keys(x_items.word[item / 2], column_of(item), found[item], found[item + 1]);
        }
    };
    best_of_peaks<Team::kThreads, kVectors, kWidth, TopKeys, 8, false>(top_own, live, rank, 0, top_peak_of, top_vector_at);
    give_out<Team::kThreads>(top_own, rank);
    const State state = lanes_reduce<Team::kThreads>(folded1);
    if (mine < n_rows) {
        const float m = state.m;  // texts.py  m = fg.max(x)
        const float sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        {
            const int entry = rank;
            const auto top_entry = top_own[0];
            const auto top_value = top_keys.value(top_entry);
            const column_t top_column = top_keys.column(top_entry);
            const NearDivisor sum_exp_divisor(sum_exp);
            values_out[row * 8 + entry] = __float2bfloat16_rn(sum_exp_divisor.under(exp_narrow(top_value - m)));  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
            indices_out[row * 8 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        }
    }
}
