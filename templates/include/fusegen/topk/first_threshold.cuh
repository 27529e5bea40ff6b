#pragma once
// The first threshold of a list, from the items of a row's first tile.

#include <fusegen/math/greater_of.cuh>
#include <fusegen/topk/ties.cuh>

namespace fusegen {

template <typename Key>
struct Start {
    Key threshold;
    bool tied;      // are many of the values that reach it equal?
    bool lopsided;  // are some blocks of a cluster crowded with items that reach it?
};

// The least key of the next greater value, if there is one.
template <typename Keys>
__device__ __forceinline__ typename Keys::Key after(const typename Keys::Key& threshold, const Keys& keys)
{
    const typename Keys::Value next = keys.next_value(threshold);
    return keys.value(threshold) < next ? keys.least_key(next, -1) : threshold;
}

// A word that `wanted` of a warp's items are not below, and at most `most` where that is soon found. What some
// rounds of halving do not tell apart is as good as equal: then the least of it is the word, where `least_of` is
// the warp's least word between two. As many as were `reached` are not below the word.
template <typename CountOf, typename LeastOf>
__device__ __forceinline__ unsigned word_of_items(
    int wanted, int most, unsigned high, const CountOf& count_of, const LeastOf& least_of, int& reached)
{
    unsigned low = 0;
    reached = 0;
#pragma unroll 1
    for (int round = 0; low < high && round < 14; ++round) {
        const unsigned middle = high - (high - low) / 2;
        const int count = count_of(middle);
        if (count < wanted) {
            high = middle - 1;
            continue;
        }
        low = middle;
        reached = count;
        if (count <= most) return low;
    }
    return low > 0 ? least_of(low, high) : 0;
}

// The first threshold of a list: the least key with some top word. Each of `warps` warps, whose lanes all have
// a live item, finds a word that its share of the k reaches among `groups` groups of items; k reach the
// least of these words or, where one warp's share is all of them, any. It is 0 if there is none.
template <typename List, typename WordOf, typename CountOf>
__device__ __forceinline__ Start<typename List::Key> threshold_of_block(
    List& list, int warps, int groups, int rank, const WordOf& word_of, const CountOf& count_of)
{
    typedef typename List::Team Team;
    // Of two warps, either may have a few: the greater word will do.
    constexpr bool kAnyWarp = List::kTeam <= 64 && List::kK <= 8;
    const int share = warps > 0 ? share_of(List::kK, kAnyWarp ? 1 : warps) : groups + 1;
    unsigned word = share <= groups ? word_of(share) : 0;
    bool tied = word > 0 && count_of(word) > share + share / 2 + 4;
    if constexpr (Team::kOneWarp) {
        Team::sync();
    } else {
        constexpr int kWarps = List::kTeam / 32;
        const int warp = rank / 32;
        if (warps > 0 && warp >= warps) word = kAnyWarp ? 0 : 0xffffffffu, tied = false;
        if (rank % 32 == 0) list.tally.least[warp] = word, list.tally.greatest[warp] = tied;
        Team::sync();
#pragma unroll
        for (int other = 0; other < kWarps; ++other) {
            const unsigned theirs = list.tally.least[other];
            word = kAnyWarp ? max(word, theirs) : min(word, theirs);
            tied |= list.tally.greatest[other] != 0;
        }
    }
    typename List::Key threshold, last;
    span_keys(word, word, threshold, last);
    return {threshold, tied, false};
}

// From a word that a warp's share of the k reaches, by counting groups of its items: the best of each stands
// for it. Blocks of a cluster look for it `together`, or each by itself.
template <int kGroups, typename List, typename Value, typename ValueOf>
__device__ __forceinline__ Start<typename List::Key> threshold_of_groups(
    List& list, const typename List::Keys& keys, const Tile<typename List::Column>& tile, int warps, Value greatest,
    const ValueOf& value_of, bool together)
{
    unsigned best[kGroups];
    if constexpr (kGroups == 1) {
        best[0] = tile.live > 0 ? top_word(keys.least_key(greatest, 0)) : 0;
    } else {
#pragma unroll
        for (int group = 0; group < kGroups; ++group) {
            Value peak = List::Keys::Order::lowest();
#pragma unroll
            for (int vector = group; vector < List::kVectors; vector += kGroups) {
                if (vector >= tile.live) break;
#pragma unroll
                for (int i = vector * List::kWidth; i < (vector + 1) * List::kWidth; ++i)
                    peak = greater_of(peak, value_of(i));
            }
            best[group] = group < tile.live ? top_word(keys.least_key(peak, 0)) : 0;
        }
    }
    const auto count_of = [&](unsigned word) {
        int count = 0;
#pragma unroll
        for (int group = 0; group < kGroups; ++group)
            count += __popc(__ballot_sync(0xffffffffu, !(best[group] < word)));
        return count;
    };
    const auto below = [&](unsigned word) {
        unsigned next = 0;
#pragma unroll
        for (int group = 0; group < kGroups; ++group) next = max(next, best[group] < word ? best[group] : 0);
        return greatest_of_warp(next);
    };
    unsigned low = best[0], high = best[0];
#pragma unroll
    for (int group = 1; group < kGroups; ++group) low = min(low, best[group]), high = max(high, best[group]);
    low = least_of_warp(low), high = greatest_of_warp(high);
    const auto word_of = [&](int share) {
        return word_of_warp(share, with_slack(share), low, high, count_of, below);
    };
    if constexpr (List::kBlocks > 1)
        return threshold_of_cluster(list, warps, 32 * kGroups, tile.rank, word_of, count_of, together, low);
    else
        return threshold_of_block(list, warps, 32 * kGroups, tile.rank, word_of, count_of);
}

// Likewise, by counting items, each by itself.
template <typename List, typename Value, typename ValueOf>
__device__ __forceinline__ Start<typename List::Key> threshold_of_items(
    List& list, const typename List::Keys& keys, const Tile<typename List::Column>& tile, int warps, Value greatest,
    const ValueOf& value_of, bool together)
{
    typedef typename List::Keys::Order Order;
    constexpr int kItems = List::kItems, kWidth = List::kWidth;
    const int live = tile.live;
    const auto value_of_word = [&](unsigned word) {
        typename List::Key least, last;
        span_keys(word, word, least, last);
        return keys.value(least);
    };
    const auto count_items = [&](unsigned word) {
        const Value bar = value_of_word(word);
        int count = 0;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            if (i / kWidth >= live) break;
            count += !(value_of(i) < bar);
        }
        return static_cast<int>(sum_of_warp(count));
    };
    unsigned high = live > 0 ? top_word(keys.least_key(greatest, 0)) : 0;
    if constexpr (Order::kHasNaN) high = min(high, top_word(keys.least_key(Order::infinity(), 0)));  // a NaN is no bar
    high = greatest_of_warp(high);
    if constexpr (List::kGuess) {
        // This is rare here, so the shortest way will do: registers matter more.
        const auto word_of = [&](int share) {
            return word_of_warp(share, with_slack(share), 0, high, count_items);
        };
        return threshold_of_block(list, warps, 32 * kItems, tile.rank, word_of, count_items);
    } else {
        const auto least_of = [&](unsigned from, unsigned to) {
            const Value bar = value_of_word(from);
            Value least = value_of_word(to);  // NaN, where the word is -inf's and keys have more of it
#pragma unroll
            for (int i = 0; i < kItems; ++i) {
                if (i / kWidth >= live) break;
                const Value value = value_of(i);
                if (value == value && !(value < bar) && !(least <= value)) least = value;
            }
            return least_of_warp(top_word(keys.least_key(least, 0)));
        };
        int reached;
        const auto word_of = [&](int share) {
            return word_of_items(share, with_slack(share), high, count_items, least_of, reached);
        };
        const auto count_of = [&](unsigned) { return reached; };
        if constexpr (List::kBlocks > 1)
            return threshold_of_cluster(list, warps, 32 * kItems, tile.rank, word_of, count_of, together, 0u);
        else
            return threshold_of_block(list, warps, 32 * kItems, tile.rank, word_of, count_of);
    }
}

