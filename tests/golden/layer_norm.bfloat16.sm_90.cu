// layer_norm    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// Sweep 1    reads x
// State      (mean_x_total, count, mean_pow), of no elements (0, 0, 0)
// a ⊕ b      mean_x_total = a.mean_x_total + b.mean_x_total
//            count = a.count + b.count
//            mean_pow = a.mean_pow + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + b.mean_pow + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x)
// Sweep 2    reads x, weight, bias
// Proved     pointwise identity, read-out, cocycle, unit, known zero, range, conditioning
// Tree       chunks of 32, merged thread → warp → block → cluster
// Schedule   row per cluster of blocks in shared memory, 4 × 8 elements per thread and chunk, aligned loads, shared columns a chunk ahead
// Launch     layer_norm_kernel<<<blocks · n_rows, threads, 16 · slice>>>; threads % 32 = 0, ≤ 512; clusters of blocks; slice: vectors of a row that a block keeps
// Assumes    8 divides n_cols
//            rows of x, weight, bias, add_2 begin on 16 bytes
//            2^-126 ≤ eps ≤ 2^-13
//            n_cols ≤ 2^30
//            n_cols / 8 ≤ slice · blocks
// Bytes      reads each element once, writes once

#include <cuda_bf16.h>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/math/over_count.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/slice.cuh>
#include <fusegen/early.cuh>
#include <fusegen/store.cuh>
#include <fusegen/meet/cluster.cuh>

using namespace fusegen;

using Team = AnyBlock<512>;  // threads of a block, whose cluster owns a row
constexpr int kMostThreads = 512;  // of a block
constexpr int kVectors = 4, kWidth = 8;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
constexpr int kMostBlocks = 16;  // of a cluster
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kNaN __int_as_float(0x7fc00000)

// What sweep 1 keeps of a row.
struct State {
    float mean_x_total;  // sum of x   texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
    float count;  // sum of 1   texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
    float mean_pow;  // sum of x_minus_mean_x·x_minus_mean_x   texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)

    static __device__ __forceinline__ State identity() { return {0.0f, 0.0f, 0.0f}; }
    using Exchange = AboutPivots<Members<&State::mean_x_total, &State::count>, Members<&State::mean_pow>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b)
{
    return {a.mean_x_total + b.mean_x_total, a.count + b.count, 0.0f};
}

__device__ __forceinline__ float mean_x_anchor_of(const State& s) { return shift_anchor(over_count(s.mean_x_total, s.count)); }

// The sums of s, moved to the mean_x of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at)
{
    const float mean_x_shift = mean_x_anchor_of(s) - mean_x_anchor_of(at);
    State moved = at;
    moved.mean_pow = s.mean_pow + zero_wins(mean_x_shift, zero_wins(mean_x_shift, s.count));
    return moved;
}

// a ⊕ b:
//   mean_x_total = a.mean_x_total + b.mean_x_total
//   count = a.count + b.count
//   mean_pow = a.mean_pow + a.count·(a.mean_x - mean_x)·(a.mean_x - mean_x) + b.mean_pow + b.count·(b.mean_x - mean_x)·(b.mean_x - mean_x)
__device__ __forceinline__ State merge(const State& a, const State& b)
{
    State r = combine(a, b);
    const State a_moved = rebase(a, r), b_moved = rebase(b, r);
    r.mean_pow = a_moved.mean_pow + b_moved.mean_pow;
    return r;
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Items<__nv_bfloat16, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items.widened(i);
        chunk.mean_x_total += x;
        chunk.count += 1.0f;
    });
    const State next = combine(state, chunk);

    // Move the sums to the new mean_x, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float mean_x_anchor = mean_x_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items.widened(i);
        const float x_minus_mean_x = x - mean_x_anchor;
        state.mean_pow += x_minus_mean_x * x_minus_mean_x;
    });
}

// Sweep 2 makes outputs of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep2_map(
    Items<__nv_bfloat16, kCount>& add_2_items, const Items<__nv_bfloat16, kCount>& x_items,
    const Items<__nv_bfloat16, kCount>& weight_items, const Items<__nv_bfloat16, kCount>& bias_items,
    float mean_x, float rsqrt_, int live)
{
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items.widened(i);
        const float weight = weight_items.widened(i);
        const float bias = bias_items.widened(i);
        const float y = (x - mean_x) * rsqrt_ * weight;  // texts.py  y = y if weight is None else y * weight
        add_2_items.set(i, __float2bfloat16_rn(y + bias));  // texts.py  return y if bias is None else y + bias
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
layer_norm_kernel(
    const __nv_bfloat16* __restrict__ x, float eps, const __nv_bfloat16* __restrict__ weight_in,
    const __nv_bfloat16* __restrict__ bias_in, __nv_bfloat16* __restrict__ add_2_out,
    long long x_stride, long long add_2_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kMostBlocks * kMostThreads / 32];
    __cluster_barrier_arrive_relaxed();  // the blocks of the cluster are there, says the wait
    const int blocks = __clusterSizeInBlocks(), slice = __clusterRelativeBlockRank();
    const long long row = blockIdx.x / blocks;
    const __nv_bfloat16* x_row = x + row * x_stride;
    __nv_bfloat16* add_2_row = add_2_out + row * add_2_stride;
    const column_t n_vectors = n_cols / kWidth;
    const column_t share = (n_vectors + blocks - 1) / blocks;  // of vectors, for each block
    const column_t begin = slice * share;
    const column_t end = begin + share < n_vectors ? begin + share : n_vectors;
    extern __shared__ __align__(16) unsigned char slices[];
    __nv_bfloat16* x_slots = reinterpret_cast<__nv_bfloat16*>(slices);
    const column_t per_group = vectors_per_group<Team, kVectors>(end - begin);
    for (int group = 0; group < kGroups; ++group) {
        fetch_group<Layout>(x_slots, x_row, begin, end - begin, group * per_group, per_group);
        end_group();
    }

    // 1. Fold the slice.
    State folded1 = State::identity();
    for_arriving<Team, kVectors>(begin, end, rank, per_group, [&](column_t at, int live) {
        Items<__nv_bfloat16, kItems> x_items;
        read_items(x_items, x_slots, at - begin, live);
        sweep1_fold<kItems>(folded1, x_items, live);
    });
    Early<__nv_bfloat16, kVectors, Layout> weight_early;  // arrives while states meet
    weight_early.begin(weight_in, begin + rank, end);
    Early<__nv_bfloat16, kVectors, Layout> bias_early;  // arrives while states meet
    bias_early.begin(bias_in, begin + rank, end);
    __cluster_barrier_wait();
    const State state = cluster_reduce<Team>(folded1, warp_states1);
    const float mean_x = state.mean_x_total / static_cast<float>(n_cols);  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
    const float mean_pow = isfinite(mean_x) ? state.mean_pow / static_cast<float>(n_cols) : kNaN;  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
    const float add = mean_pow + eps;  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
    const float rsqrt_ = rsqrtf(add);  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)

    // 2. Map the slice, which is still here.
    for_chunks_early<Team, kVectors>(begin, end, rank, [&](column_t at, int live, bool whole) {
        auto weight_items = weight_early.chunk(weight_in, at, end, live, whole);
        auto bias_items = bias_early.chunk(bias_in, at, end, live, whole);
        Items<__nv_bfloat16, kItems> x_items;
        read_items(x_items, x_slots, at - begin, live);
        Items<__nv_bfloat16, kItems> add_2_items;
        sweep2_map<kItems>(add_2_items, x_items, weight_items, bias_items, mean_x, rsqrt_, live);
        store_items(add_2_row, add_2_items, at, live);
    });
}
