#pragma once
// A thread's chunk of rows that lie side by side: vectors down the columns, an element of each row in every one.

#include <fusegen/load.cuh>
#include <fusegen/strip/team.cuh>

namespace fusegen {

// One row of a chunk: an element of every vector.
template <typename T, int kCount, typename Layout>
struct Along {
    Chunk<T, kCount * Layout::kWidth, Layout>& vectors;
    int row;

    __device__ __forceinline__ T operator[](int i) const { return vectors[i * Layout::kWidth + row]; }
    __device__ __forceinline__ float widened(int i) const { return vectors.widened(i * Layout::kWidth + row); }
    __device__ __forceinline__ void set(int i, T item) const { vectors.set(i * Layout::kWidth + row, item); }
};

template <typename T, int kCount, typename Layout>
__device__ __forceinline__ Along<T, kCount / Layout::kWidth, Layout> along(Chunk<T, kCount, Layout>& vectors, int row)
{
    return {vectors, row};
}

// The elements of one row, `stride` apart.
template <typename T>
struct Strided {
    const T* first;
    long long stride;

    __device__ __forceinline__ T operator[](long long column) const { return first[column * stride]; }
};

// The `live` vectors of a chunk, the first of which is at column `at`.
template <Caching kCaching = kKept, typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_items(
    Chunk<T, kCount, Layout>& items, const T* __restrict__ from, long long stride, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth;
    from += at * stride;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v, from += Layout::Team::threads() * stride)
        if (v < live) load_vector<kCaching>(items, v, from);
}

// What all rows share of the same columns.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_along(
    Chunk<T, kCount, Layout>& items, const T* __restrict__ columns, Column at, int live)
{
#pragma unroll
    for (int v = 0; v < kCount; ++v) items.set(v, v < live ? columns[at + v * Layout::Team::threads()] : T{});
}

}  // namespace fusegen
