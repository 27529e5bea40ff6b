// softmax    texts.py:21
// form online, for sm_90; by fusegen 0.1.0, do not edit
//
// Sweep 1    reads x
// State      (m, sum_exp), of no elements (-inf, 0)
// a ⊕ b      m = max(a.m, b.m)
//            sum_exp = a.sum_exp·exp(a.m - m) + b.sum_exp·exp(b.m - m)
// Sweep 2    reads x
// Proved     pointwise identity, read-out, cocycle, unit, range, conditioning
// Tree       chunks of 16, merged thread → warp → block → cluster
// Schedule   strips of 32 neighbouring rows per cluster of 4 blocks, 16 vectors of a thread in registers, 16 vectors of a thread in shared memory, chunks of 4 columns × 4 rows
// Launch     softmax_kernel<<<blocks · n_rows / n_inner · ⌈n_inner / 32⌉, 256, 65536>>>; clusters of blocks
// Assumes    4 divides n_inner
//            rows of x, div begin on 16 bytes
//            n_cols ≤ 2^30
//            n_cols ≤ 1024 · blocks
// Bytes      reads each element once, writes once

#include <fusegen/math/divisor.cuh>
#include <fusegen/math/exp_narrow.cuh>
#include <fusegen/math/greater_of.cuh>
#include <fusegen/math/zero_wins.cuh>
#include <fusegen/math/shift_anchor.cuh>
#include <fusegen/items.cuh>
#include <fusegen/meet/lanes.cuh>
#include <fusegen/copy.cuh>

using namespace fusegen;

constexpr int kThreads = 256;              // of a block
constexpr int kResident = 2;               // blocks that a multiprocessor takes at once
constexpr int kBlocks = 4;                 // that share a strip of neighbouring rows
constexpr int kAcross = 8;                 // threads side by side
constexpr int kWidth = 4;                  // neighbouring rows of a thread: a vector has an element of each
constexpr int kDown = kThreads / kAcross;  // threads of a block that share rows
constexpr int kStep = kDown * kBlocks;     // columns from one vector of a thread to its next
constexpr int kVectors = 4;                // vectors of a thread's chunk
constexpr int kMapped = 2;                 // the same on the way from the chip to memory
constexpr int kHeld = 16;                   // vectors that a thread keeps in registers
constexpr int kStash = 16;                  // and the next ones, in shared memory
constexpr int kStripRows = kAcross * kWidth;
constexpr int kPieces = kThreads / 32;       // states that a block has of a row, once lanes have merged
constexpr int kMergers = 8;                // lanes that merge the states of a row

typedef int column_t;
template <typename T, int kCount> using Items = Packed<T, kCount>;
#define kInfinity __int_as_float(0x7f800000)
#define kNaN __int_as_float(0x7fc00000)

// One row of a chunk: an element of every vector.
template <typename T, int kCount>
struct Along {
    Items<T, kCount * kWidth>& vectors;
    int row;

    __device__ __forceinline__ T operator[](int i) const { return vectors[i * kWidth + row]; }
    __device__ __forceinline__ void set(int i, T item) const { vectors.set(i * kWidth + row, item); }
};

template <typename T, int kCount>
__device__ __forceinline__ Along<T, kCount / kWidth> along(Items<T, kCount>& vectors, int row)
{
    return {vectors, row};
}

// How many of a thread's kCount vectors, the first at column `at`, lie before `end`.
template <int kCount>
__device__ __forceinline__ int live_vectors(column_t at, column_t end)
{
    if (at + (kCount - 1) * kStep < end) return kCount;
    int live = 0;
#pragma unroll
    for (int v = 0; v < kCount; ++v) live += at + v * kStep < end;
    return live;
}

// A vector between memory and registers, in accesses of up to 16 bytes.
template <typename T, int kCount>
__device__ __forceinline__ void load_vector(Items<T, kCount>& items, int v, const T* __restrict__ from)
{
    constexpr int kBytes = kWidth * sizeof(T);
    unsigned* word = items.word + v * kBytes / 4;
    if constexpr (kBytes % 16 == 0) {
#pragma unroll
        for (int w = 0; w < kBytes / 4; w += 4) {
            const uint4 four = reinterpret_cast<const uint4*>(from)[w / 4];
            word[w] = four.x, word[w + 1] = four.y, word[w + 2] = four.z, word[w + 3] = four.w;
        }
    } else if constexpr (kBytes == 8) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        word[0] = two.x, word[1] = two.y;
    } else if constexpr (kBytes == 4) {
        word[0] = *reinterpret_cast<const unsigned*>(from);
    } else {
#pragma unroll
        for (int r = 0; r < kWidth; ++r) items.set(v * kWidth + r, from[r]);
    }
}

