#pragma once
// Exponentials of vectors.

#include <cmath>
#include <cstdint>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

#if defined(__AVX512BW__)
// e^x for x <= 89, to 1 ulp or half the least subnormal number. With n = round(x / ln 2) and
// r = x - n ln 2, e^x = 2^n * e^r: one instruction, which rounds once. A large constant rounds to n. Where
// that is 0 the instruction is not asked: underflow takes it as long as fifty others.
template <typename V>
inline V exp_within_float(V x)
{
    constexpr int not_below = 21;  // as instructions number it
    constexpr float least = -104.0f;
    const V n = (x * 1.44269504f + 0x1.8p23f) - 0x1.8p23f;
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 0.00138139306f + 0.00836881623f;
    p = p * r + 0.0416684151f;
    p = p * r + 0.166665196f;
    p = p * r + 0.49999994f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    typedef float vector __attribute__((vector_size(64)));
    vector value = {}, power = {};
    if constexpr (sizeof(V) == 64) {
        const auto some = __builtin_ia32_cmpps512_mask(x, least - V(), not_below, -1, rounding_as_set);
        return __builtin_ia32_scalefps512_mask(p, n, value, some, rounding_as_set);
    } else {
        value[0] = p, power[0] = n;
        return __builtin_ia32_scalefps512_mask(value, power, vector(), !(x < least), rounding_as_set)[0];
    }
}

// e^x for x <= 710, to 1 ulp or half the least subnormal number. With n = round(x / ln 2) and
// r = x - n ln 2, e^x = 2^n * e^r: one instruction, which rounds once. A large constant rounds to n. Where
// that is 0 the instruction is not asked: underflow takes it as long as fifty others.
template <typename V>
inline V exp_within_double(V x)
{
    constexpr int not_below = 21;  // as instructions number it
    constexpr double least = -745.2;
    const V n = (x * 1.4426950408889634 + 0x1.8p52) - 0x1.8p52;
    const V r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    V p = r * (1 / 6227020800.0) + 1 / 479001600.0;
    p = p * r + 1 / 39916800.0;
    p = p * r + 1 / 3628800.0;
    p = p * r + 1 / 362880.0;
    p = p * r + 1 / 40320.0;
    p = p * r + 1 / 5040.0;
    p = p * r + 1 / 720.0;
    p = p * r + 1 / 120.0;
    p = p * r + 1 / 24.0;
    p = p * r + 1 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    typedef double vector __attribute__((vector_size(64)));
    vector value = {}, power = {};
    if constexpr (sizeof(V) == 64) {
        const auto some = __builtin_ia32_cmppd512_mask(x, least - V(), not_below, -1, rounding_as_set);
        return __builtin_ia32_scalefpd512_mask(p, n, value, some, rounding_as_set);
    } else {
        value[0] = p, power[0] = n;
        return __builtin_ia32_scalefpd512_mask(value, power, vector(), !(x < least), rounding_as_set)[0];
    }
}
#else
// e^x for numbers in the range of normal results, to 1 ulp. With n = round(x / ln 2) and
// r = x - n ln 2, e^x = 2^(n-1) * 2 e^r. A large constant rounds to n, and leaves the biased exponent
// of 2^(n-1) in the low bits of the sum; 2^-127 comes out as 0.
template <typename V>
inline V exp_within_float(V x)
{
    typedef like<uint32_t, V> bits;
    const V shifted = x * 1.44269504f + (0x1.8p23f + 126);
    const V scale = as<V>(as<bits>(shifted) << 23);
    const V n = shifted - (0x1.8p23f + 126);
    const V r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    V p = r * 0.00276278618f + 0.0167376324f;
    p = p * r + 0.0833368298f;
    p = p * r + 0.333330395f;
    p = p * r + 0.999999865f;
    p = p * r + 2.0f;
    p = p * r + 2.0f;
    return p * scale;
}

