#pragma once

namespace fusegen {

// A value that many are divided by: they are multiplied, twice, so that neither a large nor a small
// one leaves the range on the way.
struct Divisor {
    float scale, inverse;

    Divisor() = default;
    __device__ __forceinline__ explicit Divisor(float value)
    {
        scale = fabsf(value) > 0x1p64f ? 0x1p-64f : fabsf(value) < 0x1p-64f ? 0x1p64f : 1.0f;
        inverse = 1.0f / (value * scale);
    }
    __device__ __forceinline__ float under(float a) const { return a * scale * inverse; }
};

// The same of a value between 1 and 2^64, or NaN.
struct NearDivisor {
    float inverse;

    NearDivisor() = default;
    __device__ __forceinline__ explicit NearDivisor(float value) : inverse(1.0f / value) {}
    __device__ __forceinline__ float under(float a) const { return a * inverse; }
};

}  // namespace fusegen
