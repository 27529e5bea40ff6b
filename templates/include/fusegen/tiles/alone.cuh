#pragma once
// What products of a warpgroup do, number by number and from device memory: where a weight was rounded to an infinity,
// or left out a vector that has one.

#include <fusegen/tiles/fragment.cuh>

namespace fusegen {

// Is one of a lane's numbers infinite, or none?
template <int kCount>
__device__ __forceinline__ bool any_unusual(const float (&numbers)[kCount])
{
    float seen = 0.0f;  // NaN, once one of them is
#pragma unroll
    for (int i = 0; i < kCount; ++i) seen += numbers[i] * 0.0f;
    return seen != seen;
}

// Scores of a lane's two rows and columns of a tile, the first of which is `column`; of `end` columns in all.
template <int kCount, typename T, typename Column, typename Read>
__device__ __forceinline__ void make_scores_alone(
    float (&scores)[kCount], const T* first, const T* second, const T* columns, long long stride, Column column,
    Column end, int length, const Read& read)
{
    float made[kCount];
#pragma unroll 1
    for (int i = 0; i < kCount / 2; ++i) {
        const T* const vector = columns + static_cast<long long>(min(column + i / 2 * 8 + i % 2, end - 1)) * stride;
        float one = 0.0f, other = 0.0f;
#pragma unroll 1
        for (int n = 0; n < length; ++n) {
            const float number = read(vector[n]);
            one += read(first[n]) * number;
            other += read(second[n]) * number;
        }
        made[4 * (i / 2) + i % 2] = one;
        made[4 * (i / 2) + 2 + i % 2] = other;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] = made[i];
}

// sums += Σ over a tile's columns, which begin with `column`, of weight · vector. What was left out has the weight -0,
// and is not looked at.
template <int kCount, int kSums, typename T, typename Column, typename Read>
__device__ __forceinline__ void add_vectors_alone(
    float (&sums)[kSums], const float (&weights)[kCount], const T* vectors, long long stride, Column column,
    Column end, int length, const Read& read)
{
    float left[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) left[i] = weights[i];
#pragma unroll 1
    for (int c = 0; c < 2 * kCount && column + c < end; ++c) {
        const int lane = threadIdx.x % 32 / kRowLanes * kRowLanes + c % 8 / 2;
        const float first = __shfl_sync(0xffffffffu, left[c / 8 * 4 + c % 2], lane);
        const float second = __shfl_sync(0xffffffffu, left[c / 8 * 4 + 2 + c % 2], lane);
        const T* const vector = vectors + static_cast<long long>(column + c) * stride;
#pragma unroll
        for (int j = 0; j < kSums / 2; ++j) {
            const int i = first_column_of_lane() + j / 2 * 8 + j % 2;
            if (i >= length) continue;
            const float number = read(vector[i]);
            if (first != 0.0f || !signbit(first)) sums[4 * (j / 2) + j % 2] += first * number;
            if (second != 0.0f || !signbit(second)) sums[4 * (j / 2) + 2 + j % 2] += second * number;
        }
    }
}

}  // namespace fusegen
