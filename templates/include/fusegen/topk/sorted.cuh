#pragma once
// Lists in the registers of lanes: sorted by networks, merged by shuffles.

#include <fusegen/topk/networks.cuh>

namespace fusegen {

// The best of two lists in order.
template <int kKept, int kCount, typename Key>
__device__ __forceinline__ void take(Key (&best)[kKept], const Key (&more)[kCount])
{
    Key found[kKept];
    merge_best<kKept, kKept, least_of(kKept, kCount)>(found, best, more);
#pragma unroll
    for (int i = 0; i < kKept; ++i) best[i] = found[i];
}

// The best of keys in any order; zeros where there are fewer than a list has.
template <int kKept, int kCount, typename Key>
__device__ __forceinline__ void take_best(Key (&best)[kKept], const Key (&keys)[kCount])
{
    constexpr int kFound = least_of(kKept, kCount);
    sort_best<kFound, kCount>(best, keys);
#pragma unroll
    for (int i = kFound; i < kKept; ++i) best[i] = 0;
}

// The best of the team's lists, in all of its lanes.
template <int kTeam, int kKept, typename Key>
__device__ __forceinline__ void take_of_lanes(Key (&best)[kKept])
{
#pragma unroll
    for (int lane_mask = 1; lane_mask < kTeam; lane_mask *= 2) {
        Key more[kKept];
#pragma unroll
        for (int i = 0; i < kKept; ++i) more[i] = __shfl_xor_sync(0xffffffffu, best[i], lane_mask);
        take(best, more);
    }
}

// The key for this lane, of those from number `first` on.
template <int kTeam, int kKept, typename Key>
__device__ __forceinline__ Key key_for(const Key (&keys)[kKept], int first, int rank)
{
    Key mine{};
#pragma unroll
    for (int lane = 0; lane < kTeam; ++lane)
        if (lane == rank && first + lane < kKept) mine = keys[first + lane];
    return mine;
}

// The best of a row lie in the kKept vectors with the best peaks: only these are sorted. `peak_of` makes the key
// of a chunk's vector, whose column is the vector's number; `vector_at` brings that vector's keys.
template <int kTeam, int kVectors, int kWidth, typename Keys, int kKept, typename PeakOf, typename VectorAt>
__device__ __forceinline__ void best_of_peaks(
    typename Keys::Key (&best)[kKept], int live, int rank, const PeakOf& peak_of, const VectorAt& vector_at)
{
    typedef typename Keys::Key Key;
    Key peaks[kKept] = {};
#pragma unroll
    for (int vector = 0; vector < kVectors; ++vector) {
        if (vector >= live) break;
        peaks[vector] = peak_of(vector);
    }
    sort<kVectors>(peaks);  // kVectors <= kKept
    take_of_lanes<kTeam>(peaks);
#pragma unroll
    for (int first = 0; first < kKept; first += kTeam) {
        const Key peak = key_for<kTeam>(peaks, first, rank);
        if (peak == 0) break;
        Key found[kWidth], most[least_of(kWidth, kKept)];
        vector_at(found, Keys::column(peak));
        if (first == 0) {
            take_best(best, found);
        } else {
            take_best(most, found);
            take(best, most);
        }
    }
}

// Each lane gets the entries number rank, rank + kTeam, … of a list that all lanes have.
template <int kTeam, int kOwn, int kKept, typename Key>
__device__ __forceinline__ void entries_for(Key (&own)[kOwn], const Key (&best)[kKept], int rank)
{
#pragma unroll
    for (int i = 0; i < kOwn; ++i) own[i] = key_for<kTeam>(best, i * kTeam, rank);
}

// Merges the lists of the team's lanes: each lane gets the whole list's entries number rank, rank + kTeam, …
template <int kTeam, int kOwn, int kKept, typename Key>
__device__ __forceinline__ void own_entries(Key (&own)[kOwn], Key (&best)[kKept], int rank)
{
    take_of_lanes<kTeam>(best);
    entries_for<kTeam>(own, best, rank);
}

// Likewise, of lists that have no more entries than the team has lanes.
template <int kTeam, int kKept, typename Key>
__device__ __forceinline__ Key own_entry(Key (&best)[kKept], int rank)
{
    take_of_lanes<kTeam>(best);
    return key_for<kTeam>(best, 0, rank);
}

}  // namespace fusegen
