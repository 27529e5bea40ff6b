// softmax_topk    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 5 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 5 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       chunks of 32, merged thread → warp → block → cluster
// Schedule   row per cluster of blocks in registers, 8 × 4 elements per thread and chunk, aligned loads, lists collected
// Launch     softmax_topk_kernel<<<blocks · n_rows, 512, 14656>>>; clusters of blocks
// Assumes    4 divides n_cols
//            rows of x begin on 16 bytes
//            5 ≤ n_cols
//            n_cols ≤ 2^30
//            n_cols ≤ 512 · 32 · blocks
// Bytes      reads each element once, writes 60 bytes a row

#include <fusegen/math/divisor.cuh>
#include <fusegen/math/exp_term.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/topk/lane_keys.cuh>
#include <fusegen/topk/each_item.cuh>
#include <fusegen/topk/collected_cluster.cuh>
#include <fusegen/meet/cluster.cuh>

using namespace fusegen;

using Team = Block<512>;  // threads of a block, whose cluster owns a row
constexpr int kMostThreads = 512;  // of a block
constexpr int kVectors = 8, kWidth = 4;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
constexpr int kBlocks = 8;  // of a cluster
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

using TopKeys = LaneKeys<FloatOrder<0>, column_t>;  // candidates for top

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
//   top = best 5 of both lists
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
    State& state, const Items<float, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        chunk.m = greater_of(chunk.m, x);
    });
    const State next = combine(state, chunk);

    // Move the sums to the new m, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float m_anchor = m_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_m = x - m_anchor;
        state.sum_exp += exp_term(x_minus_m);
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 2)
softmax_topk_kernel(
    const float* __restrict__ x, float* __restrict__ values_out, long long* __restrict__ indices_out,
    long long x_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kBlocks + kMostThreads / 32];
    const TopKeys top_keys{};
    extern __shared__ __align__(16) unsigned char list_memory[];
    auto& top_collected = *reinterpret_cast<CollectedCluster<Team, TopKeys, 5, 528, 10, kBlocks>*>(list_memory);
    TopKeys::Key* top_best = top_collected.best;
    __cluster_barrier_arrive_relaxed();  // the blocks of the cluster are there, says the wait
    const int blocks = __clusterSizeInBlocks(), slice = __clusterRelativeBlockRank();
    const long long row = blockIdx.x / blocks;
    const float* x_row = x + row * x_stride;
    const column_t n_vectors = n_cols / kWidth;
    const column_t share = (n_vectors + blocks - 1) / blocks;  // of vectors, for each block
    const column_t begin = slice * share;
    const column_t end = begin + share < n_vectors ? begin + share : n_vectors;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);

    // 1. Fold the slice.
    State folded1 = State::identity();
    const auto column_of = [&](int i) { return (at + i / kWidth * Team::threads()) * kWidth + i % kWidth; };
    Items<float, kItems> x_items;
    load_items(x_items, x_row, at, live);
    for_held<kVectors>(whole, live, [&](int live) { sweep1_fold<kItems>(folded1, x_items, live); });
    const auto top_item = [&](int i) { return x_items[i]; };
    const auto top_key = [&](column_t column) {
        const float x = x_row[column];
        return top_keys.key(x, column);
    };
    const ItemPeaks<TopKeys, kVectors, kWidth, 1, 8> top_peaks(live, top_item);
    EachItem<TopKeys, kVectors, kWidth, false, decltype(top_item), decltype(column_of)> top_each(live, top_item, column_of);
    const unsigned top_low = reach_in_cluster(top_collected, n_vectors, live, rank, column_t{-1}, top_peaks, top_each, top_key);
    const State state = cluster_reduce<Team, kBlocks>(folded1, warp_states1);

    // The first block takes over the lists of the others.
    if (slice > 0) return;
    order_in_cluster<false>(top_collected, n_cols, top_low, rank, top_key);
    const float m = state.m;  // texts.py  m = fg.max(x)
    const float sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    if (const int entry = rank; entry < 5) {
        const auto top_entry = top_best[entry];
        const auto top_value = top_keys.value(top_entry);
        const column_t top_column = top_keys.column(top_entry);
        const NearDivisor sum_exp_divisor(sum_exp);
        values_out[row * 5 + entry] = sum_exp_divisor.under(expf(top_value - m));  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        indices_out[row * 5 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
}
