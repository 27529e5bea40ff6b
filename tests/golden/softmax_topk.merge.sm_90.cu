// softmax_topk, merge: states → states    texts.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (m, sum_exp, top 5 of x), of no elements (-inf, 0, empty)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
//            top = best 5 of both lists
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning, reference, monotone
// Tree       one state at a time, then lane by lane
// Schedule   row per 8 lanes
// Launch     softmax_topk_merge_kernel<<<⌈n_rows / 16⌉, 128>>>
// Bytes      reads 72 bytes of each state, writes as many a row

#include <fusegen/team.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/states/best.cuh>
#include <fusegen/meet/lanes.cuh>

using namespace fusegen;

using Team = Lanes<8>;  // lanes of a warp, which own the states of a row
constexpr int kRowsPerBlock = 16;
constexpr int kMostThreads = 128;  // of a block
constexpr int kStateBytes = 72;
#define kInfinity __int_as_float(0x7f800000)

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

// A state from its bytes.
__device__ __forceinline__ State loaded(const unsigned char* bytes)
{
    State s;
    s.m = field<float>(bytes, 0);
    s.sum_exp = field<float>(bytes, 4);
    return s;
}

// And to its bytes.
__device__ __forceinline__ void store(const State& s, unsigned char* bytes)
{
    set_field<float>(bytes, 0, s.m);
    set_field<float>(bytes, 4, s.sum_exp);
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
softmax_topk_merge_kernel(
    const unsigned char* __restrict__ states_in, unsigned char* __restrict__ merged_out,
    long long states_outer_stride, long long states_stride, long long n_rows, long long n_cols)
{
    const int rank = threadIdx.x % Team::threads();  // of this thread in its team
    const int team = threadIdx.x / Team::threads();  // of this block
    // Lanes without a row of their own go along with the last one and write nothing.
    const long long mine = static_cast<long long>(blockIdx.x) * kRowsPerBlock + team;
    const long long row = mine < n_rows ? mine : n_rows - 1;
    const unsigned char* row_states = states_in + row * states_stride;
    unsigned char* merged = merged_out + row * kStateBytes;

    // A lane's states are neighbours, and merge in their order.
    const long long share = (n_cols + Team::threads() - 1) / Team::threads(), begin = rank * share;
    const long long end = begin + share < n_cols ? begin + share : n_cols;
    State total = begin < end ? loaded(row_states + begin * states_outer_stride) : State::identity();
    for (long long state = begin + 1; state < end; ++state)
        total = merge(total, loaded(row_states + state * states_outer_stride));
    total = lanes_reduce<Team::kThreads>(total);
    if (rank == 0 && mine < n_rows) store(total, merged);

    // top: each entry finds its place by how many are ahead of it.
    const ListOfStates<float, 5, 8, 32> top_lists{row_states, states_outer_stride, n_cols};
    if (mine < n_rows) store_best<Team::kThreads, 8, 32>(top_lists, merged, rank);
}
