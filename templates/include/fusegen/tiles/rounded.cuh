#pragma once
// Vectors rounded to 16 bits, from where columns lie about; what is lost by that.

#include <cuda_bf16.h>
#include <fusegen/tiles/fragment.cuh>

namespace fusegen {

constexpr int kSampledColumns = 64;  // where columns lie about is their mean

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

// Of a vector as it is from the centre, for every lane of a warp: upper bounds of |x| and |x - x'|, and |x|² as it was
// summed up.
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

// For a block of kThreads, kLength or more: about where columns lie, and behind that its norm. It is 0 unless it is a
// large part of them, for a difference has more digits than 16 bits.
template <int kThreads, int kLength, typename T, typename Read>
__device__ __forceinline__ void find_centre(
    float* to, const T* columns, long long apart, long long n_cols, const Read& read)
{
    __shared__ float of_warps[2][kThreads / 32];
    float mean = 0, squares = 0;
    for (int i = 0; i < kSampledColumns && threadIdx.x < kLength; ++i) {
        const float number = read(columns[n_cols * i / kSampledColumns * apart + threadIdx.x]);
        if (!(fabsf(number) <= 1e15f)) continue;
        mean += number * (1.0f / kSampledColumns);
        squares += number * number * (1.0f / kSampledColumns);
    }
    float square = mean * mean;
    two_sums_of_warp(square, squares);
    if (threadIdx.x % 32 == 0) of_warps[0][threadIdx.x / 32] = square, of_warps[1][threadIdx.x / 32] = squares;
    __syncthreads();
    square = squares = 0;
    for (int warp = 0; warp < kThreads / 32; ++warp) square += of_warps[0][warp], squares += of_warps[1][warp];
    const bool large = square > 0.5f * squares;
    if (threadIdx.x < kLength) to[threadIdx.x] = large ? mean : 0;
    if (threadIdx.x == 0) to[kLength] = large ? 1.01f * sqrtf(square) : 0;
}

// A lane's numbers of a centre, and its norm.
template <int kLength>
struct Centre {
    float numbers[(kLength + 63) / 64 * 2], norm;

    __device__ __forceinline__ void load(const float* from)
    {
#pragma unroll
        for (int i = 0; i < (kLength + 63) / 64 * 2; ++i) {
            const int at = 64 * (i / 2) + threadIdx.x % 32 * 2 + i % 2;
            numbers[i] = at < kLength ? from[at] : 0;
        }
        norm = from[kLength];
    }
};

// For a warp: what a vector is from a centre in 16 bits, kWidth numbers, zeros behind its end. One that is not usual is
// all zeros. kTurned: with the other sign.
template <int kLength, int kWidth, bool kTurned, typename T, typename Read>
__device__ __forceinline__ Rounded round_vector(
    __nv_bfloat16* to, const LanesVector<kLength, T>& vector, const Centre<kLength>& centre, const Read& read)
{
    constexpr int kOwn = 2 * LanesVector<kLength, T>::kPairs;
    __nv_bfloat16 rounded[kOwn];
    float numbers[kOwn], lost[kOwn], square = 0, rest = 0;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
        numbers[i] = read(vector.numbers[i]) - centre.numbers[i];
        if (kTurned) numbers[i] = -numbers[i];
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
    // What is lost of 256 squares is at most 2^-118; differences are rounded, too.
    const float norm = (sqrtf(square) + 0x1p-59f) * unit;
    return {norm, (sqrtf(rest) + 0x1p-59f) * unit + 0x1p-23f * norm, square * unit * unit, usual};
}

// The greatest norms of columns: of what they are from the centre, of what rounding took of that, of themselves.
struct GreatestNorms {
    float most, rest, own;

    // For a warp, and for a block whose warps have theirs.
    __device__ __forceinline__ void join(const GreatestNorms& other)
    {
        most = fmaxf(most, other.most);
        rest = fmaxf(rest, other.rest);
        own = fmaxf(own, other.own);
    }
    template <int kThreads>
    __device__ __forceinline__ void join_block()
    {
        __shared__ GreatestNorms of_warps[kThreads / 32];
#pragma unroll
        for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2)
            join({__shfl_xor_sync(0xffffffffu, most, lane_mask), __shfl_xor_sync(0xffffffffu, rest, lane_mask),
                  __shfl_xor_sync(0xffffffffu, own, lane_mask)});
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = *this;
        __syncthreads();
#pragma unroll
        for (int warp = 0; warp < kThreads / 32; ++warp) join(of_warps[warp]);
    }
    // For a block: of all kBlocks that rounded, each of which left its own.
    template <int kThreads, int kBlocks>
    static __device__ __forceinline__ GreatestNorms of_blocks(const float* norms)
    {
        const GreatestNorms* const of = reinterpret_cast<const GreatestNorms*>(norms);
        GreatestNorms all = {0, 0, 0};
        for (int i = threadIdx.x; i < kBlocks; i += kThreads) all.join(of[i]);
        all.join_block<kThreads>();
        return all;
    }
};

}  // namespace fusegen