// Some of a chunk's items.
template <int kPart, typename T, int kCount>
__device__ __forceinline__ Items<T, kPart> part(const Items<T, kCount>& items, int first)
{
    Items<T, kPart> found;
#pragma unroll
    for (int i = 0; i < kPart; ++i) found.set(i, items[first + i]);
    return found;
}

template <typename T, int kCount>
__device__ __forceinline__ void store_vector(T* __restrict__ to, const Items<T, kCount>& items, int v)
{
    constexpr int kBytes = kWidth * sizeof(T);
    const unsigned* word = items.word + v * kBytes / 4;
    if constexpr (kBytes % 16 == 0) {
#pragma unroll
        for (int w = 0; w < kBytes / 4; w += 4)
            reinterpret_cast<uint4*>(to)[w / 4] = make_uint4(word[w], word[w + 1], word[w + 2], word[w + 3]);
    } else if constexpr (kBytes == 8) {
        *reinterpret_cast<uint2*>(to) = make_uint2(word[0], word[1]);
    } else if constexpr (kBytes == 4) {
        *reinterpret_cast<unsigned*>(to) = word[0];
    } else {
#pragma unroll
        for (int r = 0; r < kWidth; ++r) to[r] = items[v * kWidth + r];
    }
}

// The first `live` vectors of a chunk, the first of them at column `at`.
template <typename T, int kCount>
__device__ __forceinline__ void load_down(
    Items<T, kCount>& items, const T* __restrict__ from, long long stride, column_t at, int live)
{
    from += at * stride;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v, from += kStep * stride)
        if (v < live) load_vector(items, v, from);
}

constexpr int kGroups = 4;  // of copies on their way to shared memory
constexpr int kPerGroup = kStash / kGroups;

// Starts the copies of one group of a thread's vectors; `at` is the column of the first stashed one. A
// thread copies what it will read itself, so that no barrier is needed.
template <typename T>
__device__ __forceinline__ void fetch_group(
    T* stash, const T* __restrict__ from, long long stride, column_t at, column_t end, int group)
{
#pragma unroll 1
    for (int slot = group * kPerGroup; slot < (group + 1) * kPerGroup; ++slot) {
        const column_t column = at + slot * kStep;
        if (column >= end) break;
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stash + slot * (kThreads * kWidth)));
        const char* source = reinterpret_cast<const char*>(from + column * stride);
#pragma unroll
        for (int byte = 0; byte < kWidth * static_cast<int>(sizeof(T)); byte += 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + byte), "l"(source + byte) : "memory");
    }
}

// Waits for the oldest group that was not waited for. An empty group takes its place, so that there
// are always kGroups - 1 younger ones.
__device__ __forceinline__ void await_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups - 1) : "memory");
    end_group();
}

// A chunk from shared memory, `slot` vectors after the first one there.
template <typename T, int kCount>
__device__ __forceinline__ void read_stash(Items<T, kCount>& items, const T* stash, int slot, int live)
{
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v)
        if (v < live) load_vector(items, v, stash + (slot + v) * (kThreads * kWidth));
}

template <typename T, int kCount>
__device__ __forceinline__ void store_down(
    T* __restrict__ to, long long stride, const Items<T, kCount>& items, column_t at, int live)
{
    to += at * stride;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v, to += kStep * stride)
        if (v < live) store_vector(to, items, v);
}

// What sweep 1 keeps of a row.
struct State {
    float m;  // max of x   texts.py:27  m = fg.max(x)
    float sum_exp;  // sum of exp(x_minus_m)   texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))

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
    State& state, const Along<float, kCount>& x_items, int live)
{
    State chunk = State::identity();
    for_items<kCount, 1>(live, [&](int i) {
        const float x = x_items[i];
        chunk.m = greater_of(chunk.m, x);
    });
    const State next = combine(state, chunk);

    // Move the sums to the new m, once a chunk, and add the chunk's.
    state = rebase(state, next);
    const float m_anchor = m_anchor_of(state);
    for_items<kCount, 1>(live, [&](int i) {
        const float x = x_items[i];
        const float x_minus_m = x - m_anchor;
        state.sum_exp += exp_narrow(x_minus_m);
    });
}

