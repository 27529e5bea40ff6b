#pragma once
// Functions of one value, or of every lane.

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <fusegen/cpu/exp.hpp>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// a·b, but 0 wherever a is 0, even against an infinity or NaN in b.
template <typename V>
inline V zero_wins(V a, V b)
{
    return a == V() ? V() : a * b;
}

// a·b, but 0 wherever either is 0, even against an infinity; not against a NaN in a.
template <typename V>
inline V zeros_win(V a, V b)
{
    return (a == V()) | ((b == V()) & (a == a)) ? V() : a * b;
}

// A value of a row that elements are divided by: multiplied by its inverse; how far the product is from the
// dividend, which is exact, corrects the last digit (Markstein 1990): a quotient that is a number of the
// type is that number. Scaled so that neither a large value nor a small one leaves the range on the way.
template <typename V>
struct divisor {
    explicit divisor(real value) : by(value)
    {
        constexpr real high = sizeof(real) == 4 ? real(0x1p64) : real(0x1p512);
        const real size = by < 0 ? -by : by;
        scale = std::copysign(size > high ? 1 / high : size < 1 / high ? high : real(1), by);
        const real scaled = by * scale;  // not negative, so that a 0 keeps its sign
        inverse = 1 / scaled;
        finite = scaled == infinity ? 0 : scaled;
    }

    real by, scale, inverse, finite;
};

template <typename V>
inline V quotient(V a, const divisor<V>& d)
{
#if defined(__FP_FAST_FMAF) && defined(__FP_FAST_FMA)
    if constexpr (width<V> > 1) {
        const V part = a * d.scale, found = part * d.inverse;
        const V beyond = found * d.finite - part;
        return found - found == V() ? found - beyond * d.inverse : found;
    }
#endif
    return a / d.by;
}

template <typename V>
inline V quotient(V a, real by)
{
    return quotient(a, divisor<V>(by));
}

template <typename V>
inline V square(V x)
{
    return x * x;
}

// A product that is used more than once is rounded once, so that all its uses see one number: without
// the barrier one of them may be contracted into a fused multiply-add, and max(y) - y be below 0.
template <class V>
inline V rounded_product(V a, V b)
{
    V product = a * b;
#if defined(__x86_64__)
    asm("" : "+v"(product));
#elif defined(__aarch64__)
    asm("" : "+w"(product));
#endif
    return product;
}

// The absolute value; adding 0 makes +0 of -0.
template <typename V>
inline V magnitude(V x)
{
    return (x < V() ? -x : x) + V();
}

// -1, 0 or 1; NaN stays NaN.
template <typename V>
inline V sign(V x)
{
    return x > V() ? all<V>(1) : x < V() ? all<V>(-1) : x;
}

// The order turned round, NaN included, which is greatest: the number above -x, -inf for NaN and NaN
// for -inf. The bits of neighbours differ by 1; 0 - x is never -0.
template <typename V>
inline V mirror(V x)
{
    typedef like<std::conditional_t<sizeof(real) == 4, uint32_t, uint64_t>, V> bits;
    const V less = V() - x;
    const bits at = as<bits>(less);
    const V above = as<V>(less < V() ? at - 1 : at + 1);
    return x != x ? all<V>(-infinity) : x == all<V>(-infinity) ? all<V>(nan) : above;
}

template <typename V>
inline auto is_nan(V x)
{
    return x != x;
}

template <typename V>
inline auto is_inf(V x)
{
    return magnitude(x) == infinity;
}

template <typename V>
inline auto is_finite(V x)
{
    return magnitude(x) < infinity;
}

template <typename V>
inline V exp2(V x)
{
    return lane_by_lane(x, [](real lane) { return std::exp2(lane); });
}

template <typename V>
inline V expm1(V x)
{
    return lane_by_lane(x, [](real lane) { return std::expm1(lane); });
}

