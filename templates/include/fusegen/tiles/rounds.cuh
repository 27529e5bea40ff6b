#pragma once
// Lists of rows over vectors, found in rounds: a row's bound, its candidates in device memory, a warp's queue of those
// that wait to go there, and what a warp does for a row between rounds.

#include <fusegen/tiles/rounding.cuh>
#include <fusegen/topk/order.cuh>

namespace fusegen {

// What a row keeps between launches. A column whose rounded score is below `least` is none of the best; `count`
// candidates were found, of which the first ones that there is room for are kept.
struct RowBound {
    static constexpr int kInFull = 0x40000000;  // a count: all columns are to be scored

    float least;
    Margin margin;
    int count;
    int lost;  // were there more in some round? Then `least` is all that rounds leave, and all columns come again
    int tile_lost;  // of a tile's first row: has any of them lost candidates?

    // By the launch that rounds: the row's norms stand where its margin will.
    __device__ __forceinline__ void begin(const Rounded& row)
    {
        margin = {row.norm, row.rest, 0, 0};
        count = row.usual ? 0 : kInFull;
        lost = tile_lost = 0;
    }
    // Once the columns' norms are known. Nothing is below the first bound, which is no larger than scores are.
    template <int kLength, Ranked kRanked>
    __device__ __forceinline__ void open(const GreatestNorms& columns)
    {
        const float norm = margin.base, rest = margin.half, most = columns.most;
        least = -1.05f * (norm * most + (kRanked != Ranked::dots ? 0.5f * most * most : 0)) - 0x1p-100f;
        margin = Margin::of<kLength, kRanked>(norm, rest, columns);
        if (count >= kInFull) least = 3e38f;
    }
    // K columns have a score as high as the one with this order; 0: that is not known.
    __device__ __forceinline__ void raise(unsigned order)
    {
        if (order == 0) return;
        const float best = FloatOrder<0>::value(order);
        least = fmaxf(least, best - margin.at(best));
    }
};

// ---- Tiles of scores: half_j + x'·y'_j - least_i, so that a candidate is a sign bit that is not set ---------------

// Where a lane's scores of two rows begin.
template <int kCount>
__device__ __forceinline__ void begin_scores(float (&scores)[kCount], const float* halves, float first, float second)
{
    const float2* const mine = reinterpret_cast<const float2*>(halves) + threadIdx.x % kRowLanes;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
        const float2 half = mine[4 * i];
        scores[4 * i] = half.x - first;
        scores[4 * i + 1] = half.y - first;
        scores[4 * i + 2] = half.x - second;
        scores[4 * i + 3] = half.y - second;
    }
}

// The greatest of a lane's scores of each of its two rows.
template <int kCount>
__device__ __forceinline__ void greatest_scores(const float (&scores)[kCount], float& first, float& second)
{
    first = scores[0];
    second = scores[2];
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
        first = fmaxf(first, fmaxf(scores[4 * i], scores[4 * i + 1]));
        second = fmaxf(second, fmaxf(scores[4 * i + 2], scores[4 * i + 3]));
    }
}

// A warp's candidates that wait in shared memory: scores, below a row of 16 and a column.
template <int kRoom>
struct Queue {
    typedef unsigned long long Entry;
    Entry* entries;
    int held;  // the same in all lanes

    // To the lists of the warp's rows, `rows` of which there are; if `again`, of those that lost candidates.
    __device__ __forceinline__ void empty(
        RowBound* bounds, unsigned long long* slots, int words, int list_room, int rows, bool again)
    {
        __syncwarp();
#pragma unroll 1
        for (int i = threadIdx.x % 32; i < held; i += 32) {
            const Entry entry = entries[i];
            const unsigned place = static_cast<unsigned>(entry);
            const int row = place >> 28;
            if (row >= rows || (again && !bounds[row].lost)) continue;
            const int at = atomicAdd(&bounds[row].count, 1);
            const float score = __uint_as_float(static_cast<unsigned>(entry >> 32));
            if (at < list_room)
                slots[static_cast<long long>(row) * words + at] =
                    static_cast<unsigned long long>(FloatOrder<0>::of(score)) << 32 | (place & 0xfffffffu);
        }
        __syncwarp();
        held = 0;
    }

