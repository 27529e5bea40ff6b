#pragma once
// A row that begins or ends inside a vector: whole vectors lie between a head and a tail of fewer than kWidth
// elements, of which a thread takes one at most. Where more than a vector is read around each, a margin of kMargin
// vectors on either side counts as head and tail.

#include <fusegen/items.cuh>

namespace fusegen {

// Elements before the first whole vector.
template <int kWidth, int kMargin = 0, typename T, typename Column>
__device__ __forceinline__ Column head_of(const T* row, Column n_cols)
{
    const int phase = static_cast<int>((reinterpret_cast<unsigned long long>(row) / sizeof(T)) % kWidth);
    const Column to_boundary = (kWidth - phase) % kWidth + kMargin * kWidth;
    return to_boundary < n_cols ? to_boundary : n_cols;
}

// Whole vectors behind the head, but for those of the margin.
template <int kWidth, int kMargin = 0, typename Column>
__device__ __forceinline__ Column vectors_of(Column n_cols, Column head)
{
    const Column whole = (n_cols - head) / kWidth;
    return whole > kMargin ? whole - kMargin : 0;
}

// Where a block's vectors of a row are: behind so many elements, among so many vectors, before number `end`.
template <typename Column>
struct Reach {
    Column head, vectors, end;
};

// Those of `share` vectors from number `begin` on that the row has.
template <int kWidth, int kMargin = 0, typename T, typename Column>
__device__ __forceinline__ Reach<Column> reach_of(const T* row, Column n_cols, Column begin, Column share)
{
    const Column head = head_of<kWidth, kMargin>(row, n_cols), vectors = vectors_of<kWidth, kMargin>(n_cols, head);
    return {head, vectors, begin + share < vectors ? begin + share : vectors};
}

// The column in the head or in the tail that is this thread's; -1: none.
template <int kWidth, typename Column>
__device__ __forceinline__ Column edge_of(Column n_cols, Column head, Column n_vectors, int rank, bool mine = true)
{
    const Column tail = n_cols - head - n_vectors * kWidth;
    if (mine && rank < head) return rank;
    if (mine && rank < head + tail) return n_cols - tail - head + rank;
    return -1;
}

// The element in that column as a chunk of its own; nothing where it is -1.
template <typename Layout, typename T, typename Column>
__device__ __forceinline__ Chunk<T, 1, Layout> edge_item(const T* __restrict__ from, Column edge)
{
    Chunk<T, 1, Layout> item = {};
    if (edge >= 0) item.set(0, from[edge]);
    return item;
}

}  // namespace fusegen
