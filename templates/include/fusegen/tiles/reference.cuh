#pragma once
// What sums of powers are kept about while tiles are folded. It need not be the maximum: any value does that keeps
// powers in range, and sums move from one to another by a factor.

#include <fusegen/tiles/instructions.cuh>

namespace fusegen {

constexpr float kLag = 8.0f;  // how far the greatest exponent of 2 may be above it
constexpr float kFar = 0x1p24f;  // beyond, what is rounded off exponents would be felt

// Sums hold 2^(e - start). Before anything was added, there is no limit to be kept.
struct Reference {
    float start, limit;

    static __device__ __forceinline__ Reference of_nothing() { return {0.0f, __int_as_float(0xff800000)}; }

    // Is an exponent too far above it? NaN is.
    __device__ __forceinline__ bool exceeded_by(float greatest) const { return !(greatest <= limit); }

    // Moves to an exponent, and says what sums are to be multiplied with: 1, if nothing was added yet.
    __device__ __forceinline__ float move(float greatest)
    {
        const float next = fabsf(greatest) < kFar ? greatest : __int_as_float(0x7fc00000);
        const bool begun = !(limit < -kFar);
        const float factor = begun ? exp2_approximate(start - next) : 1.0f;
        start = begun ? next + (start - start) : next;  // once NaN, always NaN
        limit = start + kLag;
        return factor;
    }

    // Were exponents so large that nothing can be said of the sums?
    __device__ __forceinline__ bool lost() const { return start != start; }

    // What sums are to be multiplied with to be about m, a natural exponent.
    __device__ __forceinline__ float to(float m) const
    {
        if (limit < -kFar) return 1.0f;
        return exp2_approximate(fmaf(-m, 1.44269502f, start) - m * 1.92596303e-8f);  // log₂e in two parts
    }
};

}  // namespace fusegen