    // Takes in what is a candidate of a tile. `first`, `second`: the bounds that the lane's scores began with.
    template <int kCount, typename Empty>
    __device__ __forceinline__ void take(
        const float (&scores)[kCount], float first, float second, unsigned column, const Empty& make_room)
    {
        int below[kCount / 8], all_below = -1;  // sign bits of 8 scores
#pragma unroll
        for (int group = 0; group < kCount / 8; ++group) {
            below[group] = __float_as_int(scores[8 * group]);
#pragma unroll
            for (int i = 1; i < 8; ++i) below[group] &= __float_as_int(scores[8 * group + i]);
            all_below &= below[group];
        }
        if (!__any_sync(0xffffffffu, all_below >= 0)) return;
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int group = 0; group < kCount / 8; ++group) {
            if (!__any_sync(0xffffffffu, below[group] >= 0)) continue;
            unsigned who[8];
            int more = 0;
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                who[i] = __ballot_sync(0xffffffffu, __float_as_int(scores[8 * group + i]) >= 0);
                more += __popc(who[i]);
            }
            if (held + more > kRoom) make_room();
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                if (who[i] == 0) continue;
                if (who[i] >> lane & 1u) {
                    const int slot = i / 2 % 2;
                    const unsigned row = lane / kRowLanes + 8 * slot;
                    const unsigned place = column + 16 * group + i / 4 * 8 + i % 2 | row << 28;
                    const float score = scores[8 * group + i] + (slot ? second : first);
                    entries[held + __popc(who[i] & ((1u << lane) - 1))] =
                        static_cast<Entry>(__float_as_uint(score)) << 32 | place;
                }
                held += __popc(who[i]);
            }
        }
    }
};

// ---- Rows between rounds, a warp each -----------------------------------------------------------------------------

// What is infinite is not known.
__device__ __forceinline__ unsigned known_order(unsigned order)
{
    return order < FloatOrder<0>::of(FloatOrder<0>::infinity()) ? order : 0;
}

// The kK-th greatest order of the maxima of so many groups of columns.
template <int kK, int kOwn>
__device__ __forceinline__ unsigned kth_of_groups(const float* greatest, int groups)
{
    unsigned own[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int at = 32 * i + threadIdx.x % 32;
        own[i] = at < groups ? known_order(FloatOrder<0>::of(greatest[at])) : 0;
        if (own[i] == FloatOrder<0>::of(-FloatOrder<0>::infinity())) own[i] = 0;  // of no columns
    }
    return order_of_rank(own, kK);
}

// Likewise, of so many candidates.
template <int kK, int kOwn>
__device__ __forceinline__ unsigned kth_of_slots(const unsigned long long* slots, int count)
{
    unsigned own[kOwn];
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        const int at = 32 * i + threadIdx.x % 32;
        own[i] = at < count ? known_order(static_cast<unsigned>(slots[at] >> 32)) : 0;
    }
    return order_of_rank(own, kK);
}

// For a warp: raises a row's bound by its candidates, and drops those below. There is no bound for rows that are to be
// scored in full, and nothing is a candidate.
template <int kK, int kRoom>
__device__ __forceinline__ RowBound cut_row(RowBound* place, unsigned long long* slots)
{
    RowBound bound = *place;
    __syncwarp();
    if (bound.count > kRoom) {
        bound.count = RowBound::kInFull;
        bound.least = 3e38f;
    } else {
        bound.raise(bound.count <= 64    ? kth_of_slots<kK, 2>(slots, bound.count)
                    : bound.count <= 256 ? kth_of_slots<kK, 8>(slots, bound.count)
                    : bound.count <= 768 ? kth_of_slots<kK, 24>(slots, bound.count)
                                         : kth_of_slots<kK, kRoom / 32>(slots, bound.count));
        const float least = bound.least;
        bound.count = keep_keys(slots, bound.count, [&](unsigned long long key) {
            return !(FloatOrder<0>::value(static_cast<unsigned>(key >> 32)) < least);
        });
    }
    if (threadIdx.x % 32 == 0) {  // and nothing else: other warps may write to the first of a tile
        place->least = bound.least;
        place->count = bound.count;
    }
    return bound;
}

// For a warp, after a round: cuts a row, or raises the bound of one that lost candidates by those that were kept, and
// drops them. `tile`: the first row's place.
template <int kK, int kRoom>
__device__ __forceinline__ void end_round(RowBound* place, RowBound* tile, unsigned long long* slots)
{
    const int count = place->count;
    if (count >= RowBound::kInFull) return;
    if (count <= kRoom && !place->lost) {
        cut_row<kK, kRoom>(place, slots);
        return;
    }
    RowBound bound = *place;
    bound.raise(kth_of_slots<kK, kRoom / 32>(slots, min(count, kRoom)));
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
    place->least = bound.least;
    place->count = 0;
    place->lost = 1;
    atomicOr(&tile->tile_lost, 1);
}

}  // namespace fusegen
