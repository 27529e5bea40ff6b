#pragma once
// Teams of threads that own a row together: how many, how they wait and agree.

namespace fusegen {

// A block of a size that is known.
template <int kCount>
struct Block {
    static constexpr int kThreads = kCount, kMostWarps = kCount / 32;
    static constexpr bool kOneWarp = false;

    static __device__ __forceinline__ constexpr int threads() { return kCount; }
    static __device__ __forceinline__ void sync() { __syncthreads(); }
    static __device__ __forceinline__ bool any(bool mine) { return __syncthreads_or(mine); }
};

// A block of whatever size it is launched with, up to so many threads.
template <int kMost>
struct AnyBlock {
    static constexpr int kThreads = 0, kMostWarps = kMost / 32;  // not known before

    static __device__ __forceinline__ int threads() { return static_cast<int>(blockDim.x); }
};

// Neighbouring lanes of a warp; those that wait for one another are all 32.
template <int kCount>
struct Lanes {
    static constexpr int kThreads = kCount;
    static constexpr bool kOneWarp = true;

    static __device__ __forceinline__ constexpr int threads() { return kCount; }
    static __device__ __forceinline__ void sync() { __syncwarp(); }
    static __device__ __forceinline__ bool any(bool mine) { return __any_sync(0xffffffffu, mine); }
};

// Of k, the part that each of so many lanes, warps or blocks has to have.
__device__ __forceinline__ constexpr int share_of(int k, int parts) { return (k + parts - 1) / parts; }

// How a row lies among the threads of a team: each has vectors of so many neighbouring elements.
template <typename TeamType, int kVectorWidth>
struct Vectors {
    typedef TeamType Team;
    static constexpr int kWidth = kVectorWidth;
};

}  // namespace fusegen
