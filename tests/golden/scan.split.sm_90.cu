// scan    own_cases.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (recurrence_state), of no elements (RecurrenceMonoid(1, 0))
// a ⊕ b      recurrence_state = a.recurrence_state ⊕ b.recurrence_state of recurrence, in row order:
//              slope = a.slope·b.slope
//              offset = b.slope·a.offset + b.offset
// Proved     associative, identity
// Tree       chunks of 4, merged thread → warp → block → grid
// Schedule   row per several blocks, 1 × 4 elements per thread and chunk, aligned loads
// Launch     scan_kernel<<<blocks · n_rows, 256>>>
// Assumes    4 divides n_cols
//            rows of a, b begin on 16 bytes
//            n_cols ≤ 2^30
// Bytes      reads each element of a, b once, writes 4 bytes a row

#include <fusegen/walk.cuh>
#include <fusegen/meet/block.cuh>
#include <fusegen/tickets.cuh>

using namespace fusegen;

using Team = Block<256>;  // threads of a block, one of several that own a row
constexpr int kMostThreads = 256;  // of a block
constexpr int kVectors = 1, kWidth = 4;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;

// recurrence of own_cases.py, which keeps the order of the row.
struct RecurrenceMonoid {
    float slope;
    float offset;

    static __device__ __forceinline__ RecurrenceMonoid identity() { return {1.0f, 0.0f}; }
    using Parts = Members<&RecurrenceMonoid::slope, &RecurrenceMonoid::offset>;
};

// a ⊕ b
__device__ __forceinline__ RecurrenceMonoid merge(const RecurrenceMonoid& a, const RecurrenceMonoid& b)
{
    RecurrenceMonoid r;
    r.slope = a.slope * b.slope;
    r.offset = b.slope * a.offset + b.offset;
    return r;
}

// What sweep 1 keeps of a row.
struct State {
    RecurrenceMonoid recurrence_state;  // recurrence   own_cases.py  return fg.reduce(recurrence, a, b)

    static __device__ __forceinline__ State identity() { return {RecurrenceMonoid::identity()}; }
    using Exchange = SideBySide<&State::recurrence_state>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b)
{
    return {merge(a.recurrence_state, b.recurrence_state)};
}

// a ⊕ b:
//   recurrence_state = a.recurrence_state ⊕ b.recurrence_state of recurrence, in row order:
//     slope = a.slope·b.slope
//     offset = b.slope·a.offset + b.offset
__device__ __forceinline__ State merge(const State& a, const State& b)
{
    return combine(a, b);
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Items<float, kCount>& a_items, const Items<float, kCount>& b_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float a = a_items[i];
        const float b = b_items[i];
        RecurrenceMonoid recurrence_state_item;
        recurrence_state_item.slope = a;
        recurrence_state_item.offset = b;
        chunk.recurrence_state = merge(chunk.recurrence_state, recurrence_state_item);  // own_cases.py  return fg.reduce(recurrence, a, b)
    });
    state = combine(state, chunk);
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
scan_kernel(
    const float* __restrict__ a, const float* __restrict__ b,
    float* __restrict__ recurrence_offset_out, State* __restrict__ partial_states,
    unsigned long long* __restrict__ tickets, long long a_stride, long long b_stride,
    long long n_rows, long long n_cols_wide, long long blocks_of_a_row)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kMostThreads / 32];
    const int blocks = static_cast<int>(blocks_of_a_row), slice = blockIdx.x % blocks;
    const long long row = blockIdx.x / blocks;
    const float* a_row = a + row * a_stride;
    const float* b_row = b + row * b_stride;
    const column_t n_vectors = n_cols / kWidth;
    const column_t share = (n_vectors + blocks - 1) / blocks;  // of vectors, for each block
    const column_t begin = slice * share;
    const column_t end = begin + share < n_vectors ? begin + share : n_vectors;

    // 1. Fold the slice.
    State folded1 = State::identity();
    for (column_t tile = begin; tile < end; tile += kVectors * Team::threads()) {
        const column_t at = tile + rank;
        const int live = live_vectors<Team, kVectors>(at, end);
        State tile_state = State::identity();
        for_tile<Team, kVectors>(tile, end, rank, live, [&](int live) {
            Items<float, kItems> a_items;
            load_items(a_items, a_row, at, live);
            Items<float, kItems> b_items;
            load_items(b_items, b_row, at, live);
            sweep1_fold<kItems>(tile_state, a_items, b_items, live);
        });
        folded1 = merge(folded1, block_reduce_again<Team>(tile_state, warp_states1));
    }

    // The last block of the row to come here merges what they all left, always in the same order.
    if (rank == 0) partial_states[row * blocks + slice] = folded1;
    if (!last_of_row(tickets + row, blocks)) return;
    State state = State::identity();
    for (int other = 0; other < blocks; ++other)
        state = merge(state, partial_states[row * blocks + other]);
    const float recurrence_offset = state.recurrence_state.offset;  // own_cases.py  return fg.reduce(recurrence, a, b)
    if (rank == 0)
        recurrence_offset_out[row] = recurrence_offset;  // own_cases.py  return fg.reduce(recurrence, a, b)
}
