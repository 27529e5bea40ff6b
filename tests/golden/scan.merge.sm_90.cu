// scan, merge: states → states    own_cases.py
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// State      (recurrence_state), of no elements (RecurrenceMonoid(1, 0))
// a ⊕ b      recurrence_state = a.recurrence_state ⊕ b.recurrence_state of recurrence, in row order:
//              slope = a.slope·b.slope
//              offset = b.slope·a.offset + b.offset
// Proved     associative, identity
// Tree       one state at a time, then lane by lane
// Schedule   row per 8 lanes
// Launch     scan_merge_kernel<<<⌈n_rows / 16⌉, 128>>>
// Bytes      reads 8 bytes of each state, writes as many a row

#include <fusegen/team.cuh>
#include <fusegen/states/field.cuh>
#include <fusegen/meet/lanes.cuh>

using namespace fusegen;

using Team = Lanes<8>;  // lanes of a warp, which own the states of a row
constexpr int kRowsPerBlock = 16;
constexpr int kMostThreads = 128;  // of a block
constexpr int kStateBytes = 8;

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

// A state from its bytes.
__device__ __forceinline__ State loaded(const unsigned char* bytes)
{
    State s;
    s.recurrence_state.slope = field<float>(bytes, 0);
    s.recurrence_state.offset = field<float>(bytes, 4);
    return s;
}

// And to its bytes.
__device__ __forceinline__ void store(const State& s, unsigned char* bytes)
{
    set_field<float>(bytes, 0, s.recurrence_state.slope);
    set_field<float>(bytes, 4, s.recurrence_state.offset);
}

extern "C" __global__ void __launch_bounds__(kMostThreads)
scan_merge_kernel(
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
}
