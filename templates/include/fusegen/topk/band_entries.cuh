#pragma once
// Entries of lists, in shared memory until all rows of a band have theirs.

namespace fusegen {

// A block's rows of a list of kK: lanes put entries where they are, far from one another, and neighbours then write
// neighbours.
template <typename T, int kK, int kRows, int kThreads>
struct BandEntries {
    static constexpr int kPitch = kK | 1;  // an odd number: rows begin in different banks
    static constexpr int kBytes = (kRows * kPitch * int(sizeof(T)) + 15) / 16 * 16;
    unsigned char* slots;

    __device__ __forceinline__ T& at(int row, int entry) const
    {
        return reinterpret_cast<T*>(slots)[row * kPitch + entry];
    }

    // Those of so many rows, each kStep behind the one before.
    template <int kStep, typename Stored>
    __device__ __forceinline__ void put(Stored* to, int rows) const
    {
#pragma unroll 2
        for (int i = threadIdx.x; i < rows * kK; i += kThreads) to[i / kK * kStep + i % kK] = at(i / kK, i % kK);
    }
};

}  // namespace fusegen
