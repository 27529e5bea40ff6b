#pragma once
// Lists of candidates that were found by vectors of 16 bits: how far their scores may be off, and what that leaves.

#include <fusegen/tiles/lists.cuh>
#include <fusegen/tiles/rounded.cuh>

namespace fusegen {

// What orders the columns of a row.
enum class Ranked { dots, nearest, farthest };

// How far below the K-th best rounded score a of a row a column may be and yet be among the K best of the text:
// base + slope·max(half - turn·a, 0), where half - turn·a is half of a distance. NaN where there is no such bound.
struct Margin {
    float base, half, slope, turn;

    // Of a row with these norms, among columns with those: see schedule/tiles/filters.py.
    template <int kLength, Ranked kRanked>
    static __device__ __forceinline__ Margin of(float norm, float rest, const GreatestNorms& columns)
    {
        const float kStep = (2 * kLength + 32) * 0x1p-22f;  // what products and sums are off by, of their size
        const float most = columns.most;
        const float size = norm * most + (kRanked != Ranked::dots ? 0.5f * most * most : 0);
        const float error = 1.01f * (rest * (most + columns.rest) + norm * columns.rest + kStep * size) + 0x1p-112f;
        const float own = (kLength + 8) * 0x1p-23f;  // the text's rounding, of |x - y|² or |x||y|
        if (kRanked == Ranked::dots) return {2 * error + 2 * own * norm * columns.own, 0, 0, 1};
        const float turn = kRanked == Ranked::nearest ? 1 : -1;
        return {2 * error + 2.2f * own * error, 0.5f * norm * norm, 2.2f * own, turn};
    }
    __device__ __forceinline__ float at(float score) const { return base + slope * fmaxf(half - turn * score, 0.0f); }
};

// A row's candidates by their rounded scores: all that may be among the best. What any block has found to be a row's
// K-th best holds for all that work on it: they share the row's bar, an order of floats that only grows.
template <typename List>
struct Candidates : List {
    typedef typename List::Keys::Order Order;
    static constexpr int kStep = 2 * List::kK + 64;  // candidates between cuts

    Margin margin;
    unsigned* shared_bar;
    int limit;     // candidates that make a list to be cut
    int visits;    // tiles so far
    bool spilled;  // were there more than there is room for?

    __device__ __forceinline__ void begin(typename List::Key* memory, const Margin& of_row, float* bar)
    {
        List::begin(memory);
        margin = of_row;
        shared_bar = reinterpret_cast<unsigned*>(bar);
        limit = kStep;
        visits = 0;
        spilled = false;
        look();
    }
    // What is below this may not be among the best, if a K-th best has this order.
    __device__ __forceinline__ float least_by(unsigned order) const
    {
        const float best = Order::value(order);
        return order == 0 ? Order::lowest() : best - margin.at(best);
    }
    // Takes over what others have found.
    __device__ __forceinline__ void look()
    {
        const float found = least_by(*static_cast<volatile unsigned*>(shared_bar));
        if (found > this->least) this->least = found;
    }
};

// For a warp: of the orders that its lanes have, the one of this rank from the greatest; 0 where there are fewer. An
// order of 0 is no number's. One bit of the answer after the other.
template <int kOwn>
__device__ __forceinline__ unsigned order_of_rank(const unsigned (&own)[kOwn], unsigned rank)
{
    unsigned order = 0;
#pragma unroll 1
    for (int bit = 31; bit >= 0; --bit) {
        const unsigned higher = order | 1u << bit;
        unsigned reach = 0;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) reach += own[i] >= higher;
        if (sum_of_warp(reach) >= rank) order = higher;
    }
    return order;
}

// For a warp: the order of the kK-th best score that is a number, of `count` candidates; 0 where there are fewer.
template <int kK, int kSlots, typename Order>
__device__ __forceinline__ unsigned kth_order(const unsigned long long* slots, int count)
{
    constexpr int kOwn = (kSlots + 31) / 32;
    unsigned own[kOwn], unknown = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int at = 32 * i + threadIdx.x % 32;
        own[i] = at < count ? static_cast<unsigned>(slots[at] >> 32) : 0;
        unknown += own[i] > Order::of(Order::infinity());
    }
    const unsigned rank = kK + sum_of_warp(unknown);
    return rank > count ? 0 : order_of_rank(own, rank);
}

