#pragma once
// Hyperbolic tangents of scores, with the digits that 16-bit results need.

#include <fusegen/tiles/instructions.cuh>

namespace fusegen {

// Of four numbers, as 1 - 2 / (1 + e^2a): they share one reciprocal, since a GPU makes few of them at a time. Beyond
// 10 it is 1 in any case, which keeps the product of all four in range. Absolute error about 3e-7, and relative error
// below 2^-12, since a small number is its own tangent; NaN is the result of NaN alone.
__device__ __forceinline__ void tangents_of(float (&numbers)[4])
{
    float below[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        below[i] = 1.0f + exp2_approximate(fminf(numbers[i] * 2.8853900817779268f, 30.0f));
    const float first = below[0] * below[1], second = below[2] * below[3];
    const float inverse = __fdividef(1.0f, first * second);
    const float of_first = inverse * second, of_second = inverse * first;
    const float inverses[4] = {of_first * below[1], of_first * below[0], of_second * below[3], of_second * below[2]};
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (fabsf(numbers[i]) >= 0x1p-9f) numbers[i] = fmaf(-2.0f, inverses[i], 1.0f);
}

constexpr float kNear = 0.375f;  // below, a polynomial of degree 7 is the tangent, to 2 units in the last place

// p · tanh(c·x), where |c·x| < kNear: neither is formed for it.
struct NearTangents {
    float c, p, far;  // |x| below `far` is near
    float coefficients[4];  // of x, x³, x⁵, x⁷

    // None are near where c is negative, or so small that its powers vanish.
    static __device__ __forceinline__ NearTangents of(float c, float p)
    {
        const float square = c * c;
        return {c, p, c > 0x1p-13f ? __fdividef(kNear, c) : 0.0f,
                {p * c * kFirst, p * c * square * kSecond, p * c * square * square * kThird,
                 p * c * square * square * square * kFourth}};
    }

    __device__ __forceinline__ float tangent(float x) const
    {
        const float a = c * x, square = a * a;
        return a * fmaf(square, fmaf(square, fmaf(square, kFourth, kThird), kSecond), kFirst);
    }

    // p · tanh(c·x) - start
    __device__ __forceinline__ float power(float x, float start) const
    {
        const float square = x * x;
        const float far_ones = fmaf(square, coefficients[3], coefficients[2]);
        return fmaf(x, fmaf(square, fmaf(square, far_ones, coefficients[1]), coefficients[0]), -start);
    }

private:
    static constexpr float kFirst = 0.99999994f, kSecond = -0.33331975f, kThird = 0.13284501f, kFourth = -0.04827226f;
};

}  // namespace fusegen
