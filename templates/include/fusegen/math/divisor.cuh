#pragma once

namespace fusegen {

// A value that many are divided by: they are multiplied by its inverse, and how far the product is from the
// dividend, which is exact, corrects the last digit (Markstein 1990): a quotient that is a number of the
// type is that number.
// Scaled so that neither a large value nor a small one leaves the range on the way.
struct Divisor {
    float scaled, scale, inverse;

    Divisor() = default;
    __device__ __forceinline__ explicit Divisor(float value)
    {
        const float size = fabsf(value);
        scale = copysignf(size > 0x1p64f ? 0x1p-64f : size < 0x1p-64f ? 0x1p64f : 1.0f, value);
        scaled = value * scale;  // not negative, so that a 0 keeps its sign
        inverse = 1.0f / scaled;
        if (isinf(scaled)) scaled = 0.0f;
    }
    // Off by a rounding or two.
    __device__ __forceinline__ float nearly(float a) const { return a * scale * inverse; }
    __device__ __forceinline__ float under(float a) const
    {
        const float part = a * scale, found = part * inverse;
        const float beyond = fmaf(found, scaled, -part);
        return isfinite(found) ? fmaf(-beyond, inverse, found) : found;
    }
};

// A value between 1 and 2^64, or NaN, that exponentials are divided by, which are rounded themselves.
struct NearDivisor {
    float inverse;

    NearDivisor() = default;
    __device__ __forceinline__ explicit NearDivisor(float value) : inverse(1.0f / value) {}
    __device__ __forceinline__ float nearly(float a) const { return a * inverse; }
    __device__ __forceinline__ float under(float a) const { return a * inverse; }
};

}  // namespace fusegen
