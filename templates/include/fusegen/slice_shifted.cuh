#pragma once
// Slices of rows that lie at other offsets from a boundary than the vectors that are gone over: aligned words come to
// shared memory as they lie, and are shifted as they are read. Where the first sweep shifts them, too, the vectors of a
// warp, neighbours, take one place more: it then reads nothing but what its own lanes have copied.

#include <fusegen/around.cuh>
#include <fusegen/shift.cuh>
#include <fusegen/slice.cuh>

namespace fusegen {

// Elements that `vectors` vectors take.
template <typename T, int kWidth, typename Column>
__device__ __forceinline__ Column shifted_room(Column vectors)
{
    return vectors * kWidth + (vectors + 31) / 32 * static_cast<int>(kWord / sizeof(T));
}

// Bytes from a slice's begin to vector `at`, of those that shared memory has.
template <int kBytes, bool kByWarps = true>
__device__ __forceinline__ unsigned shifted_place(unsigned at)
{
    return at * kBytes + (kByWarps ? at / 32 * kWord : 0);
}

// A slice whose vectors are read with what lies beside them.
template <typename T, bool kByWarps = true>
struct ShiftedSlots {
    unsigned slots;  // in shared memory
    int off;

    __device__ __forceinline__ ShiftedSlots(const T* room, const Shifted<T>& row)
        : slots(opaque(static_cast<unsigned>(__cvta_generic_to_shared(room)))), off(offset_in_word(row.body))
    {
    }
};

// As fetch_group of <fusegen/slice.cuh>: lanes copy the words in which their vectors begin, then each that behind the
// last vector that its warp has in one of the steps.
template <typename Layout, typename T, typename Column>
__device__ __forceinline__ void fetch_group(
    T* slots, const Shifted<T>& row, Column first, Column count, Column step, Column steps)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    const int off = row.template off<kWord>(), threads = Layout::Team::threads(), lane = threadIdx.x % 32;
    const Column begin = step * threads, end = begin + steps * threads < count ? begin + steps * threads : count;
    const unsigned room = static_cast<unsigned>(__cvta_generic_to_shared(slots));
    const char* from = reinterpret_cast<const char*>(row.body + first * kWidth) - off;
    const Column own = begin + static_cast<int>(threadIdx.x);
    for (Column at = own; at < end; at += threads)
        copy_vector<kBytes>(room + shifted_place<kBytes>(at), from + static_cast<unsigned>(at) * kBytes);
    if (off == 0) return;
    for (Column at = own - lane + lane * threads; at < end; at += 32 * threads) {
        const unsigned last = at + 31 < count ? at + 31 : count - 1;
        copy_vector<kWord>(room + shifted_place<kBytes>(last) + kBytes, from + (last + 1) * kBytes);
    }
}

// As for_arriving of <fusegen/slice.cuh>; the lanes of a warp wait together, as each needs what others copied.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_arriving_together(
    Column begin, Column end, int rank, Column per_group, const Visit& visit)
{
    const int apart = Team::threads(), lane = rank % 32;
    int arrived = 0;  // groups
    Column step = 0;
    for (Column first = begin + rank - lane; first < end; first += kVectors * apart, step += kVectors) {
        for (; arrived * per_group <= step; ++arrived) await_group();
        __syncwarp();
        const Column at = first + lane;
        if (at + (kVectors - 1) * apart < end)
            visit(at, kVectors);
        else if (at < end)
            visit(at, live_vectors<Team, kVectors - 1>(at, end));
    }
}

// As read_items of <fusegen/copy.cuh>.
template <typename T, bool kByWarps, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void read_items(
    Chunk<T, kCount, Layout>& items, const ShiftedSlots<T, kByWarps>& slice, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    const unsigned apart = shifted_place<kBytes, kByWarps>(Layout::Team::threads());
    const unsigned place = slice.slots + shifted_place<kBytes, kByWarps>(at);
    const char* from = static_cast<const char*>(__cvta_shared_to_generic(place));
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        if (v >= live) continue;
        if (slice.off == 0) {  // as arrays may beside one that lies apart
            load_vector(items, v, reinterpret_cast<const T*>(from + v * apart));
        } else {
            Around<kBytes> around[1];  // one at a time: words of all would take too many registers
            around[0].load(reinterpret_cast<const uint4*>(from + v * apart));
            shift_around(items.word + v * kBytes / 4, around, slice.off);
        }
    }
}

}  // namespace fusegen
