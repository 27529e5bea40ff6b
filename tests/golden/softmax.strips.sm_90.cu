// softmax    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// Sweep 1    reads x
// State      (m, sum_exp), of no elements (-inf, 0)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
// Sweep 2    reads x
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference
// Tree       chunks of 16, merged thread → warp → block → cluster
// Schedule   strips of 32 neighbouring rows per cluster of 4 blocks, 16 vectors of a thread in registers, 16 vectors of a thread in shared memory, chunks of 4 columns × 4 rows
// Launch     softmax_kernel<<<blocks · n_rows / n_inner · ⌈n_inner / 32⌉, 256, 65536>>>; clusters of blocks
// Assumes    4 divides n_inner
//            rows of x, div begin on 16 bytes
//            n_cols ≤ 2^30
//            n_cols ≤ 1024 · blocks
// Bytes      reads each element once, writes once

#include <fusegen/math/divisor.cuh>
#include <fusegen/math/exp_term.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/strip/walk.cuh>
#include <fusegen/strip/held.cuh>
#include <fusegen/strip/stash.cuh>
#include <fusegen/strip/store.cuh>
#include <fusegen/meet/strip/cluster.cuh>

using namespace fusegen;

constexpr int kThreads = 256;  // of a block
constexpr int kResident = 2;  // blocks that a multiprocessor takes at once
constexpr int kBlocks = 4;  // that share a strip of neighbouring rows
constexpr int kAcross = 8;  // threads side by side
constexpr int kWidth = 4;  // neighbouring rows of a thread: a vector has an element of each
using Team = Strip<kThreads, kBlocks, kAcross, kWidth>;
constexpr int kVectors = 4;  // of a thread's chunk
constexpr int kMapped = 2;  // the same on the way from the chip to memory
constexpr int kHeld = 16;  // vectors that a thread keeps in registers
constexpr int kStash = 16;  // and the next ones, in shared memory
constexpr int kGroups = 4;  // of copies on their way there
constexpr int kPerGroup = kStash / kGroups;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

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
    moved.sum_exp = zero_wins(s.sum_exp, expf(m_shift));
    return moved;
}

// a ⊕ b:
//   m = max(a.m, b.m)
//   sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
__device__ __forceinline__ State merge(const State& a, const State& b)
{
    State r = combine(a, b);
    const State a_moved = rebase(a, r), b_moved = rebase(b, r);
    r.sum_exp = a_moved.sum_exp + b_moved.sum_exp;
    return r;
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Along<float, kCount, Layout>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, 1>(live, [&](int i) {
        const float x = x_items[i];
        chunk.m = greater_of(chunk.m, x);
    });
    const State next = combine(state, chunk);

    // Move the sums to the new m, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float m_anchor = m_anchor_of(state);
    for_items<kCount, 1>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_m = x - m_anchor;
        state.sum_exp += exp_term(x_minus_m);
    });
}

