#pragma once
// The best of a row, whatever its values are: by histograms of keys that memory has.

#include <fusegen/topk/bins.cuh>

namespace fusegen {

// The kK best keys of a row, in order, to `best`; there is room for kRoom there, and `beside`. `key_at` brings the key
// of a column. Every thread of the team takes part, after a barrier.
template <int kK, int kRoom, int kFullBin, typename Key, typename TallyType, typename KeyAt>
__device__ __forceinline__ void search_best(
    Key* best, Key* beside, unsigned& count, TallyType& tally, int n_cols, int rank, const KeyAt& key_at)
{
    typedef typename TallyType::Team Team;
    const Key least = select_of<Key>(n_cols, kK, kRoom, tally, rank, key_at);
    if (rank == 0) count = 0;
    Team::sync();
    for (int column = rank; column < n_cols; column += Team::kThreads) {
        const Key key = key_at(column);
        if (key >= least) best[atomicAdd(&count, 1u)] = key;
    }
    Team::sync();
    sort_by_bins<kRoom, kFullBin>(best, beside, static_cast<int>(count), kK, tally, rank);
}

}  // namespace fusegen
