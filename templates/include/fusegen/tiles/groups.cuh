#pragma once
// A list among those groups of a stored row whose greatest values are the best.

#include <fusegen/topk/finish.cuh>
#include <fusegen/topk/slices.cuh>

namespace fusegen {

// For a block: the K best of a row's values, in order. `greatest`: the key of each group's greatest value, its column
// the group's number. The K best of these are of the only groups that can have one of the K best values: what any
// other group has is beaten by K of them.
template <int kGroup, typename List>
__device__ __forceinline__ const typename List::Key* best_of_groups(
    List& list, int (&groups)[List::kKept], const typename List::Keys& keys, const typename List::Key* greatest,
    const float* values, typename List::Column n_cols, int rank)
{
    typedef typename List::Key Key;
    typedef typename List::Column Column;
    constexpr int kVectors = kGroup / 4, kBatch = 4;  // of 16 bytes, and of these a thread's
    const Column n_groups = (n_cols + kGroup - 1) / kGroup;
    const typename List::Keys group_keys(n_groups);
    clear(list, rank);
    List::Team::sync();
    if (n_groups > List::kSlots) {
        gather(list, greatest, n_groups, rank);
    } else {
#pragma unroll 4
        for (int j = rank; j < n_groups; j += List::kTeam) list.slots[j] = greatest[j];
        if (rank == 0) list.count = n_groups;
        List::Team::sync();
    }
    if (list.count > List::kK) cut(list, rank);
    const int count = list.count;
    const Key bar = list.threshold >> 32 << 32;  // the least key of a value that K groups reach
    for (int j = rank; j < count; j += List::kTeam) groups[j] = group_keys.column(list.slots[j]);
    List::Team::sync();
    if (rank == 0) {
        list.count = 0;
        list.threshold = bar;
    }
    List::Team::sync();
    for (int first = 0; first < count * kVectors; first += kBatch * List::kTeam) {
        float4 fours[kBatch];  // on their way at a time
        Column columns[kBatch];
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int at = first + b * List::kTeam + rank;
            columns[b] = at < count * kVectors ? groups[at / kVectors] * kGroup + at % kVectors * 4 : n_cols;
            if (columns[b] < n_cols) fours[b] = *reinterpret_cast<const float4*>(values + columns[b]);
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            if (first + b * List::kTeam >= count * kVectors) break;
            const auto key_of = [&](int i) {
                const float value = i == 0 ? fours[b].x : i == 1 ? fours[b].y : i == 2 ? fours[b].z : fours[b].w;
                return keys.key(value, columns[b] + i);
            };
            unsigned pending = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (columns[b] + i < n_cols && !(key_of(i) < list.threshold)) pending |= 1u << i;
            offer_all(list, pending, pending ? key_of(last_bit(pending)) : Key{}, rank, key_of);
        }
    }
    List::Team::sync();
    return finish(list, rank);
}

}  // namespace fusegen
