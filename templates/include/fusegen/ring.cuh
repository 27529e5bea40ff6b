#pragma once
// A ring of chunks in shared memory: some arrive while one is worked on.

#include <fusegen/copy.cuh>

namespace fusegen {

// Starts the copies of a chunk of kVectors vectors to a stage of a ring.
template <typename Layout, int kVectors, typename T, typename Column>
__device__ __forceinline__ void fetch_chunk(T* ring, const T* __restrict__ from, Column at, Column end, int stage)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T), kTeam = Layout::Team::kThreads;
    T* place = ring + (stage * kVectors * kTeam + threadIdx.x) * kWidth;
    const unsigned slot = static_cast<unsigned>(__cvta_generic_to_shared(place));
    const char* source = reinterpret_cast<const char*>(from + at * kWidth);
    if (at + (kVectors - 1) * kTeam < end) {
#pragma unroll
        for (int v = 0; v < kVectors; ++v)
            copy_vector<kBytes>(slot + v * kTeam * kBytes, source + v * kTeam * kBytes);
    } else {
#pragma unroll 1
        for (int v = 0; at + v * kTeam < end; ++v)
            copy_vector<kBytes>(slot + v * kTeam * kBytes, source + v * kTeam * kBytes);
    }
}

// Waits for the oldest chunk of a ring of kStages; the others may still be on their way.
template <int kStages>
__device__ __forceinline__ void await_chunk()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
}

}  // namespace fusegen
