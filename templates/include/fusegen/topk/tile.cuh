#pragma once
// What a tile of a row holds for a list: which items reach the bar, and what becomes of them.

#include <fusegen/topk/list.cuh>
#include <fusegen/topk/rescan.cuh>

namespace fusegen {

// A tile's items that may be candidates, a bit each, and the key of the last one: most threads have no other.
template <typename Key>
struct Pending {
    unsigned items;
    Key last;
};

// Items that reach the bar, and are not `late`: no chunk whose `greatest` item does not is looked at.
template <typename List, typename Value, typename ValueOf, typename ColumnOf, typename KeyOf>
__device__ __forceinline__ Pending<typename List::Key> pending_items(
    const List& list, const typename List::Keys& keys, const Bar<typename List::Keys>& bar, int live, Value greatest,
    unsigned late, const ValueOf& value_of, const ColumnOf& column_of, const KeyOf& key_of)
{
    unsigned pending = 0;
    Value last{};
    if (live > 0 && !(greatest < bar.value)) {
#pragma unroll
        for (int i = 0; i < List::kItems; ++i) {
            if (i / List::kWidth >= live) break;
            const Value value = value_of(i);
            if (!(value < bar.value)) pending |= 1u << i, last = value;
        }
        const bool ties = bar.ties && __popc(pending) > List::kItems / 4;  // a few that tie do no harm
        if (ties) pending = reaching(pending, list.threshold, key_of);
        pending &= ~late;
        if ((ties || late != 0) && pending != 0) last = keys.value(key_of(last_bit(pending)));
    }
    typename List::Key key{};
    if (pending != 0) key = keys.key(last, column_of(last_bit(pending)));
    return {pending, key};
}

// Likewise, of items of 16 bits that are compared two at a time: `reaching_bar` says which reach a bar. Bits of
// even numbers come first.
template <typename List, typename Value, typename ReachingBar, typename KeyOf>
__device__ __forceinline__ Pending<typename List::Key> pending_pairs(
    const List& list, const Bar<typename List::Keys>& bar, int live, Value greatest, unsigned late,
    const ReachingBar& reaching_bar, const KeyOf& key_of)
{
    unsigned pending = 0;
    if (live > 0 && !(greatest < bar.value)) {
        pending = reaching_bar(bar.value);
        const bool ties = bar.ties && __popc(pending) > List::kItems / 4;  // a few that tie do no harm
        if (ties) pending = reaching(pending, list.threshold, key_of);
        pending &= ~late;
    }
    typename List::Key key{};
    if (pending != 0) key = key_of(last_bit(pending));
    return {pending, key};
}

// Offers a tile's pending items to the list, and sets the bar for the next tile. Where there are too many, they
// are looked at again in memory: `key_at` and `keys_of` bring the keys of an item and of a vector from there.
template <typename List, typename Value, typename KeyOf, typename KeyAt, typename KeysOf>
__device__ __forceinline__ void take_tile(
    List& list, const typename List::Keys& keys, Bar<typename List::Keys>& bar,
    const Tile<typename List::Column>& tile, const Pending<typename List::Key>& pending, Value greatest,
    const KeyOf& key_of, const KeyAt& key_at, const KeysOf& keys_of, bool lopsided = false)
{
    const Offered offered = List::kBlocks > 1 && lopsided
                                ? kTooMany
                                : offer(list, pending.items, pending.last, tile.rank, key_of);
    if (offered == kTooMany) {
        const unsigned peak = top_word(keys.least_key(greatest, 0));
        if constexpr (List::kBlocks > 1) {
            rescan_in_cluster(list, peak, tile.first, tile.end, tile.rank, key_at, keys_of, lopsided);
        } else {
            // What a call that is not inlined refers to lies in memory: copies do, here alone, where there are
            // registers for them: ptxas spills least so.
            if constexpr (List::kGuess || List::kGroups > 1) {
                rescan(list, peak, tile.first, tile.end, tile.rank, key_at, keys_of);
            } else if constexpr (List::kTeam <= 64) {
                const KeysOf keys_there = keys_of;
                rescan(list, peak, tile.first, tile.end, tile.rank, key_at, keys_there);
            } else {
                const KeyAt key_there = key_at;
                const KeysOf keys_there = keys_of;
                rescan(list, peak, tile.first, tile.end, tile.rank, key_there, keys_there);
            }
        }
    }
    if (offered != kTaken || tile.first == tile.begin)
        bar = bar_of(list, keys, tile.first + List::kVectors * List::kTeam);
}

}  // namespace fusegen
