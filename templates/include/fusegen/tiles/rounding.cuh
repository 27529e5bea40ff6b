#pragma once
// Vectors rounded to 16 bits, with what is lost; lists of candidates that were found by them.

#include <cuda_bf16.h>
#include <fusegen/tiles/lists.cuh>

namespace fusegen {

constexpr int kRoundingBlocks = 1024;  // of the launch that rounds; each leaves the greatest |y| and |y - y'|

// A vector as a lane has it: two neighbours of every 64 numbers.
template <int kLength, typename T>
struct LanesVector {
    static constexpr int kPairs = (kLength + 63) / 64;
    struct alignas(2 * sizeof(T)) Two {
        T first, second;
    };
    T numbers[2 * kPairs];

    // Are there pairs where pairs may be read at once, in all vectors so far apart?
    static __device__ __forceinline__ bool aligned(const T* first, long long apart, long long batches_apart)
    {
        const unsigned long long bytes = (apart | batches_apart) * sizeof(T);
        return (reinterpret_cast<unsigned long long>(first) | bytes) % sizeof(Two) == 0;
    }
    __device__ __forceinline__ void load(const T* from, bool aligned)
    {
#pragma unroll
        for (int pair = 0; pair < kPairs; ++pair) {
            const int i = 64 * pair + threadIdx.x % 32 * 2;
            Two two = {};
            if (aligned && i + 1 < kLength) {
                two = *reinterpret_cast<const Two*>(from + i);
            } else {
                if (i < kLength) two.first = from[i];
                if (i + 1 < kLength) two.second = from[i + 1];
            }
            numbers[2 * pair] = two.first;
            numbers[2 * pair + 1] = two.second;
        }
    }
};

// Of a vector, for every lane of a warp: upper bounds of |x| and |x - x'|, and |x|² as it was summed up.
struct Rounded {
    float norm, rest, square;
    bool usual;  // else nothing is known of its products
};

// For a warp: two sums of what its lanes have.
__device__ __forceinline__ void two_sums_of_warp(float& one, float& other)
{
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        one += __shfl_xor_sync(0xffffffffu, one, lane_mask);
        other += __shfl_xor_sync(0xffffffffu, other, lane_mask);
    }
}

// For a warp: the vector in 16 bits, kWidth numbers of them, zeros behind its end. One that is not usual is all zeros.
template <int kLength, int kWidth, typename T, typename Read>
__device__ __forceinline__ Rounded round_vector(
    __nv_bfloat16* to, const LanesVector<kLength, T>& vector, const Read& read)
{
    constexpr int kOwn = 2 * LanesVector<kLength, T>::kPairs;
    __nv_bfloat16 rounded[kOwn];
    float numbers[kOwn], lost[kOwn], square = 0, rest = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        numbers[i] = read(vector.numbers[i]);
        rounded[i] = __float2bfloat16_rn(fabsf(numbers[i]) < 0x1p-126f ? 0.0f : numbers[i]);
        lost[i] = numbers[i] - __bfloat162float(rounded[i]);
        square += numbers[i] * numbers[i];
        rest += lost[i] * lost[i];
    }
    two_sums_of_warp(square, rest);
    const bool usual = square <= 1e37f;
    float unit = 1;
    if (square < 0x1p-40f) {  // squares of small numbers are lost: of greater ones, which are as exact
        unit = 0x1p-64f;
        square = rest = 0;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
            const float number = numbers[i] * 0x1p64f, of_it = lost[i] * 0x1p64f;
            square += number * number;
            rest += of_it * of_it;
        }
        two_sums_of_warp(square, rest);
    }
#pragma unroll
    for (int i = 0; i < kOwn; i += 2) {
        const int at = 32 * i + threadIdx.x % 32 * 2;
        const __nv_bfloat16 two[2] = {rounded[i], rounded[i + 1]};
        if (at < kWidth) *reinterpret_cast<unsigned*>(to + at) = usual ? word_of(two) : 0;
    }
    // What is lost of 256 squares is at most 2^-118.
    return {(sqrtf(square) + 0x1p-59f) * unit, (sqrtf(rest) + 0x1p-59f) * unit, square * unit * unit, usual};
}

// For a block: the greatest |y| and |y - y'|, of all blocks that rounded.
template <int kThreads>
__device__ __forceinline__ void greatest_norms(const float* of_blocks, float& norm, float& rest)
{
    __shared__ float of_warps[2][kThreads / 32];
    norm = rest = 0;
    for (int i = threadIdx.x; i < kRoundingBlocks; i += kThreads) {
        norm = fmaxf(norm, of_blocks[i]);
        rest = fmaxf(rest, of_blocks[kRoundingBlocks + i]);
    }
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        norm = fmaxf(norm, __shfl_xor_sync(0xffffffffu, norm, lane_mask));
        rest = fmaxf(rest, __shfl_xor_sync(0xffffffffu, rest, lane_mask));
    }
    if (threadIdx.x % 32 == 0) of_warps[0][threadIdx.x / 32] = norm, of_warps[1][threadIdx.x / 32] = rest;
    __syncthreads();
#pragma unroll
    for (int warp = 0; warp < kThreads / 32; ++warp) {
        norm = fmaxf(norm, of_warps[0][warp]);
        rest = fmaxf(rest, of_warps[1][warp]);
    }
}

// What orders the columns of a row.
enum class Ranked { dots, nearest, farthest };

// How far below the K-th best rounded score a of a row a column may be and yet be among the K best of the text:
// base + slope·max(half - turn·a, 0), where half - turn·a is half of a distance. NaN where there is no such bound.
struct Margin {
    float base, half, slope, turn;

    // Of a row with these norms, among columns with those: see schedule/filters.py.
    template <int kLength, Ranked kRanked>
    static __device__ __forceinline__ Margin of(float norm, float rest, float most, float most_rest)
    {
        const float kStep = (2 * kLength + 32) * 0x1p-22f;  // what products and sums are off by, of their size
        const float size = norm * most + (kRanked != Ranked::dots ? 0.5f * most * most : 0);
        const float error = 1.01f * (rest * (most + most_rest) + norm * most_rest + kStep * size) + 0x1p-112f;
        const float own = (kLength + 8) * 0x1p-23f;  // the text's rounding, of |x - y|² or |x||y|
        if (kRanked == Ranked::dots) return {2 * error + 2 * own * norm * most, 0, 0, 1};
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
    const unsigned ranked = kK + sum_of_warp(unknown);
    if (ranked > count) return 0;
    unsigned order = 0;
#pragma unroll 1
    for (int bit = 31; bit >= 0; --bit) {
        const unsigned higher = order | 1u << bit;
        unsigned reach = 0;
#pragma unroll
        for (int i = 0; i < kOwn; ++i) reach += own[i] >= higher;
        if (sum_of_warp(reach) >= ranked) order = higher;
    }
    return order;
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
        int kept = 0;
        for (int from = 0; from < count; from += 32) {
            const Key key = from + lane < count ? slots[from + lane] : 0;
            const bool stays = from + lane < count && !(keys.value(key) < least);
            const unsigned all = __ballot_sync(0xffffffffu, stays);
            __syncwarp();
            if (stays) slots[kept + __popc(all & ((1u << lane) - 1))] = key;
            kept += __popc(all);
            __syncwarp();
        }
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
