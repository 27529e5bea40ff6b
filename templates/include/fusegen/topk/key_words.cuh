#pragma once
// Words of keys of 64 or 32 bits: what histograms and thresholds look at.

namespace fusegen {

__device__ __forceinline__ int bit_length(unsigned long long distance) { return 64 - __clzll(distance); }
__device__ __forceinline__ unsigned top_word(unsigned long long key) { return static_cast<unsigned>(key >> 32); }
__device__ __forceinline__ bool same_value(unsigned long long a, unsigned long long b) { return a >> 32 == b >> 32; }

__device__ __forceinline__ int bit_length(unsigned distance) { return 32 - __clz(distance); }
__device__ __forceinline__ unsigned top_word(unsigned key) { return key; }

// The least and the greatest key with these top words.
__device__ __forceinline__ void span_keys(
    unsigned least, unsigned greatest, unsigned long long& low, unsigned long long& high)
{
    low = static_cast<unsigned long long>(least) << 32;
    high = ~(static_cast<unsigned long long>(~greatest) << 32);
}
__device__ __forceinline__ void span_keys(unsigned least, unsigned greatest, unsigned& low, unsigned& high)
{
    low = least, high = greatest;
}

}  // namespace fusegen