// The logarithm, to 1 ulp. x = 2^e * (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), whose bits stand
// first when those of sqrt(1/2) are taken off; subnormal numbers are made normal before.
template <typename V>
inline V log_float(V x)
{
    typedef like<int32_t, V> bits;
    const mask<V> small = x < 0x1p-126f;
    const bits given = as<bits>(small ? x * 0x1p23f : x) - 0x3f3504f3;
    const V e = convert<V>(given >> 23) - (small ? all<V>(23.0f) : V());
    const V f = as<V>((given & 0x7fffff) + 0x3f3504f3) - 1.0f;
    V p = f * 7.0376836292e-2f - 1.1514610310e-1f;
    p = p * f + 1.1676998740e-1f;
    p = p * f - 1.2420140846e-1f;
    p = p * f + 1.4249322787e-1f;
    p = p * f - 1.6668057665e-1f;
    p = p * f + 2.0000714765e-1f;
    p = p * f - 2.4999993993e-1f;
    p = p * f + 3.3333331174e-1f;
    const V square = f * f;
    const V low = e * -2.12194440e-4f + square * f * p - 0.5f * square;
    const V number = e * 0.693359375f + (f + low);
    const V other = x == V() ? all<V>(-infinity) : x < V() ? all<V>(nan) : x;
    return (x > V()) & (x < infinity) ? number : other;
}

template <typename V>
inline V log(V x)
{
    if constexpr (sizeof(real) == 4)
        return log_float(x);
    else
        return lane_by_lane(x, [](real lane) { return std::log(lane); });
}

template <typename V>
inline V log2(V x)
{
    return lane_by_lane(x, [](real lane) { return std::log2(lane); });
}

template <typename V>
inline V log1p(V x)
{
    return lane_by_lane(x, [](real lane) { return std::log1p(lane); });
}

template <typename V>
inline V sqrt(V x)
{
    return lane_by_lane(x, [](real lane) { return std::sqrt(lane); });
}

template <typename V>
inline V tanh(V x)
{
    return lane_by_lane(x, [](real lane) { return std::tanh(lane); });
}

template <typename V>
inline V sin(V x)
{
    return lane_by_lane(x, [](real lane) { return std::sin(lane); });
}

template <typename V>
inline V cos(V x)
{
    return lane_by_lane(x, [](real lane) { return std::cos(lane); });
}

template <typename V>
inline V erf(V x)
{
    return lane_by_lane(x, [](real lane) { return std::erf(lane); });
}

template <typename V>
inline V floor(V x)
{
    return lane_by_lane(x, [](real lane) { return std::floor(lane); });
}

template <typename V>
inline V ceil(V x)
{
    return lane_by_lane(x, [](real lane) { return std::ceil(lane); });
}

template <typename V>
inline V rint(V x)
{
    return lane_by_lane(x, [](real lane) { return std::rint(lane); });
}

template <typename V>
inline V pow(V base, V exponent)
{
    if constexpr (width<V> == 1) {
        return std::pow(base, exponent);
    } else {
        for (int64_t i = 0; i < width<V>; ++i)
            base[i] = std::pow(base[i], exponent[i]);
        return base;
    }
}

template <typename V>
inline V reciprocal_sqrt(V x)
{
    return all<V>(1) / sqrt(x);
}

// 1 / (1 + e^-x); below 0 as e^x / (1 + e^x), which stays a number where e^-x is infinite.
template <typename V>
inline V sigmoid(V x)
{
    const V t = exp(-magnitude(x));
    return (x < V() ? t : all<V>(1)) / (all<V>(1) + t);
}

// a·log(b), but 0 wherever a is 0; NaN in b stays NaN.
template <typename V>
inline V xlogy(V a, V b)
{
    const V logarithm = log(a == V() ? all<V>(1) : b);
    return zero_wins(a, logarithm) + (b != b ? b : V());
}

// Toward zero, clamped to 64 bits; NaN gives 0.
template <typename V>
inline whole<V> to_int(V x)
{
    constexpr real limit = 0x1p63;
    const V inside = (x > -limit) & (x < limit) ? x : V();
    whole<V> found = convert<whole<V>>(inside);
    found = select(x >= limit, all<whole<V>>(INT64_MAX), found);
    return select(x <= -limit, all<whole<V>>(INT64_MIN), found);
}

}  // namespace

}  // namespace fusegen