// Sweep 2 makes outputs of a chunk's first `live` vectors.
template <int kCount>
__device__ __forceinline__ void sweep2_map(
    const Along<float, kCount>& div_items, const Along<float, kCount>& x_items, float m,
    const Divisor& sum_exp_divisor, int live)
{
    for_items<kCount, 1>(live, [&](int i) {
        const float x = x_items[i];
        div_items.set(i, sum_exp_divisor.under(expf(x - m)));  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
    });
}

// Lanes that share rows merge their states; what a warp has of each row it leaves for the block.
template <typename S>
__device__ __forceinline__ void leave_pieces(const S (&mine)[kWidth], S (&pieces)[kPieces][kStripRows])
{
    constexpr int kShare = kAcross < 32 ? 32 / kAcross : 1;  // lanes that share rows
    const int across = threadIdx.x % kAcross;
#pragma unroll
    for (int r = 0; r < kWidth; ++r) {
        const S total = lanes_reduce<kShare, kAcross>(mine[r]);
        if (threadIdx.x % (kShare * kAcross) < kAcross)
            pieces[threadIdx.x / (kShare * kAcross)][across * kWidth + r] = total;
    }
}

// For every row of the strip, kMergers neighbouring lanes merge its `count` states, always in the same
// order, and each hands the total on.
template <typename S, typename From, typename To>
__device__ __forceinline__ void merge_rows(int count, const From& from, const To& to)
{
    for (int row = threadIdx.x / kMergers; row < kStripRows; row += kThreads / kMergers) {
        S total = S::identity();
        for (int piece = threadIdx.x % kMergers; piece < count; piece += kMergers)
            total = merge(total, from(piece, row));
        to(row, lanes_reduce<kMergers, 1>(total));
    }
}

// Where a thread's rows begin, and where their columns end: at 0 if there are none.
struct Place {
    long long outer, inner;
    column_t end;
};

// What is known of a row.
struct Row {
    float m;
    Divisor sum_exp_divisor;
};

