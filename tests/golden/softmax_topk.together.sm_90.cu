// softmax_topk    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 64 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 64 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       chunks of 16, merged thread → warp → block → cluster
// Schedule   row per cluster of blocks, 8 × 2 elements per thread and chunk, aligned loads
// Launch     softmax_topk_kernel<<<blocks · n_rows, 512>>>; clusters of blocks
// Assumes    2 divides n_cols
//            rows of x begin on 16 bytes
//            64 ≤ n_cols
//            n_cols ≤ 2^30
// Bytes      reads each element once, writes 1024 bytes a row

#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/topk/wide_keys.cuh>
#include <fusegen/topk/first_threshold.cuh>
#include <fusegen/topk/look_ahead.cuh>
#include <fusegen/topk/tile.cuh>
#include <fusegen/topk/gather.cuh>
#include <fusegen/topk/finish.cuh>
#include <fusegen/meet/cluster.cuh>

using namespace fusegen;

using Team = Block<512>;  // threads of a block, whose cluster owns a row
constexpr int kMostThreads = 512;  // of a block
constexpr int kVectors = 8, kWidth = 2;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
constexpr int kBlocks = 16;  // of a cluster
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __longlong_as_double(0x7ff0000000000000LL)
#define kNaN __longlong_as_double(0x7ff8000000000000LL)

using TopKeys = WideKeys<DoubleOrder, column_t>;  // candidates for top

// How top is kept: its K, room, when it is cut and how it is put in order. <fusegen/topk/list.cuh>
struct TopPlan {
    static constexpr int kK = 64, kSlots = 768, kKept = 88, kCutAt = 224;
    static constexpr int kCountable = 223, kFullBin = 96, kBinBits = 9;
    static constexpr int kGroups = 1, kSamples = 416;
    static constexpr bool kGuess = false;
};
using TopList = ClusterKBest<Layout, kVectors, TopKeys, TopPlan, kBlocks>;

// What sweep 1 keeps of a row.
struct State {
    double m;  // max of x   texts.py  m = fg.max(x)
    double sum_exp;  // sum of exp(x_minus_m)   texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))

    static __device__ __forceinline__ State identity() { return {-kInfinity, 0.0}; }
    using Exchange = AboutPivots<Members<&State::m>, Members<&State::sum_exp>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b) { return {greater_of(a.m, b.m), 0.0}; }

__device__ __forceinline__ double m_anchor_of(const State& s) { return shift_anchor(s.m); }

// The sums of s, moved to the m of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at)
{
    const double m_shift = m_anchor_of(s) - m_anchor_of(at);
    State moved = at;
    moved.sum_exp = zero_wins(s.sum_exp, exp(m_shift));
    return moved;
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, double& top_peak_out, const Items<double, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const double x = x_items[i];
        chunk.m = greater_of(chunk.m, x);
    });
    top_peak_out = chunk.m;
    const State next = combine(state, chunk);

    // Move the sums to the new m, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const double m_anchor = m_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const double x = x_items[i];
        const double x_minus_m = x - m_anchor;
        state.sum_exp += exp(x_minus_m);
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads, 1)
softmax_topk_kernel(
    const double* __restrict__ x, double* __restrict__ values_out,
    long long* __restrict__ indices_out, long long x_stride, long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kBlocks + kMostThreads / 32];
    __shared__ TopList top;
    const TopKeys top_keys(n_cols);
    __cluster_barrier_arrive_relaxed();  // the blocks of the cluster are there, says the wait
    const int blocks = __clusterSizeInBlocks(), slice = __clusterRelativeBlockRank();
    const long long row = blockIdx.x / blocks;
    const double* x_row = x + row * x_stride;
    const column_t n_vectors = n_cols / kWidth;
    const column_t share = (n_vectors + blocks - 1) / blocks;  // of vectors, for each block
    const column_t begin = slice * share;
    const column_t end = begin + share < n_vectors ? begin + share : n_vectors;

    // 1. Fold the slice.
    State folded1 = State::identity();
    // Blocks of a row look for a first threshold together, if all have a tile whose warps are whole.
    const bool together = n_vectors - (blocks - 1) * share >= Team::threads();
    clear(top, rank);
    const auto top_key = [=](column_t column) {
        const double x = x_row[column];
        return top_keys.key(x, column);
    };
    const auto top_key_at = [=](column_t vector, int item) { return top_key(vector * kWidth + item); };
    const auto top_keys_of = [=](TopList::Key (&keys)[kWidth], column_t vector) {
        const column_t first = vector * kWidth;
        Items<double, kWidth> x_items;
        load_vector(x_items, 0, x_row + vector * kWidth);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const column_t column = first + i;
            const double x = x_items[i];
            keys[i] = top_keys.key(x, column);
        }
    };
    Bar<TopList::Keys> top_bar{};  // the first tile sets it
    for (column_t tile = begin; tile < end; tile += kVectors * Team::threads()) {
        const column_t at = tile + rank;
        const int live = live_vectors<Team, kVectors>(at, end);
        const auto column_of = [&](int i) { return (at + i / kWidth * Team::threads()) * kWidth + i % kWidth; };
        Items<double, kItems> x_items = {};
        double top_peak = -kInfinity;
        for_tile<Team, kVectors>(tile, end, rank, live, [&](int live) {
            load_items(x_items, x_row, at, live);
            sweep1_fold<kItems>(folded1, top_peak, x_items, live);
        });
        if (together && tile == begin) __cluster_barrier_wait();
        const Tile<column_t> here{begin, end, tile, live, rank};
        // Candidates for top: only chunks whose greatest item reaches the bar are looked at.
        const auto top_key_of = [&](int i) { return top_key(column_of(i)); };
        const auto top_item = [&](int i) { return x_items[i]; };
        FirstTile top_first{};
        if (tile == begin) {
            const auto again = [&] {
                x_items = {};
                load_items(x_items, x_row, at, live);
            };
            top_first = first_tile<false>(top, top_keys, top_bar, here, 0, top_peak, top_item, again, together, n_vectors);
        }
        const auto top_pending =
            pending_items(top, top_keys, top_bar, live, top_peak, top_first.late, top_item, column_of, top_key_of);
        take_tile(top, top_keys, top_bar, here, top_pending, top_peak, top_key_of, top_key_at, top_keys_of, top_first.lopsided);
    }
    if (!together) __cluster_barrier_wait();
    tell_count(top, rank);
    const State state = cluster_reduce<Team, kBlocks>(folded1, warp_states1);

    // The first block takes over the lists of the others.
    gather(top, rank);
    if (slice > 0) return;
    const auto* top_best = finish(top, rank);
    const double m = state.m;  // texts.py  m = fg.max(x)
    const double sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    for (int entry = rank; entry < 64; entry += Team::threads()) {
        const auto top_entry = top_best[entry];
        const auto top_value = top_keys.value(top_entry);
        const column_t top_column = top_keys.column(top_entry);
        values_out[row * 64 + entry] = exp(top_value - m) / sum_exp;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        indices_out[row * 64 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
}
