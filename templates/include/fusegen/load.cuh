#pragma once
// A thread's chunk of a row: from memory to items.

#include <fusegen/caches.cuh>
#include <fusegen/items.cuh>
#include <fusegen/team.cuh>

namespace fusegen {

// How many of a thread's kCount vectors, of which the first is number `at`, lie before `end`.
template <typename Team, int kCount, typename Column>
__device__ __forceinline__ int live_vectors(Column at, Column end)
{
    // A shift does it where that is known, for as many as leave lists the registers that they need. Not by 0: whether
    // max(min(a, 4), 0) is 4, ptxas of CUDA 12.9 and 13.0 asks of a flag of VIMNMX.RELU that says something else.
    if constexpr (kCount > 1 && kCount <= 6 && Team::kThreads > 0) {
        constexpr int kApart = Team::threads();
        if constexpr (kApart > 1 && (kApart & (kApart - 1)) == 0) {
            const Column most = kCount * kApart, left = end - at < most ? end - at : most;
            return (static_cast<unsigned>(left > 0 ? left : 0) + kApart - 1) / kApart;
        }
    }
    const int apart = Team::threads();
    if (at + (kCount - 1) * apart < end) return kCount;
    int live = 0;
#pragma unroll
    for (int v = 0; v < kCount; ++v) live += at + v * apart < end;
    return live;
}

// Vector v of a chunk, in accesses of up to 16 bytes.
template <Caching kCaching = kKept, typename T, int kCount, typename Layout>
__device__ __forceinline__ void load_vector(Chunk<T, kCount, Layout>& items, int v, const T* __restrict__ from)
{
    constexpr int kWidth = Layout::kWidth, kWords = kWidth * sizeof(T) / 4;
    unsigned* word = items.word + v * kWords;
    if constexpr (kWidth == 1) {
        items.set(v, *from);
    } else if constexpr (kWords % 4 == 0 && kWords > 0) {
#pragma unroll
        for (int w = 0; w < kWords; w += 4)
            load_words<kCaching, 4>(word + w, reinterpret_cast<const unsigned*>(from) + w);
    } else if constexpr (kWords == 1 || kWords == 2) {
        load_words<kCaching, kWords>(word, reinterpret_cast<const unsigned*>(from));
    } else {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) items.set(v * kWidth + e, from[e]);
    }
}

// The `live` vectors of a chunk, the first of which is number `at`.
template <Caching kCaching = kKept, typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_items(
    Chunk<T, kCount, Layout>& items, const T* __restrict__ from, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth;
    const int apart = Layout::Team::threads();
    const T* first = from + at * kWidth;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v)
        if (v < live) load_vector<kCaching>(items, v, first + v * apart * kWidth);
}

// The same items of an array that all rows share, and that is not aligned as they are.
template <typename T, int kCount, typename Layout, typename Columns>
__device__ __forceinline__ void load_columns(
    Chunk<T, kCount, Layout>& items, const T* __restrict__ columns, const Columns& column_of, int live)
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) items.set(i, i < live * Layout::kWidth ? columns[column_of(i)] : T{});
}

}  // namespace fusegen
