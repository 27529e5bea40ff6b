#pragma once
// A slice of a row that comes to shared memory and stays there, group by group.

#include <fusegen/copy.cuh>
#include <fusegen/load.cuh>

namespace fusegen {

constexpr int kGroups = 8;  // of copies on their way

// Vectors of a thread in each group: a multiple of a chunk's.
template <typename Team, int kChunk, typename Column>
__device__ __forceinline__ Column vectors_per_group(Column count)
{
    const int threads = Team::threads();
    const Column chunks = (count + threads * kChunk - 1) / (threads * kChunk);
    return (chunks + kGroups - 1) / kGroups * kChunk;
}

// Starts the copies of one group of a slice of `count` vectors from number `first` on.
template <typename Layout, typename T, typename Column>
__device__ __forceinline__ void fetch_group(
    T* slots, const T* __restrict__ from, Column first, Column count, Column step, Column steps)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    const int threads = Layout::Team::threads();
    const Column end = (step + steps) * threads < count ? (step + steps) * threads : count;
    Column at = step * threads + static_cast<int>(threadIdx.x);
    // Places move on by sums: a product of `at` for each would be most of the loop.
    unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(slots)) + static_cast<unsigned>(at) * kBytes;
    const char* source = reinterpret_cast<const char*>(from + (first + at) * kWidth);
    for (; at < end; at += threads, slot += threads * kBytes, source += threads * kBytes)
        copy_vector<kBytes>(slot, source);
}

// Waits for the oldest group that was not waited for.
__device__ __forceinline__ void await_group() { await_group<kGroups>(); }

// Chunk by chunk over a slice whose groups of `per_group` vectors arrive meanwhile; see <fusegen/walk.cuh>.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_arriving(Column begin, Column end, int rank, Column per_group, const Visit& visit)
{
    const int apart = Team::threads();
    int arrived = 0;  // groups
    Column step = 0, at = begin + rank;
    for (; at + (kVectors - 1) * apart < end; at += kVectors * apart) {
        for (; arrived * per_group <= step; ++arrived) await_group();
        step += kVectors;
        visit(at, kVectors);
    }
    if constexpr (kVectors > 1) {
        if (at < end) {
            for (; arrived < kGroups; ++arrived) await_group();
            visit(at, live_vectors<Team, kVectors - 1>(at, end));
        }
    }
}

// Chunk by chunk over one group of a slice whose first vector is number `first`.
template <typename Team, int kVectors, typename Column, typename Visit>
__device__ __forceinline__ void for_group(
    Column first, Column end, int rank, int group, Column per_group, const Visit& visit)
{
    const int apart = Team::threads();
    for (Column step = group * per_group; step < (group + 1) * per_group; step += kVectors) {
        const Column at = first + step * apart + rank;
        if (at + (kVectors - 1) * apart < end)
            visit(at, kVectors);
        else if (at < end)
            visit(at, live_vectors<Team, kVectors - 1>(at, end));
    }
}

}  // namespace fusegen