extern "C" __global__ void __launch_bounds__(kThreads, kResident)
softmax_kernel(
    const float* __restrict__ x, float* __restrict__ div_out, long long x_outer_stride,
    long long x_stride, long long div_outer_stride, long long div_stride, long long n_rows,
    long long n_cols_wide, long long n_inner)
{
    const column_t n_cols = static_cast<column_t>(n_cols_wide);
    __shared__ State pieces1[kPieces][kStripRows], totals1[kStripRows];
    __shared__ State parts1[kBlocks][kStripRows];
    __cluster_barrier_arrive_relaxed();  // the blocks of the cluster are there, says the wait
    // Threads side by side own neighbouring rows; the others go down the reduced axis with them.
    const int across = threadIdx.x % kAcross, down = threadIdx.x / kAcross;
    const int slice = blockIdx.x % kBlocks;
    const long long strips = (n_inner + kStripRows - 1) / kStripRows;  // of one outer index
    const column_t first = slice * kDown + down;
    const auto place_of = [&](long long strip) {
        const long long outer = strip / strips, inner = strip % strips * kStripRows + across * kWidth;
        return Place{outer, inner, inner < n_inner ? n_cols : 0};
    };
    const long long strip = blockIdx.x / kBlocks;
    const Place place = place_of(strip);
    const int first_live = live_vectors<kHeld>(first, place.end);
    Items<float, kHeld * kWidth> x_held;
    load_down(x_held, x + place.outer * x_outer_stride + place.inner, x_stride, first, first_live);
    extern __shared__ __align__(16) unsigned char stash[];
    float* x_stash = reinterpret_cast<float*>(stash) + threadIdx.x * kWidth;
#pragma unroll 1
    for (int group = 0; group < kGroups; ++group) {
        fetch_group(x_stash, x + place.outer * x_outer_stride + place.inner, x_stride, first + kHeld * kStep, place.end, group);
        end_group();
    }
    const column_t end = place.end;
    const bool mine = end > 0;  // are there rows for this thread?
    float* div_rows = div_out + place.outer * div_outer_stride + place.inner;
    const int held_live = live_vectors<kHeld>(first, end);
    Row rows[kWidth] = {};

    // 1. Go down the strip.
    State folded1[kWidth];
#pragma unroll
    for (int r = 0; r < kWidth; ++r) folded1[r] = State::identity();
    if (held_live == kHeld) {
        auto& x_items = x_held;
#pragma unroll
        for (int r = 0; r < kWidth; ++r)
            sweep1_fold<kHeld>(folded1[r], along(x_items, r), kHeld);
    } else if (held_live > 0) {
        auto& x_items = x_held;
#pragma unroll
        for (int r = 0; r < kWidth; ++r)
            sweep1_fold<kHeld>(folded1[r], along(x_items, r), held_live);
    }
#pragma unroll 1
    for (int slot = 0; slot < kStash; slot += kVectors) {
        if (slot % kPerGroup == 0) await_group();
        const column_t at = first + (kHeld + slot) * kStep;
        const int live = live_vectors<kVectors>(at, end);
        if (live == kVectors) {
            Items<float, kVectors * kWidth> x_items;
            read_stash(x_items, x_stash, slot, kVectors);
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep1_fold<kVectors>(folded1[r], along(x_items, r), kVectors);
        } else if (live > 0) {
            Items<float, kVectors * kWidth> x_items;
            read_stash(x_items, x_stash, slot, live);
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep1_fold<kVectors>(folded1[r], along(x_items, r), live);
        }
    }
    leave_pieces(folded1, pieces1);
    __syncthreads();
    const auto piece1 = [&](int piece, int row) { return pieces1[piece][row]; };
    const auto total1 = [&](int row, const State& merged) {
        if (threadIdx.x % kMergers == 0) totals1[row] = merged;
    };
    __cluster_barrier_wait();
    // Every block leaves what it has of a row in every block of the cluster.
    merge_rows<State>(kPieces, piece1, [&](int row, const State& merged) {
        for (int to = threadIdx.x % kMergers; to < kBlocks; to += kMergers)
            *static_cast<State*>(__cluster_map_shared_rank(&parts1[slice][row], to)) = merged;
    });
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    merge_rows<State>(kBlocks, [&](int block, int row) { return parts1[block][row]; }, total1);
    __syncthreads();
#pragma unroll
    for (int r = 0; r < kWidth; ++r) {
        if (!mine) break;
        const State& state = totals1[across * kWidth + r];
        const float m = state.m;  // texts.py:27  m = fg.max(x)
        const float sum_exp = isfinite(m) ? state.sum_exp : kNaN;  // texts.py:28  return fg.exp(x - m) / fg.sum(fg.exp(x - m))
        const Divisor sum_exp_divisor(sum_exp);
        rows[r].m = m;
        rows[r].sum_exp_divisor = sum_exp_divisor;
    }

    // 2. Go down the strip, which is still here.
#pragma unroll
    for (int slot = 0; slot < kHeld; slot += kMapped) {
        const column_t at = first + slot * kStep;
        const int live = live_vectors<kMapped>(at, end);
        if (live == kMapped) {
            auto x_items = part<kMapped * kWidth>(x_held, slot * kWidth);
            Items<float, kMapped * kWidth> div_items;
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep2_map<kMapped>(along(div_items, r), along(x_items, r), rows[r].m, rows[r].sum_exp_divisor, kMapped);
            store_down(div_rows, div_stride, div_items, at, kMapped);
        } else if (live > 0) {
            auto x_items = part<kMapped * kWidth>(x_held, slot * kWidth);
            Items<float, kMapped * kWidth> div_items;
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep2_map<kMapped>(along(div_items, r), along(x_items, r), rows[r].m, rows[r].sum_exp_divisor, live);
            store_down(div_rows, div_stride, div_items, at, live);
        }
    }
#pragma unroll 1
    for (int slot = 0; slot < kStash; slot += kMapped) {
        const column_t at = first + (kHeld + slot) * kStep;
        const int live = live_vectors<kMapped>(at, end);
        if (live == kMapped) {
            Items<float, kMapped * kWidth> x_items;
            read_stash(x_items, x_stash, slot, kMapped);
            Items<float, kMapped * kWidth> div_items;
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep2_map<kMapped>(along(div_items, r), along(x_items, r), rows[r].m, rows[r].sum_exp_divisor, kMapped);
            store_down(div_rows, div_stride, div_items, at, kMapped);
        } else if (live > 0) {
            Items<float, kMapped * kWidth> x_items;
            read_stash(x_items, x_stash, slot, live);
            Items<float, kMapped * kWidth> div_items;
#pragma unroll
            for (int r = 0; r < kWidth; ++r)
                sweep2_map<kMapped>(along(div_items, r), along(x_items, r), rows[r].m, rows[r].sum_exp_divisor, live);
            store_down(div_rows, div_stride, div_items, at, live);
        }
    }
}
