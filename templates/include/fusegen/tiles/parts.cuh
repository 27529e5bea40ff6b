#pragma once
// Float32 vectors as sums of bfloat16 parts, which lie side by side; scores of vectors that are no such sums.

#include <cuda_bf16.h>
#include <fusegen/tiles/fragment.cuh>
#include <fusegen/tiles/instructions.cuh>

namespace fusegen {

// A warp splits one vector: to[…] of kParts times `width` numbers, zeros behind the vector's end. Is it unusual, in
// every lane: are three parts less than a number, or is one so large that sums of products may overflow?
template <int kParts>
__device__ __forceinline__ bool split_vector(__nv_bfloat16* to, int width, const float* from, int length)
{
    bool usual = true;
    for (int i = threadIdx.x % 32 * 2; i < width; i += 64) {
        float left[2] = {i < length ? from[i] : 0.0f, i + 1 < length ? from[i + 1] : 0.0f};
        usual &= fabsf(left[0]) <= 0x1p59f && fabsf(left[1]) <= 0x1p59f;
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
            const __nv_bfloat16 two[2] = {__float2bfloat16_rn(left[0]), __float2bfloat16_rn(left[1])};
            *reinterpret_cast<unsigned*>(to + part * width + i) = word_of(two);
            left[0] -= __bfloat162float(two[0]);
            left[1] -= __bfloat162float(two[1]);
        }
        if (kParts == 3) usual &= left[0] == 0 && left[1] == 0;
    }
    return __any_sync(0xffffffffu, !usual);
}

// A warp rounds one vector to tfloat32: to[…] of `width` words of 16 bits, two a number, zeros behind the vector's end.
// Is it unusual, in every lane?
__device__ __forceinline__ bool round_vector(__nv_bfloat16* to, int width, const float* from, int length)
{
    bool usual = true;
    for (int i = threadIdx.x % 32; i < width / 2; i += 32) {
        const float number = i < length ? from[i] : 0.0f;
        usual &= fabsf(number) <= 0x1p59f;
        reinterpret_cast<unsigned*>(to)[i] = rounded_to_tfloat32(number);
    }
    return __any_sync(0xffffffffu, !usual);
}

// For a block: has any column an unusual vector? Each of the kBlocks that split says whether it met one.
template <int kThreads, int kBlocks>
__device__ __forceinline__ bool unusual_columns(const float* of_blocks)
{
    bool found = false;
    for (int i = threadIdx.x; i < kBlocks; i += kThreads) found |= of_blocks[i] != 0;
    return __syncthreads_or(found);
}

// Some numbers that lie together, read at once where they begin at a multiple of their bytes.
template <int kNumbers>
struct alignas(4 * kNumbers) Together {
    float of[kNumbers];
};

// Numbers from `begin` to before `end` of all vectors more: see make_scores_whole.
template <int kNumbers, int kCount>
__device__ __forceinline__ void add_whole(
    float (&scores)[kCount], const float* first, const float* second, const float* vectors, long long stride, int most,
    int begin, int end)
{
    typedef Together<kNumbers> Numbers;
#pragma unroll
    for (int from = 0; from < kCount / 2; from += 8)  // columns at a time: where they begin takes registers, too
#pragma unroll 1
        for (int n = begin; n < end; n += kNumbers) {
            const Numbers one = *reinterpret_cast<const Numbers*>(first + n);
            const Numbers other = *reinterpret_cast<const Numbers*>(second + n);
#pragma unroll
            for (int i = from; i < min(from + 8, kCount / 2); ++i) {
                const float* const vector = vectors + min(i / 2 * 8 + i % 2, most) * stride;
                const Numbers mine = *reinterpret_cast<const Numbers*>(vector + n);
#pragma unroll
                for (int at = 0; at < kNumbers; ++at) {
                    scores[4 * (i / 2) + i % 2] += one.of[at] * mine.of[at];
                    scores[4 * (i / 2) + 2 + i % 2] += other.of[at] * mine.of[at];
                }
            }
        }
}

// Scores of a lane's two rows and columns of a tile, the first of which is `column`, in float32; of `end` columns.
template <int kCount>
__device__ __forceinline__ void make_scores_whole(
    float (&scores)[kCount], const float* first, const float* second, const float* columns, long long stride,
    int column, int end, int length)
{
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] = 0.0f;
    const float* const vectors = columns + static_cast<long long>(min(column, end - 1)) * stride;
    const int most = max(end - 1 - column, 0);  // vectors behind the first
    const unsigned long long places = reinterpret_cast<unsigned long long>(first) |
        reinterpret_cast<unsigned long long>(second) | reinterpret_cast<unsigned long long>(columns) | stride * 4;
    const int fours = places % 16 == 0 ? length / 4 * 4 : 0;
    add_whole<4>(scores, first, second, vectors, stride, most, 0, fours);
    add_whole<1>(scores, first, second, vectors, stride, most, fours, length);
}

}  // namespace fusegen
