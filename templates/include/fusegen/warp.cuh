#pragma once
// What the lanes of a warp find out together.

namespace fusegen {

// The least, the greatest and the sum of all lanes' words.
__device__ __forceinline__ unsigned least_of_warp(unsigned word)
{
#if __CUDA_ARCH__ >= 800
    word = __reduce_min_sync(0xffffffffu, word);
#else
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, word, lane_mask);
        word = min(word, other);
    }
#endif
    return word;
}
__device__ __forceinline__ unsigned greatest_of_warp(unsigned word)
{
#if __CUDA_ARCH__ >= 800
    word = __reduce_max_sync(0xffffffffu, word);
#else
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, word, lane_mask);
        word = max(word, other);
    }
#endif
    return word;
}
__device__ __forceinline__ unsigned sum_of_warp(unsigned word)
{
#if __CUDA_ARCH__ >= 800
    word = __reduce_add_sync(0xffffffffu, word);
#else
#pragma unroll
    for (int lane_mask = 16; lane_mask > 0; lane_mask /= 2) {
        const unsigned other = __shfl_xor_sync(0xffffffffu, word, lane_mask);
        word = word + other;
    }
#endif
    return word;
}

// What the lower lanes hold, added up.
__device__ __forceinline__ unsigned sum_of_lower(unsigned mine, int lane)
{
    unsigned sum = mine;
#pragma unroll
    for (int gap = 1; gap < 32; gap *= 2) {
        const unsigned lower = __shfl_up_sync(0xffffffffu, sum, gap);
        if (lane >= gap) sum += lower;
    }
    return sum - mine;
}

// The n-th greatest of all lanes' words, counted from 1: a network sorts them.
__device__ __forceinline__ unsigned nth_of_warp(unsigned word, int n, int lane)
{
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
        for (int gap = size / 2; gap > 0; gap /= 2) {
            const unsigned other = __shfl_xor_sync(0xffffffffu, word, gap);
            const bool first = ((lane & gap) == 0) == ((lane & size) == 0);
            word = first ? max(word, other) : min(word, other);
        }
    }
    return __shfl_sync(0xffffffffu, word, n - 1);
}

// The same for a small n: the greatest again and again, equal ones together.
__device__ __forceinline__ unsigned one_of_best(unsigned word, int n)
{
    while (true) {
        const unsigned best = greatest_of_warp(word);
        n -= __popc(__ballot_sync(0xffffffffu, word == best));
        if (n <= 0) return best;
        if (word == best) word = 0;  // of zeros alone there are enough
    }
}

// A word that at least `wanted` of what a warp has are not below, if that holds for `low`, and at most
// `most` where words tell them apart. Halves the distance between a word that enough reach and one that
// too few do: 32 rounds at most, whatever the values are.
template <typename CountOf>
__device__ __forceinline__ unsigned word_of_warp(
    int wanted, int most, unsigned low, unsigned high, const CountOf& count_of)
{
    while (low < high) {
        const unsigned middle = high - (high - low) / 2;
        const int count = count_of(middle);
        if (count < wanted) {
            high = middle - 1;
            continue;
        }
        low = middle;
        if (count <= most) break;
    }
    return low;
}

// Likewise; a few are found sooner one after the other. `below` is the next lower word of the warp.
template <typename CountOf, typename Below>
__device__ __forceinline__ unsigned word_of_warp(
    int wanted, int most, unsigned low, unsigned high, const CountOf& count_of, const Below& below)
{
    if (wanted > 8) return word_of_warp(wanted, most, low, high, count_of);
    while (count_of(high) < wanted) high = below(high);
    return high;
}

}  // namespace fusegen
