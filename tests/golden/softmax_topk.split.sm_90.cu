// softmax_topk    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 5 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 5 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       chunks of 32, merged thread → warp → block → grid
// Schedule   row per several blocks, 8 × 4 elements per thread and chunk, aligned loads, first out of L2
// Launch     softmax_topk_kernel<<<blocks · n_rows, 256>>>
// Assumes    4 divides n_cols
//            rows of x begin on 16 bytes
//            5 ≤ n_cols
//            n_cols ≤ 2^30
// Bytes      reads each element once, writes 60 bytes a row

#include <fusegen/math/divisor.cuh>
#include <fusegen/math/exp_term.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/topk/packed_keys.cuh>
#include <fusegen/topk/first_threshold.cuh>
#include <fusegen/topk/look_ahead.cuh>
#include <fusegen/topk/tile.cuh>
#include <fusegen/topk/slices.cuh>
#include <fusegen/topk/finish.cuh>
#include <fusegen/meet/block.cuh>
#include <fusegen/tickets.cuh>

using namespace fusegen;

using Team = Block<256>;  // threads of a block, one of several that own a row
constexpr int kMostThreads = 256;  // of a block
constexpr int kVectors = 8, kWidth = 4;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

using TopKeys = PackedKeys<FloatOrder<0>, column_t>;  // candidates for top

// How top is kept: its K, room, when it is cut and how it is put in order. <fusegen/topk/list.cuh>
struct TopPlan {
    static constexpr int kK = 5, kSlots = 768, kKept = 21, kCutAt = 76;
    static constexpr int kCountable = 256, kFullBin = 96, kBinBits = 9;
    static constexpr int kGroups = 1, kSamples = 512;
    static constexpr bool kGuess = false;
};
using TopList = KBest<Layout, kVectors, TopKeys, TopPlan, InShared>;

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
    State& state, float& top_peak_out, const Items<float, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        chunk.m = greater_of(chunk.m, x);
    });
    top_peak_out = chunk.m;
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

extern "C" __global__ void __launch_bounds__(kMostThreads, 4)
softmax_topk_kernel(
    const float* __restrict__ x, float* __restrict__ values_out, long long* __restrict__ indices_out,
    State* __restrict__ partial_states, unsigned long long* __restrict__ top_partial,
    unsigned long long* __restrict__ tickets, long long x_stride, long long n_rows,
    long long n_cols_wide, long long blocks_of_a_row)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kMostThreads / 32];
    __shared__ TopList top;
    const TopKeys top_keys(n_cols);
    const int blocks = static_cast<int>(blocks_of_a_row), slice = blockIdx.x % blocks;
    const long long row = blockIdx.x / blocks;
    const float* x_row = x + row * x_stride;
    const column_t n_vectors = n_cols / kWidth;
    const column_t share = (n_vectors + blocks - 1) / blocks;  // of vectors, for each block
    const column_t begin = slice * share;
    const column_t end = begin + share < n_vectors ? begin + share : n_vectors;

    // 1. Fold the slice.
    State folded1 = State::identity();
    clear(top, rank);
    const auto top_key = [=](column_t column) {
        const float x = x_row[column];
        return top_keys.key(x, column);
    };
    const auto top_key_at = [=](column_t vector, int item) { return top_key(vector * kWidth + item); };
    const auto top_keys_of = [=](TopList::Key (&keys)[kWidth], column_t vector) {
        const column_t first = vector * kWidth;
        Items<float, kWidth> x_items;
        load_vector(x_items, 0, x_row + vector * kWidth);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
            const column_t column = first + i;
            const float x = x_items[i];
            keys[i] = top_keys.key(x, column);
        }
    };
    Bar<TopList::Keys> top_bar{};  // the first tile sets it
    for (column_t tile = begin; tile < end; tile += kVectors * Team::threads()) {
        const column_t at = tile + rank;
        const int live = live_vectors<Team, kVectors>(at, end);
        const auto column_of = [&](int i) { return (at + i / kWidth * Team::threads()) * kWidth + i % kWidth; };
        Items<float, kItems> x_items = {};
        float top_peak = -kInfinity;
        for_tile<Team, kVectors>(tile, end, rank, live, [&](int live) {
            load_items<kFirstOut>(x_items, x_row, at, live);
            sweep1_fold<kItems>(folded1, top_peak, x_items, live);
        });
        const Tile<column_t> here{begin, end, tile, live, rank};
        // Candidates for top: only chunks whose greatest item reaches the bar are looked at.
        const auto top_key_of = [&](int i) { return top_key(column_of(i)); };
        const auto top_item = [&](int i) { return x_items[i]; };
        FirstTile top_first{};
        if (tile == begin) {
            const auto again = [&] {
                x_items = {};
                load_items<kFirstOut>(x_items, x_row, at, live);
            };
            top_first = first_tile<false>(top, top_keys, top_bar, here, 0, top_peak, top_item, again);
        }
        const auto top_pending =
            pending_items(top, top_keys, top_bar, live, top_peak, top_first.late, top_item, column_of, top_key_of);
        take_tile(top, top_keys, top_bar, here, top_pending, top_peak, top_key_of, top_key_at, top_keys_of);
    }
    const State part_of_state = block_reduce<Team>(folded1, warp_states1);

    // The last block of the row to come here merges what they all left, always in the same order.
    if (rank == 0) partial_states[row * blocks + slice] = part_of_state;
    publish(top_partial + (row * blocks + slice) * 21LL, top, rank);
    if (!last_of_row(tickets + row, blocks)) return;
    State merged = State::identity();
    for (int other = rank; other < blocks; other += Team::threads())
        merged = merge(merged, partial_states[row * blocks + other]);
    const State state = block_reduce<Team>(merged, warp_states1);
    clear(top, rank);
    Team::sync();
    gather(top, top_partial + row * (blocks * 21LL), blocks * 21, rank);
    const auto* top_best = finish(top, rank);
    const float m = state.m;  // texts.py  m = fg.max(x)
    const float sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    for (int entry = rank; entry < 5; entry += Team::threads()) {
        const auto top_entry = top_best[entry];
        const auto top_value = top_keys.value(top_entry);
        const column_t top_column = top_keys.column(top_entry);
        const NearDivisor sum_exp_divisor(sum_exp);
        values_out[row * 5 + entry] = sum_exp_divisor.under(expf(top_value - m));  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
        indices_out[row * 5 + entry] = top_column;  // texts.py  return fg.topk(softmax(x), k, index_dtype=index_dtype)
    }
}
