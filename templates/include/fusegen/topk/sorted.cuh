#pragma once
// Lists of rows in the registers of lanes: sorted by networks, merged by shuffles.

#include <fusegen/topk/team_lists.cuh>

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

// Where lanes keep all that may be in a list.
struct Nothing {};

// The kBest best of all lanes' keys, in order of slots. Each lane keeps kKept of its own: where one may have more of
// the list than these, as many of the others are sorted, too. `key_at` makes the key of a lane's item again; 0 of none.
template <int kTeam, int kBest, int kKept, int kOwn, int kCount, typename Key, typename KeyAt>
__device__ __forceinline__ void best_of_team(
    Key (&own)[kOwn], const Key (&keys)[kCount], int rank, const KeyAt& key_at)
{
    Key mine[kKept];
    take_best(mine, keys);
    merge_lists<kTeam, kBest>(own, mine, rank);
    if constexpr (kKept < least_of(kBest, kCount)) {
        // Never where lanes have about as many of the list as one another. A few keys at a time: this shall take no
        // registers that the above does not need.
        constexpr int kFew = 8;
#pragma unroll 1
        while (__any_sync(0xffffffffu, mine[kKept - 1] > entry_of<kTeam, kBest - 1>(own))) {
            Key next[kKept] = {}, more[kOwn];
#pragma unroll 1
            for (int first = 0; first < kCount; first += kFew) {
                Key few[kFew];
#pragma unroll
                for (int i = 0; i < kFew; ++i) {
                    few[i] = first + i < kCount ? key_at(first + i) : 0;
                    if (few[i] >= mine[kKept - 1]) few[i] = 0;
                }
                sort<kFew>(few);
                take(next, few);
            }
#pragma unroll
            for (int i = 0; i < kKept; ++i) mine[i] = next[i];
            merge_lists<kTeam, kBest>(more, mine, rank);
            take_list<kTeam>(own, more, rank);
        }
    }
}

// The best of a row lie in the kBest vectors with the best peaks: only these are sorted. `peak_of` makes the key of a
// chunk's vector, whose column is the vector's number; `vector_at` brings that vector's keys. kEdge: a lane may have an
// item beside vectors.
template <
    int kTeam, int kVectors, int kWidth, typename Keys, int kBest, bool kEdge, int kOwn, typename PeakOf,
    typename VectorAt>
__device__ __forceinline__ void best_of_peaks(
    typename Keys::Key (&own)[kOwn], int live, int rank, typename Keys::Key edge, const PeakOf& peak_of,
    const VectorAt& vector_at)
{
    typedef typename Keys::Key Key;
    Key peaks[kVectors] = {}, visited[kOwn], best[kBest] = {};
#pragma unroll
    for (int vector = 0; vector < kVectors; ++vector) {
        if (vector >= live) break;
        peaks[vector] = peak_of(vector);
    }
    sort<kVectors>(peaks);
    merge_lists<kTeam, kBest>(visited, peaks, rank);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const Key peak = visited[i];
        if (peak == 0) break;
        Key found[kWidth], most[least_of(kWidth, kBest)];
        vector_at(found, Keys::column(peak));
        if (i == 0) {
            take_best(best, found);
        } else {
            take_best(most, found);
            take(best, most);
        }
    }
    if constexpr (kEdge) {
        const Key beside[1] = {edge};
        take(best, beside);
    }
    merge_lists<kTeam, kBest>(own, best, rank);
}

}  // namespace fusegen
