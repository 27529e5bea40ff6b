// softmax_topk    texts.py
// form unfused, for sm_80; by fusegen 0.1.0, do not edit
//
// Sweep 1    reads x
// State      (m), of no elements (-inf)
// a ⊕ b      m = max(a.m, b.m)
// Sweep 2    reads x
// State      (sum_exp), of no elements (0)
// a ⊕ b      sum_exp = a.sum_exp + b.sum_exp
// Sweep 3    reads x
// Sweep 4    reads div_stored
// State      (top 5 of div_stored), of no elements (empty)
// a ⊕ b      top = best 5 of both lists
// Text       as written, nothing merged
// Tree       chunks of 16, merged thread → warp → block
// Schedule   row per block in registers, 4 × 4 elements per thread and chunk, aligned loads, lists collected
// Launch     softmax_topk_1_m_kernel<<<n_rows, 64>>>
//            softmax_topk_2_sum_exp_kernel<<<n_rows, 64>>>
//            softmax_topk_3_map_kernel<<<n_rows, 64>>>
//            softmax_topk_4_top_kernel<<<n_rows, 64>>>
// Assumes    4 divides n_cols
//            rows of x begin on 16 bytes
//            5 ≤ n_cols
//            n_cols ≤ 2^30
//            n_cols ≤ 64 · 16
// Bytes      reads each element 4 times (x, div_stored), writes once and 60 bytes a row

#include <fusegen/math/divisor.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/store.cuh>
#include <fusegen/topk/lane_keys.cuh>
#include <fusegen/topk/each_item.cuh>
#include <fusegen/topk/collected.cuh>
#include <fusegen/meet/block.cuh>

using namespace fusegen;

using Team = Block<64>;  // threads of a block, which owns a row
constexpr int kMostThreads = 64;  // of a block
constexpr int kVectors = 4, kWidth = 4;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)

using TopKeys = LaneKeys<FloatOrder<0>, column_t>;  // candidates for top

// What sweep 1 keeps of a row.
struct State1 {
    float m;  // max of x   texts.py  m = fg.max(x)

    static __device__ __forceinline__ State1 identity() { return {-kInfinity}; }
    using Exchange = AboutPivots<Members<&State1::m>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State1 combine(const State1& a, const State1& b) { return {greater_of(a.m, b.m)}; }

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State1& state, const Items<float, kCount>& x_items, int live)
{
    State1 chunk = State1::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        chunk.m = greater_of(chunk.m, x);
    });
    state = combine(state, chunk);
}

// What sweep 2 keeps of a row.
struct State2 {
    float sum_exp;  // sum of exp_   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))

    static __device__ __forceinline__ State2 identity() { return {0.0f}; }
    using Exchange = AboutPivots<Members<&State2::sum_exp>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State2 combine(const State2& a, const State2& b) { return {a.sum_exp + b.sum_exp}; }

// Sweep 2 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep2_fold(
    State2& state, const Items<float, kCount>& x_items, float m_kept, int live)
{
    State2 chunk = State2::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float exp_ = expf(x - m_kept);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        chunk.sum_exp += exp_;
    });
    state = combine(state, chunk);
}

// Sweep 3 makes outputs of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep3_map(
    Items<float, kCount>& div_stored_items, const Items<float, kCount>& x_items, float m_kept,
    float sum_exp_kept, int live)
{
    const Divisor sum_exp_kept_divisor(sum_exp_kept);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float exp_ = expf(x - m_kept);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        const float div = sum_exp_kept_divisor.under(exp_);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        div_stored_items.set(i, div);  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 20)
