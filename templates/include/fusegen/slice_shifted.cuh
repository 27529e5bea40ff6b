#pragma once
// Slices of rows that lie at other offsets from a boundary than the vectors that are gone over: aligned words come to
// shared memory as they lie, and are shifted as they are read. The vectors of a warp, neighbours, take one place more.

#include <fusegen/shift.cuh>
#include <fusegen/slice.cuh>

namespace fusegen {

constexpr int kWord = 16;  // bytes of a copy

// Elements that `vectors` vectors take.
template <typename T, int kWidth, typename Column>
__device__ __forceinline__ Column shifted_room(Column vectors)
{
    return vectors * kWidth + (vectors + 31) / 32 * static_cast<int>(kWord / sizeof(T));
}

// Bytes from a slice's begin to vector `at`, of those that shared memory has.
template <int kBytes>
__device__ __forceinline__ unsigned shifted_place(unsigned at)
{
    return at * kBytes + at / 32 * kWord;
}

template <typename T>
struct ShiftedSlots {
    const T* slots;
    int off;

    __device__ __forceinline__ ShiftedSlots(const T* room, const Shifted<T>& row)
        : slots(room), off(row.template off<kWord>())
    {
    }
};

// Starts the copies of aligned words; of one that is not all of the row, its elements are there at once.
template <int kBytes, typename T>
__device__ __forceinline__ void copy_words(char* to, const char* from, const Shifted<T>& row)
{
    for (int byte = 0; byte < kBytes; byte += kWord) {
        const T* first = reinterpret_cast<const T*>(from + byte);
        T* place = reinterpret_cast<T*>(to + byte);
        if (first >= row.begin && first + kWord / sizeof(T) <= row.end) {
            copy_vector<kWord>(static_cast<unsigned>(__cvta_generic_to_shared(place)), from + byte);
            continue;
        }
        for (int e = 0; e < static_cast<int>(kWord / sizeof(T)); ++e)
            place[e] = first + e >= row.begin && first + e < row.end ? first[e] : T{};
    }
}

// As fetch_group of <fusegen/slice.cuh>: a lane copies the words in which its vectors begin, the last of a warp that
// behind them. Only the words around the first vector and behind the last may be not all of the row.
template <typename Layout, typename T, typename Column>
__device__ __forceinline__ void fetch_group(
    T* slots, const Shifted<T>& row, Column first, Column count, Column step, Column steps)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    const int off = row.template off<kWord>(), threads = Layout::Team::threads();
    const bool behind = off != 0 && threadIdx.x % 32 == 31;
    Column at = step * threads + static_cast<int>(threadIdx.x);
    char* to = reinterpret_cast<char*>(slots) + shifted_place<kBytes>(at);
    const char* from = reinterpret_cast<const char*>(row.body + (first + at) * kWidth) - off;
    for (; steps > 0 && at < count; --steps) {
        if (at > 0)
            copy_vector<kBytes>(static_cast<unsigned>(__cvta_generic_to_shared(to)), from);
        else
            copy_words<kBytes>(to, from, row);
        if (off != 0 && at == count - 1)
            copy_words<kWord>(to + kBytes, from + kBytes, row);
        else if (behind)
            copy_vector<kWord>(static_cast<unsigned>(__cvta_generic_to_shared(to + kBytes)), from + kBytes);
        at += threads, from += threads * kBytes, to += shifted_place<kBytes>(threads);
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

// kBytes that begin `off` bytes behind a boundary, where 0 < off < 16: the 16-byte words around them.
template <int kBytes>
struct Around {
    static constexpr int kWords = kBytes / 4, kHeld = kWords + kWord / 4;
    unsigned held[kHeld + 1];  // one more for the shift of the last

    __device__ __forceinline__ void load(const char* from, int off, bool wanted)
    {
        const uint4* words = reinterpret_cast<const uint4*>(from - off);
#pragma unroll
        for (int w = 0; w < kHeld; w += 4) {
            const uint4 four = wanted ? words[w / 4] : make_uint4(0, 0, 0, 0);
            held[w] = four.x, held[w + 1] = four.y, held[w + 2] = four.z, held[w + 3] = four.w;
        }
        held[kHeld] = 0;
    }
    // Those that begin kFar words and `off` % 4 bytes behind the first.
    template <int kFar>
    __device__ __forceinline__ void shift_far(unsigned* word, int off) const
    {
#pragma unroll
        for (int w = 0; w < kWords; ++w) word[w] = __funnelshift_r(held[w + kFar], held[w + kFar + 1], off % 4 * 8);
    }
    // One branch, the same for all of a row, says by how many words, where selects would be several for every one.
    __device__ __forceinline__ void shift(unsigned* word, int off) const
    {
        if (off < 4)
            shift_far<0>(word, off);
        else if (off < 8)
            shift_far<1>(word, off);
        else if (off < 12)
            shift_far<2>(word, off);
        else
            shift_far<3>(word, off);
    }
};

// As read_items of <fusegen/copy.cuh>.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void read_items(
    Chunk<T, kCount, Layout>& items, const ShiftedSlots<T>& slice, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    const unsigned apart = shifted_place<kBytes>(Layout::Team::threads());
    const char* from = reinterpret_cast<const char*>(slice.slots) + shifted_place<kBytes>(at);
    if (slice.off == 0) {  // as arrays may beside one that lies apart
#pragma unroll
        for (int v = 0; v < kCount / kWidth; ++v)
            if (v < live) load_vector(items, v, reinterpret_cast<const T*>(from + v * apart));
        return;
    }
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        Around<kBytes> around;  // one at a time: words of all would take too many registers
        around.load(from + v * apart + slice.off, slice.off, v < live);
        around.shift(items.word + v * kBytes / 4, slice.off);
    }
}

}  // namespace fusegen
