#pragma once
// Keys that lanes hold, sorted by one network.

#include <fusegen/topk/networks.cuh>

namespace fusegen {

// Two lanes' keys, the better ones in the lower lane: key by key or, mirrored, first by last.
template <int kMine, typename Key>
__device__ __forceinline__ void split(Key (&mine)[kMine], int lane_mask, bool mirrored, bool lower)
{
    Key more[kMine];
#pragma unroll
    for (int m = 0; m < kMine; ++m)
        more[m] = __shfl_xor_sync(0xffffffffu, mine[mirrored ? kMine - 1 - m : m], lane_mask);
#pragma unroll
    for (int m = 0; m < kMine; ++m) mine[m] = (mine[m] > more[m]) == lower ? mine[m] : more[m];
}

// Sorts keys that a team's lanes hold, the best in the first lane: bitonic merges of ever more lanes. kLoop: rounds
// share their code, for kernels so long that they wait for instructions.
template <int kTeam, bool kLoop = false, int kMine, typename Key>
__device__ __forceinline__ void sort_of_lanes(Key (&mine)[kMine], int rank)
{
    constexpr int kUnrolled = kLoop ? 1 : 8;
    sort<kMine>(mine);
#pragma unroll kUnrolled
    for (int lanes = 2; lanes <= kTeam; lanes *= 2) {
        split(mine, lanes - 1, true, (rank & lanes / 2) == 0);
#pragma unroll kUnrolled
        for (int gap = lanes / 4; gap > 0; gap /= 2) split(mine, gap, false, (rank & gap) == 0);
        straighten<kMine>(mine);
    }
}

// Entries of a list in shared memory, with a gap behind those of each lane: lanes write theirs at once.
template <typename Key, int kMine>
struct WithGaps {
    Key* slots;

    __device__ __forceinline__ Key& operator[](int entry) const { return slots[entry + entry / kMine]; }
};

// All keys of a row in order: the first kK of them to `best`.
template <int kTeam, int kK, bool kLoop = false, typename Key, int kMine>
__device__ __forceinline__ void merge_row(const WithGaps<Key, kMine>& best, Key (&mine)[kMine], int rank)
{
    sort_of_lanes<kTeam, kLoop>(mine, rank);
#pragma unroll
    for (int m = 0; m < kMine; ++m)
        if (rank * kMine + m < kK) best[rank * kMine + m] = mine[m];
    __syncwarp();
}

}  // namespace fusegen