// What a row's first tile says: items that cannot be among the best, for as many equal ones come before (a bit
// each), and whether some blocks of a cluster are crowded.
struct FirstTile {
    unsigned late;
    bool lopsided;
};

// Sets the first threshold, and the bar, from the tile at hand: List::kGroups groups of a thread's items, or all of
// them, count. `head` elements stand before the row's first vector. `again` loads the items once more: they need
// not outlast what lies between. Blocks of a cluster look `together` for what `all` vectors of the row have.
template <bool kPairs, typename List, typename Value, typename ValueOf, typename Again>
__device__ __forceinline__ FirstTile first_tile(
    List& list, const typename List::Keys& keys, Bar<typename List::Keys>& bar,
    const Tile<typename List::Column>& tile, typename List::Column head, Value greatest, const ValueOf& value_of,
    const Again& again, bool together = false, typename List::Column all = 0)
{
    typedef typename List::Column Column;
    constexpr int kTeam = List::kTeam, kVectors = List::kVectors, kWidth = List::kWidth, kItems = List::kItems;
    const Column begin = tile.begin, end = tile.end;
    const Column known = end - begin < kVectors * kTeam ? end : begin + kVectors * kTeam;
    const int warps = known - begin < kTeam ? static_cast<int>(known - begin) / 32 : kTeam / 32;
    Start<typename List::Key> start;
    if constexpr (List::kGroups == kItems)
        start = threshold_of_items(list, keys, tile, warps, greatest, value_of, together);
    else
        start = threshold_of_groups<List::kGroups>(list, keys, tile, warps, greatest, value_of, together);
    Column seen = together ? all : known;  // by when the k are
    unsigned late = 0;
    bar = {keys.value(start.threshold), false};
    if (start.tied && bar.value == bar.value) {
        const Column at = tile.first + tile.rank;
        unsigned equal = 0;
        int above = 0;
#pragma unroll
        for (int i = 0; i < kItems; ++i) {
            if (i / kWidth >= tile.live) break;
            const Value value = value_of(i);
            if (value == bar.value) equal |= 1u << (kPairs ? i / 2 + i % 2 * 16 : i);
            above += !(value <= bar.value);
        }
        const Column last = last_of_ties<kPairs>(list, equal, above, begin, known - 1, tile.rank);
        if (List::kBlocks == 1 || last < known - 1) {  // or are some of the k in other blocks?
            if (List::kBlocks > 1) seen = known;
            late = equal & ~items_up_to<List, kPairs>(last, at);
            start.threshold = last < begin ? after(start.threshold, keys)
                                           : keys.least_key(bar.value, head + last * kWidth + kWidth - 1);
        }
        again();
    }
    if (tile.rank == 0) list.threshold = start.threshold, list.known = seen;
    return {late, start.lopsided};
}

}  // namespace fusegen
