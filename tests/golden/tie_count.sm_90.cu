// tie_count    algebra_cases.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (max_x, sum_where), of no elements (-inf, 0)
// a ⊕ b      max_x = max(a.max_x, b.max_x)
//            sum_where = a.sum_where·[a.max_x = max_x] + b.sum_where·[b.max_x = max_x]
// Proved     domain, selection, pointwise identity, read-out, cocycle, unit, range, conditioning
// Tree       chunks of 32, merged thread → warp → block
// Schedule   row per block in registers, 8 × 4 elements per thread and chunk, aligned loads past L1
// Launch     tie_count_kernel<<<n_rows, threads>>>; threads % 32 = 0, ≤ 1024
// Assumes    4 divides n_cols
//            rows of x begin on 16 bytes
//            n_cols ≤ 2^30
//            n_cols ≤ threads · 32
// Bytes      reads each element once, writes 8 bytes a row

#include <fusegen/math/greater_of.cuh>
#include <fusegen/walk.cuh>
#include <fusegen/meet/block.cuh>

using namespace fusegen;

using Team = AnyBlock<1024>;  // threads of a block, which owns a row
constexpr int kMostThreads = 1024;  // of a block
constexpr int kVectors = 8, kWidth = 4;  // a thread's chunk: so many vectors of so many neighbours
constexpr int kItems = kVectors * kWidth;
typedef int column_t;
using Layout = Vectors<Team, kWidth>;
template <typename T, int kCount> using Items = Chunk<T, kCount, Layout>;
#define kInfinity __int_as_float(0x7f800000)

// What sweep 1 keeps of a row.
struct State {
    float max_x;  // max of x   algebra_cases.py  return fg.count(x == fg.max(x))
    long long sum_where;  // sum of where(x_is_max_x != 0, 1, 0)   algebra_cases.py  return fg.count(x == fg.max(x))

    static __device__ __forceinline__ State identity() { return {-kInfinity, 0}; }
    using Exchange = AboutPivots<Members<&State::max_x>, Members<&State::sum_where>>;  // <fusegen/meet/lanes.cuh>
};

// What needs no pivot of a ⊕ b.
__device__ __forceinline__ State combine(const State& a, const State& b) { return {greater_of(a.max_x, b.max_x), 0}; }

__device__ __forceinline__ float max_x_anchor_of(const State& s) { return s.max_x; }

// The sums of s, moved to the max_x of `at`; everything else is at's.
__device__ __forceinline__ State rebase(const State& s, const State& at)
{
    const float max_x_same = (max_x_anchor_of(s) == max_x_anchor_of(at)) ? 1.0f : 0.0f;
    State moved = at;
    moved.sum_where = (max_x_same != 0.0f) ? s.sum_where : 0;
    return moved;
}

// Sweep 1 folds a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep1_fold(
    State& state, const Items<float, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        chunk.max_x = greater_of(chunk.max_x, x);
    });
    const State next = combine(state, chunk);

    // Move the sums to the new max_x, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float max_x_anchor = max_x_anchor_of(state);
    for_items<kCount, kWidth>(live, [&](int i) {
        const float x = x_items[i];
        const float x_is_max_x = (x == max_x_anchor) ? 1.0f : 0.0f;
        state.sum_where += (x_is_max_x != 0.0f) ? 1 : 0;
    });
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
tie_count_kernel(
    const float* __restrict__ x, long long* __restrict__ sum_where_out, long long x_stride,
    long long n_rows, long long n_cols_wide)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    const int rank = threadIdx.x;
    __shared__ State warp_states1[kMostThreads / 32];
    const long long row = blockIdx.x;
    const float* x_row = x + row * x_stride;
    const column_t begin = 0, end = n_cols / kWidth;
    const column_t at = opaque(begin + rank);
    const int live = live_vectors<Team, kVectors>(at, end);
    const bool whole = __all_sync(0xffffffffu, live == kVectors);

    // 1. Fold the row.
    State folded1 = State::identity();
    Items<float, kItems> x_items;
    load_items<kPastL1>(x_items, x_row, at, live);
    for_held<kVectors>(whole, live, [&](int live) { sweep1_fold<kItems>(folded1, x_items, live); });
    const State state = block_reduce<Team>(folded1, warp_states1);
    const long long sum_where = state.sum_where;  // algebra_cases.py  return fg.count(x == fg.max(x))
    if (rank == 0)
        sum_where_out[row] = sum_where;  // algebra_cases.py  return fg.count(x == fg.max(x))
}
