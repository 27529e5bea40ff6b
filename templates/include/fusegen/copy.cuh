#pragma once
// Copies to shared memory that are under way while a thread works. A thread copies what it will read
// itself, so that no barrier is needed.

#include <fusegen/items.cuh>
#include <fusegen/team.cuh>

namespace fusegen {

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for the oldest of kGroups groups that was not waited for. An empty group takes its place, so that
// there are always kGroups - 1 younger ones.
template <int kGroups>
__device__ __forceinline__ void await_group()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups - 1) : "memory");
    end_group();
}

__device__ __forceinline__ void await_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Starts the copy of a vector: of 8 bytes, through L1, or 16 at a time.
template <int kBytes>
__device__ __forceinline__ void copy_vector(unsigned slot, const char* source)
{
    if constexpr (kBytes == 8) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(slot), "l"(source) : "memory");
    } else {
#pragma unroll
        for (int byte = 0; byte < kBytes; byte += 16)
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot + byte), "l"(source + byte) : "memory");
    }
}

// The items of a chunk from shared memory; `at` counts the vectors there.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void read_items(Chunk<T, kCount, Layout>& items, const T* slots, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kWords = kWidth * sizeof(T) / 4;
    const int apart = Layout::Team::threads();
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        if (v >= live) continue;
        const uint4* from = reinterpret_cast<const uint4*>(slots + (at + v * apart) * kWidth);
#pragma unroll
        for (int w = 0; w < kWords; w += 4) {
            const uint4 four = from[w / 4];
            unsigned* word = items.word + v * kWords + w;
            word[0] = four.x, word[1] = four.y, word[2] = four.z, word[3] = four.w;
        }
    }
}

}  // namespace fusegen