softmax_topk_1_m_kernel(
    const float* __restrict__ x, float* __restrict__ m_kept_out, long long x_stride,
    long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State1 warp_states1[kMostThreads / 32];
    const long long row = blockIdx.x;
    const float* x_row = x + row * x_stride;
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);

    // 1. Fold the row.
    State1 folded1 = State1::identity();
    Items<float, kItems> x_items;
    load_items(x_items, x_row, at, live);
    for_held<kVectors>(whole, live, [&](int live) { sweep1_fold<kItems>(folded1, x_items, live); });
    const State1 state = block_reduce<Team>(folded1, warp_states1);
    const float m = state.m;  // texts.py  m = fg.max(x)
    if (rank == 0)
        m_kept_out[row] = m;  // texts.py  m = fg.max(x)
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 20)
softmax_topk_2_sum_exp_kernel(
    const float* __restrict__ x, const float* __restrict__ m_kept_in,
    float* __restrict__ sum_exp_kept_out, long long x_stride, long long n_rows,
    long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State2 warp_states2[kMostThreads / 32];
    const long long row = blockIdx.x;
    const float* x_row = x + row * x_stride;
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);
    const float m_kept = m_kept_in[row];

    // 2. Fold the row.
    State2 folded2 = State2::identity();
    Items<float, kItems> x_items;
    load_items(x_items, x_row, at, live);
    for_held<kVectors>(whole, live, [&](int live) { sweep2_fold<kItems>(folded2, x_items, m_kept, live); });
    const State2 state = block_reduce<Team>(folded2, warp_states2);
    const float sum_exp = state.sum_exp;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    if (rank == 0)
        sum_exp_kept_out[row] = sum_exp;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 20)
softmax_topk_3_map_kernel(
    const float* __restrict__ x, const float* __restrict__ m_kept_in,
    const float* __restrict__ sum_exp_kept_in, float* __restrict__ div_stored_out,
    long long x_stride, long long div_stored_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    const long long row = blockIdx.x;
    const float* x_row = x + row * x_stride;
    float* div_stored_row = div_stored_out + row * div_stored_stride;
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);
    const float m_kept = m_kept_in[row];
    const float sum_exp_kept = sum_exp_kept_in[row];

    // 3. Map the row.
    Items<float, kItems> x_items;
    load_items(x_items, x_row, at, live);
    Items<float, kItems> div_stored_items;
    for_held<kVectors>(whole, live, [&](int live) {
        sweep3_map<kItems>(div_stored_items, x_items, m_kept, sum_exp_kept, live);
    });
    store_items(div_stored_row, div_stored_items, at, live);
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 20)
softmax_topk_4_top_kernel(
    const float* __restrict__ div_stored, float* __restrict__ values_out,
    long long* __restrict__ indices_out, long long div_stored_stride, long long n_rows,
    long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    const TopKeys top_keys{};
    __shared__ Collected<Team, TopKeys, 5, 48, 7> top_collected;
    TopKeys::Key* top_best = top_collected.best;
    const long long row = blockIdx.x;
    const float* div_stored_row = div_stored + row * div_stored_stride;
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);

    // 4. Search the row.
    const auto column_of = [&](int i) { return (at + i / kWidth * Team::threads()) * kWidth + i % kWidth; };
    Items<float, kItems> div_stored_items;
    load_items(div_stored_items, div_stored_row, at, live);
    const auto top_item = [&](int i) { return div_stored_items[i]; };
    const auto top_key = [&](column_t column) {
        const float div_stored = div_stored_row[column];
        return top_keys.key(div_stored, column);
    };
    const ItemPeaks<TopKeys, kVectors, kWidth, 1, 4> top_peaks(live, top_item);
    EachItem<TopKeys, kVectors, kWidth, false, decltype(top_item), decltype(column_of)> top_each(live, top_item, column_of);
    collect_best(top_collected, WholeRow<column_t>{n_cols}, end - begin, live, rank, column_t{-1}, top_peaks, top_each, top_key);
    if (const int entry = rank; entry < 5) {
        const auto top_entry = top_best[entry];
        const auto top_value = top_keys.value(top_entry);
        const column_t top_column = top_keys.column(top_entry);
        values_out[row * 5 + entry] = top_value;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        indices_out[row * 5 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
}