// e^x for numbers in the range of normal results, to 1 ulp. With n = round(x / ln 2) and
// r = x - n ln 2, e^x = 2^(n-1) * 2 e^r. A large constant rounds to n, and leaves the biased exponent
// of 2^(n-1) in the low bits of the sum; 2^-1023 comes out as 0.
template <typename V>
inline V exp_within_double(V x)
{
    typedef like<uint64_t, V> bits;
    const V shifted = x * 1.4426950408889634 + (0x1.8p52 + 1022);
    const V scale = as<V>(as<bits>(shifted) << 52);
    const V n = shifted - (0x1.8p52 + 1022);
    const V r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    V p = r * (2 / 6227020800.0) + 2 / 479001600.0;
    p = p * r + 2 / 39916800.0;
    p = p * r + 2 / 3628800.0;
    p = p * r + 2 / 362880.0;
    p = p * r + 2 / 40320.0;
    p = p * r + 2 / 5040.0;
    p = p * r + 2 / 720.0;
    p = p * r + 2 / 120.0;
    p = p * r + 2 / 24.0;
    p = p * r + 2 / 6.0;
    p = p * r + 1.0;
    p = p * r + 2.0;
    p = p * r + 2.0;
    return p * scale;
}
#endif

template <typename V>
inline V exp_within(V x)
{
    if constexpr (sizeof(real) == 4)
        return exp_within_float(x);
    else
        return exp_within_double(x);
}

#if defined(__AVX512BW__)
// e^x for x <= 0. NaN stays NaN.
template <typename V>
inline V exp_below_float(V x)
{
    return exp_within(x);
}

// e^x for x <= 0. NaN stays NaN.
template <typename V>
inline V exp_below_double(V x)
{
    return exp_within(x);
}
#else
// e^x for x <= 0. The bits of negative numbers grow with their size, so one integer minimum bounds
// them. Sums of other x, and of NaN, hang on a pivot that is no number: they are discarded.
template <typename V>
inline V exp_below_float(V x)
{
    typedef like<uint32_t, V> bits;
    const bits given = as<bits>(x), least = as<bits>(all<V>(-87.6f));
    return exp_within(as<V>(given < least ? given : least));
}

// e^x for x <= 0. Sums of other x hang on a pivot that is no number: they are discarded.
template <typename V>
inline V exp_below_double(V x)
{
    return exp_within(x < -708.3 ? all<V>(-708.3) : x);
}
#endif

template <typename V>
inline V exp_below(V x)
{
    if constexpr (sizeof(real) == 4)
        return exp_below_float(x);
    else
        return exp_below_double(x);
}

#if defined(__AVX512BW__)
// e^x; beyond these bounds it is 0, or no finite number, all the same. NaN stays NaN.
template <typename V>
inline V exp_float(V x)
{
    const V high = all<V>(89.0f);
#if __has_builtin(__builtin_ia32_minps512_mask)
    if constexpr (sizeof(V) == 64)
        return exp_below(__builtin_ia32_minps512_mask(high, x, x, -1, rounding_as_set));
    else
#endif
        return exp_below(high < x ? high : x);
}

// e^x; beyond these bounds it is 0, or no finite number, all the same. NaN stays NaN.
template <typename V>
inline V exp_double(V x)
{
    const V high = all<V>(710.0);
#if __has_builtin(__builtin_ia32_minpd512_mask)
    if constexpr (sizeof(V) == 64)
        return exp_below(__builtin_ia32_minpd512_mask(high, x, x, -1, rounding_as_set));
    else
#endif
        return exp_below(high < x ? high : x);
}
#else
// e^x. Where one of the results may be subnormal, which is rare, it is the square of e^(x / 2): that is
// normal, and only the square is rounded to the few bits that are left.
template <typename V>
inline V exp_float(V x)
{
    x = x > 89.0f ? all<V>(89.0f) : x;
    if (rarely(lanes_where(x < -86.9f) != 0)) {
        const V half = exp_within((x < -110.0f ? all<V>(-110.0f) : x) * 0.5f);
        return x < -86.9f ? half * half : exp_within(x);
    }
    return exp_within(x);
}

// e^x. Where one of the results may be subnormal, which is rare, it is the square of e^(x / 2): that is
// normal, and only the square is rounded to the few bits that are left.
template <typename V>
inline V exp_double(V x)
{
    x = x > 710.0 ? all<V>(710.0) : x;
    if (rarely(lanes_where(x < -708.0) != 0)) {
        const V half = exp_within((x < -760.0 ? all<V>(-760.0) : x) * 0.5);
        return x < -708.0 ? half * half : exp_within(x);
    }
    return exp_within(x);
}
#endif

template <typename V>
inline V exp(V x)
{
    if constexpr (sizeof(real) == 4)
        return exp_float(x);
    else
        return exp_double(x);
}

}  // namespace

}  // namespace fusegen
