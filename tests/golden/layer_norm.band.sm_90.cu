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
// Tree       chunks of 12, merged thread → warp
// Schedule   row per 4 lanes in registers, 128 rows at a time through shared memory, 12 × 1 elements per thread and chunk, scalar loads
// Launch     layer_norm_kernel<<<⌈n_rows / 128⌉, 128, 28672>>>
// Assumes    2^-126 ≤ eps ≤ 2^-13
//            n_cols ≤ 2^30
//            44 ≤ n_cols ≤ 4 · 12
// Bytes      reads each element once, writes once

#include <cuda_fp16.h>
#include <fusegen/math/over_count.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/band.cuh>
#include <fusegen/meet/lanes.cuh>

using namespace fusegen;

using Team = Lanes<4>;  // lanes of a warp, which own a row
constexpr int kRowsPerBlock = 32;
constexpr int kMostThreads = 128;  // of a block
constexpr int kVectors = 12, kWidth = 1;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
// Rows that a block brings to shared memory together, and columns that they may have.
constexpr int kBandRows = 128, kBandColumns = 48;
template <typename T> using RowBand = Band<T, kBandRows, kBandColumns, kMostThreads>;
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
    using Exchange = AboutPivots<Members<&State::mean_x_total>, Members<&State::mean_pow>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b)
{
    return {a.mean_x_total + b.mean_x_total, a.count + b.count, 0.0f};
}

__device__ __forceinline__ float mean_x_anchor_of(const State& s) { return over_count(s.mean_x_total, s.count); }

// Sweep 1 folds what needs no pivot of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Items<__half, kCount>& x_items, int live)
{
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = __half2float(x_items[i]);
        state.mean_x_total += x;
    });
}

// Sweep 1 makes the sums about mean_x of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_lift(
    State& state, const Items<__half, kCount>& x_items, int live)
{
    const float mean_x_anchor = mean_x_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = __half2float(x_items[i]);
        const float x_minus_mean_x = x - mean_x_anchor;
        state.mean_pow += x_minus_mean_x * x_minus_mean_x;
    });
}

// Sweep 2 makes outputs of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep2_map(
    Items<__half, kCount>& add_2_items, const Items<__half, kCount>& x_items,
    const Items<__half, kCount>& weight_items, const Items<__half, kCount>& bias_items, float mean_x,
    float rsqrt_, int live)
{
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = __half2float(x_items[i]);
        const float weight = __half2float(weight_items[i]);
        const float bias = __half2float(bias_items[i]);
        const float y = (x - mean_x) * rsqrt_ * weight;  // texts.py  y = y if weight is None else y * weight
        add_2_items.set(i, __float2half_rn(y + bias));  // texts.py  return y if bias is None else y + bias
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
layer_norm_kernel(
    const __half* __restrict__ x, float eps, const __half* __restrict__ weight_in,
    const __half* __restrict__ bias_in, __half* __restrict__ add_2_out, long long x_stride,
    long long add_2_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x % Team::threads();  // of this thread in its team
    const int team = threadIdx.x / Team::threads();  // of this block
    extern __shared__ __align__(16) unsigned char bands[];
    const long long band = static_cast<long long>(blockIdx.x) * kBandRows;  // the first of its rows
    const int band_rows = static_cast<int>(n_rows - band < kBandRows ? n_rows - band : kBandRows);
    const RowBand<const __half> x_band{bands, x + band * x_stride, x_stride, static_cast<int>(n_cols)};
    const RowBand<__half> add_2_band{x_band.slots + x_band.kBytes, add_2_out + band * add_2_stride, add_2_stride, static_cast<int>(n_cols)};
    x_band.fetch(band_rows, band, n_rows - band - band_rows);
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = begin + rank;
    const int live = kVectors - 1 + (at + (kVectors - 1) * Team::threads() < end);
    Items<__half, kItems> weight_items;
    load_items(weight_items, weight_in, at, live);
    Items<__half, kItems> bias_items;
    load_items(bias_items, bias_in, at, live);
    end_group();
    await_group<1>();
    __syncthreads();
#pragma unroll 1
    for (int step = 0; step * kRowsPerBlock < band_rows; ++step) {
        // Lanes without a row of their own go along with the last one and write nothing.
        const int mine = step * kRowsPerBlock + team;  // of the band
        const int here = mine < band_rows ? mine : band_rows - 1;
        const __half* x_row = x_band.row(here);
        __half* add_2_row = add_2_band.row(here);
        Items<__half, kItems> x_items;
        load_items(x_items, x_row, at, live);

        // 1. Fold the row.
        State state = State::identity();
        sweep1_fold<kItems>(state, x_items, live);
        state = State::Exchange::known<Team::kThreads>(state);
        state.count = static_cast<float>(n_cols);
        sweep1_lift<kItems>(state, x_items, live);
        State::Exchange::sums<1, Team::kThreads>(state);
        const float mean_x = state.mean_x_total / static_cast<float>(n_cols);  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
        const float mean_pow = isfinite(mean_x) ? state.mean_pow / static_cast<float>(n_cols) : kNaN;  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
        const float add = mean_pow + eps;  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)
        const float rsqrt_ = rsqrtf(add);  // texts.py  y = (x - fg.mean(x)) * fg.rsqrt(fg.var(x) + eps)

        // 2. Map the row, which is still here.
        Items<__half, kItems> add_2_items;
        sweep2_map<kItems>(add_2_items, x_items, weight_items, bias_items, mean_x, rsqrt_, live);
        keep_items(add_2_row, add_2_items, at, mine < band_rows ? live : 0);
    }
    __syncthreads();
    add_2_band.put(band_rows);
}
