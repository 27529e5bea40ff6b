#pragma once
// A list of a row whose blocks each collected one of their slice: the last block has the best of all.

#include <fusegen/topk/collected.cuh>

namespace fusegen {

// The columns of a block's slice: neighbours from `first` on and, of the first slice, those beside whole vectors: the
// row's `head` first ones, and what is left behind `end`.
template <typename Column>
struct Slice {
    Column first, columns, head, edges, end;

    __device__ __forceinline__ Slice(Column n_cols, Column head, Column begin, Column end, Column n_vectors, int width)
        : first(head + begin * width), columns(end > begin ? (end - begin) * width : 0), head(head),
          edges(begin == 0 ? n_cols - n_vectors * width : 0), end(head + n_vectors * width)
    {
    }
    __device__ __forceinline__ Column count() const { return columns + edges; }
    __device__ __forceinline__ Column of(Column j) const
    {
        if (j < columns) return first + j;
        j -= columns;
        return j < head ? j : end + (j - head);
    }
};

// Where a block collects its slice's list, and the last one those of all.
template <typename TeamType, typename KeysType, int kBest, int kRoomFor, int kBinBits>
struct CollectedSlices : Collected<TeamType, KeysType, kBest, kRoomFor, kBinBits> {
    unsigned long long bar;
    unsigned crowded;  // lists whose first entries all reach the bar
};

// Leaves a slice's list in device memory, with zeros behind it where the slice has no more.
template <typename CollectedType>
__device__ __forceinline__ void publish(
    typename CollectedType::Key* to, const CollectedType& collected, int rank)
{
    typedef typename CollectedType::Key Key;
    const int count = static_cast<int>(collected.count);
    for (int j = rank; j < CollectedType::kK; j += CollectedType::Team::kThreads)
        to[j] = j < count ? collected.best[j] : Key{};
}

// The best of all slices' lists, which are in order, to `collected.best`. Each list has kK entries, zeros among them where
// its slice has no more than `each` elements, or none: all but `whole` of them. Few entries are among the best, unless
// the row is in some order. So the first ones of all lists set a bar, as does the last one of any; and only of lists
// whose first ones all reach it, others are looked at.
template <typename CollectedType>
__device__ __noinline__ void gather_slices(
    CollectedType& collected, const typename CollectedType::Key* from, int slices, int whole, int each, int rank)
{
    typedef typename CollectedType::Key Key;
    typedef typename CollectedType::Team Team;
    constexpr int kK = CollectedType::kK, kRoom = CollectedType::kRoom, kTeam = Team::kThreads;
    auto& tally = collected.tally;
    const int wanted = min(4 * ((kK + slices - 1) / slices) + 8, kK);
    const int bits = 32 - __clz(wanted - 1), ahead = 1 << bits, looked = slices << bits;
    const auto first_of = [&](int j) {
        const int place = j & (ahead - 1);
        return place < kK ? from[(j >> bits) * kK + place] : Key{};
    };
    Key last{1};
    for (int list = rank; list < slices; list += kTeam) last = max(last, from[list * kK + kK - 1]);
    if (rank == 0) collected.bar = 1, collected.count = collected.crowded = 0;
    Team::sync();
    if (last > 1) atomicMax(&collected.bar, last);
    Key bar{1};
    if (whole * min(min(ahead, kK), each) >= kK) bar = select_of<Key>(looked, kK, kK + kK / 8, tally, rank, first_of);
    Team::sync();
    bar = max(bar, static_cast<Key>(collected.bar));
    unsigned* const crowded = reinterpret_cast<unsigned*>(collected.beside);
    const auto take = [&](const Key& key) {
        if (key < bar) return;
        const unsigned place = atomicAdd(&collected.count, 1u);
        if (place < kRoom) collected.best[place] = key;
    };
#pragma unroll 4
    for (int j = rank; j < looked; j += kTeam) {
        const Key key = first_of(j);
        take(key);
        const bool all = (j & (ahead - 1)) == ahead - 1 && !(key < bar);
        if (all) crowded[atomicAdd(&collected.crowded, 1u)] = j >> bits;
    }
    Team::sync();
    const int more = kK - ahead, behind = more > 0 ? static_cast<int>(collected.crowded) * more : 0;
#pragma unroll 4
    for (int j = rank; j < behind; j += kTeam) take(from[crowded[j / more] * kK + ahead + j % more]);
    Team::sync();
    const int found = static_cast<int>(collected.count);
    if (found <= kRoom) {
        sort_by_bins<kRoom, CollectedType::kFullBin>(collected.best, collected.beside, found, kK, tally, rank);
    } else {
        search_best<kK, kRoom, CollectedType::kFullBin>(
            collected.best, collected.beside, collected.count, tally, slices * kK, rank, [&](int j) { return from[j]; });
    }
}

}  // namespace fusegen
