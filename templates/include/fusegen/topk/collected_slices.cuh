#pragma once
// A list of a row whose blocks each collected one of their slice: the last block has the best of all.

#include <fusegen/topk/collected.cuh>

namespace fusegen {

// Entries of a slice's list that are held to others' for a bar, and, a power of two, those that are looked at first.
__device__ __forceinline__ int share_in_slice(int k, int slices) { return min(k, share_of(5 * k, 4 * slices)); }
__device__ __forceinline__ int bits_ahead(int k, int slices) { return 32 - __clz(2 * share_in_slice(k, slices) + 7); }

// The columns of a block's slice: neighbours from `first` on and, of the first slice, those beside whole vectors: the
// row's `head` first ones, and what is left behind `end`.
template <typename Column>
struct Slice {
    Column first, columns, head, edges, end;
    int slices;

    __device__ __forceinline__ Slice(
        Column n_cols, Column head, Column begin, Column end, Column n_vectors, int width, int slices)
        : first(head + begin * width), columns(end > begin ? (end - begin) * width : 0), head(head),
          edges(begin == 0 ? n_cols - n_vectors * width : 0), end(head + n_vectors * width), slices(slices)
    {
    }
    __device__ __forceinline__ Span span() const { return {static_cast<int>(first), static_cast<int>(columns)}; }
    __device__ __forceinline__ int ahead(int k) const { return 1 << bits_ahead(k, slices); }
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
    static constexpr bool kSlices = true;
    unsigned long long bar;
    unsigned high;     // top word of the best
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

template <typename CollectedType>
__device__ __noinline__ void search_slices(
    CollectedType& collected, const typename CollectedType::Key* from, int entries, int rank)
{
    search_best<CollectedType::kK, CollectedType::kRoom, CollectedType::kFullBin>(
        collected.best, collected.beside, collected.count, collected.tally, entries, rank,
        [&](int j) { return from[j]; });
}

// The best of all lists of a row's slices to `collected.best`. Each list has kK entries, with zeros where its slice had
// no more. Few entries are among the best, unless the row is in some order: so what is n-th among the s-th ones,
// n s >= k, is a bar, and the last one of each list, too; and only of lists whose first ones all reach it, others are
// looked at. What runs here has not run before, and code comes from far: there is little of it.
template <typename CollectedType>
__device__ __forceinline__ void gather_slices(
    CollectedType& collected, const typename CollectedType::Key* from, int n_cols, int slices, int rank)
{
    typedef typename CollectedType::Key Key;
    typedef typename CollectedType::Team Team;
    constexpr int kK = CollectedType::kK, kRoom = CollectedType::kRoom, kTeam = Team::kThreads, kBatch = 4;
    auto& tally = collected.tally;
    Key* const told = collected.beside;
    const int share = share_in_slice(kK, slices), shares = share_of(kK, share);
    const int bits = bits_ahead(kK, slices), ahead = 1 << bits, looked = slices << bits;
    if (rank == 0) collected.bar = 1, collected.count = collected.crowded = collected.high = 0;
    clear_bins(tally, rank);
    Team::sync();
    Key last{};
    unsigned high = 0;
    for (int list = rank; list < slices; list += kTeam) {
        const Key* const entries = from + list * kK;
        told[list] = entries[share - 1];
        high = max(high, top_word(entries[0]));
        last = max(last, entries[kK - 1]);
    }
    high = greatest_of_warp(high);
    const unsigned top = greatest_of_warp(top_word(last));
    const Key rest = greatest_of_warp(top_word(last) == top ? static_cast<unsigned>(last) : 0u);
    if (rank % 32 == 0) atomicMax(&collected.high, high), atomicMax(&collected.bar, Key{top} << 32 | rest);
    Team::sync();
    for (int list = rank; list < slices; list += kTeam) {
        const Key mine = told[list];
        int better = 0;
#pragma unroll 4
        for (int other = 0; other < slices; ++other) better += told[other] > mine;
        if (better == shares - 1 && mine > collected.bar) collected.bar = mine;
    }
    Team::sync();
    const Key bar = collected.bar;
    unsigned* const crowded = reinterpret_cast<unsigned*>(told);
    const auto take = [&](const Key& key) {
        if (key < bar) return false;
        const unsigned place = atomicAdd(&collected.count, 1u);
        if (place < kRoom) collected.best[place] = key;
        return true;
    };
    for (int first = rank; first < looked; first += kBatch * kTeam) {
        Key keys[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {  // all loads are under way together
            const int j = first + b * kTeam, place = j & (ahead - 1);
            keys[b] = j < looked && place < kK ? from[(j >> bits) * kK + place] : Key{};
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int j = first + b * kTeam;
            if (take(keys[b]) && (j & (ahead - 1)) == ahead - 1)
                crowded[atomicAdd(&collected.crowded, 1u)] = j >> bits;
        }
    }
    Team::sync();
    const int more = kK - ahead, behind = more > 0 ? static_cast<int>(collected.crowded) * more : 0;
    for (int j = rank; j < behind; j += kTeam) take(from[crowded[j / more] * kK + ahead + j % more]);
    if (behind > 0) Team::sync();
    const int count = static_cast<int>(collected.count);
    if (count > kRoom)
        search_slices(collected, from, slices * kK, rank);
    else
        put_in_order(collected, Span{0, n_cols}, kK, count, top_word(bar), collected.high, rank);
}

}  // namespace fusegen