// For a warp: those keys of a row that pass, to the front; how many they are. None is written before all lanes
// have read theirs: whether it passes depends on it.
template <typename Key, typename Passes>
__device__ __forceinline__ int keep_keys(Key* slots, int count, const Passes& passes)
{
    const int lane = threadIdx.x % 32;
    int kept = 0;
#pragma unroll 1
    for (int from = 0; from < count; from += 32) {
        const Key key = from + lane < count ? slots[from + lane] : Key{};
        const bool stays = from + lane < count && passes(key);
        const unsigned all = __ballot_sync(0xffffffffu, stays);
        if (stays) slots[kept + __popc(all & ((1u << lane) - 1))] = key;
        kept += __popc(all);
        __syncwarp();
    }
    return kept;
}

// For a warp: of those of its eight rows that have no room for so many candidates more, what may be among the best.
template <typename List>
__device__ __forceinline__ void make_room(Candidates<List>& list, const typename List::Keys& keys, int more)
{
    typedef typename List::Key Key;
    if ((++list.visits & 15) == 0) list.look();
    const bool mine = list.count >= List::kK && (list.count >= list.limit || list.count + more > List::kSlots);
    const unsigned full = __ballot_sync(0xffffffffu, mine || (more == 0 && list.count > List::kK));
    if (full == 0) return;
    __syncwarp();
#pragma unroll 1
    for (int row = 0; row < 8; ++row) {
        if (!(full >> row * kRowLanes & 1u)) continue;
        Key* const slots = of_row(list.slots, row);
        unsigned* const bar = of_row(list.shared_bar, row);
        const int count = of_row(list.count, row), lane = threadIdx.x % 32;
        unsigned order = kth_order<List::kK, List::kSlots, typename List::Keys::Order>(slots, count);
        if (lane == 0) order = max(order, atomicMax(bar, order));
        order = __shfl_sync(0xffffffffu, order, 0);
        const float least = of_row(list.least_by(order), row);
        const int kept = keep_keys(slots, count, [&](const Key& key) { return !(keys.value(key) < least); });
        if (first_row_of_lane() != row) continue;
        list.count = kept;
        list.limit = kept + list.kStep;
        list.least = least;
        if (kept + more > List::kSlots && more > 0) {
            list.spilled = true;
            list.count = 0;
            list.least = List::Keys::Order::infinity();
            list.bar = ~Key{};
        }
    }
    __syncwarp();
}

// For a warp: the kK best of each of its eight rows by the text's own scores: of its candidates, or of columns
// [begin, end) where it had too many. `key_of` makes a lane's key of a row's number and a column.
template <typename List, typename KeyOf>
__device__ __forceinline__ void score_again(
    Candidates<List>& list, const typename List::Keys& keys, long long row_number, int begin, int end,
    const KeyOf& key_of)
{
    typedef typename List::Key Key;
    make_room(list, keys, 0);  // what is no longer near enough needs no score
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int row = 0; row < 8; ++row) {
        Key* const slots = of_row(list.slots, row);
        if (slots == nullptr) continue;
        const long long number = of_row(row_number, row);
        int count = of_row(list.count, row);
        if (!of_row(static_cast<int>(list.spilled), row)) {
            for (int i = lane; i < count; i += 32) slots[i] = key_of(number, keys.column(slots[i]));
            __syncwarp();
        } else {
            for (int from = begin; from < end; from += 32) {
                if (from + lane < end) slots[count + lane] = key_of(number, from + lane);
                count += min(32, end - from);
                __syncwarp();
                if (count + 32 <= List::kSlots) continue;
                keep_best<List::kK, List::kSlots>(slots, count);
                count = List::kK;
            }
        }
        for (int i = count + lane; i < List::kK; i += 32) slots[i] = 0;
        __syncwarp();
        if (count > List::kK) keep_best<List::kK, List::kSlots>(slots, count);
    }
    list.count = List::kK;
}

}  // namespace fusegen