// Sweep 2 makes outputs of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep2_map(
    const Along<float, kCount, Layout>& div_items, const Along<float, kCount, Layout>& x_items,
    float m, const Divisor& sum_exp_divisor, int live)
{
    for_items<kCount, 1>(live, [&](int i) {
        const float x = x_items[i];
        div_items.set(i, sum_exp_divisor.under(expf(x - m)));  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

// Where a thread's rows begin, and where their columns end: at 0 if there are none.
struct Place {
    long long outer, inner;
    column_t end;
};

// What is known of a row.
struct Row {
    float m;
    Divisor sum_exp_divisor;
};

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
softmax_kernel(
    const float* __restrict__ x, float* __restrict__ div_out, long long x_outer_stride,
    long long x_stride, long long div_outer_stride, long long div_stride, long long n_rows,
    long long n_cols_wide, long long n_inner)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    __shared__ State pieces1[Team::kPieces][Team::kRows], totals1[Team::kRows], parts1[kBlocks][Team::kRows];
    __cluster_barrier_arrive_relaxed();  // the blocks of the cluster are there, says the wait
    // Threads side by side own neighbouring rows; the others go down the reduced axis with them.
    const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
    const int slice = blockIdx.x % kBlocks;
    const long long strips = (n_inner + Team::kRows - 1) / Team::kRows;  // of one outer index
    const column_t first = slice * Team::kDown + down;
    const auto place_of = [&](long long strip) {
        const long long outer = strip / strips, inner = strip % strips * Team::kRows + across * kWidth;
        return Place{outer, inner, inner < n_inner ? n_cols : 0};
    };
    const long long strip = blockIdx.x / kBlocks;
    const Place place = place_of(strip);
    const int first_live = live_vectors<Team, kHeld>(first, place.end);
    Items<float, kHeld * kWidth> x_held;
    load_items(x_held, x + place.outer * x_outer_stride + place.inner, x_stride, first, first_live);
    extern __shared__ __align__(16) unsigned char stash[];
    float* x_stash = reinterpret_cast<float*>(stash) + threadIdx.x * kWidth;
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
        fetch_group<Layout, kPerGroup>(x_stash, x + place.outer * x_outer_stride + place.inner, x_stride, first + kHeld * Team::threads(), place.end, group);
        end_group();
    }
    const column_t end = place.end;
    const bool mine = end > 0;  // are there rows for this thread?
    float* div_rows = div_out + place.outer * div_outer_stride + place.inner;
    const int held_live = live_vectors<Team, kHeld>(first, end);
    Row rows[kWidth] = {};

    // 1. Go down the strip.
    State folded1[kWidth];
#pragma unroll
    for (int r = 0; r < kWidth; ++r) folded1[r] = State::identity();
    for_some<kHeld>(held_live, [&](int live) {
        auto& x_items = x_held;
#pragma unroll
        for (int r = 0; r < kWidth; ++r)
            sweep1_fold<kHeld>(folded1[r], along(x_items, r), live);
    });
#pragma unroll 1
    for (int slot = 0; slot < kStash; slot += kVectors) {
        if (slot % kPerGroup == 0) await_group<kGroups>();
        const column_t at = first + (kHeld + slot) * Team::threads();
        for_some<kVectors>(live_vectors<Team, kVectors>(at, end), [&](int live) {
            Items<float, kVectors * kWidth> x_items;
            read_stash(x_items, x_stash, slot, live);
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep1_fold<kVectors>(folded1[r], along(x_items, r), live);
        });
    }
    __cluster_barrier_wait();
    strip_reduce_cluster<Team>(folded1, pieces1, totals1, parts1, slice);
#pragma unroll
    for (int r = 0; r < kWidth; ++r) {
        if (!mine) break;
        const State& state = totals1[across * kWidth + r];
        const float m = state.m;  // texts.py  m = fg.max(x)
        const float sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        const Divisor sum_exp_divisor(sum_exp);
        rows[r].m = m;
        rows[r].sum_exp_divisor = sum_exp_divisor;
    }

    // 2. Go down the strip, which is still here.
#pragma unroll
    for (int slot = 0; slot < kHeld; slot += kMapped) {
        const column_t at = first + slot * Team::threads();
        for_some<kMapped>(live_vectors<Team, kMapped>(at, end), [&](int live) {
            Items<float, kMapped * kWidth> x_items;
            read_held(x_items, x_held, slot, live);
            Items<float, kMapped * kWidth> div_items;
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep2_map<kMapped>(along(div_items, r), along(x_items, r), rows[r].m, rows[r].sum_exp_divisor, live);
            store_items(div_rows, div_stride, div_items, at, live);
        });
    }
#pragma unroll 1
    for (int slot = 0; slot < kStash; slot += kMapped) {
        const column_t at = first + (kHeld + slot) * Team::threads();
        for_some<kMapped>(live_vectors<Team, kMapped>(at, end), [&](int live) {
            Items<float, kMapped * kWidth> x_items;
            read_stash(x_items, x_stash, slot, live);
            Items<float, kMapped * kWidth> div_items;
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep2_map<kMapped>(along(div_items, r), along(x_items, r), rows[r].m, rows[r].sum_exp_divisor, live);
            store_items(div_rows, div_stride, div_items, at, live);
        });
    }
}
