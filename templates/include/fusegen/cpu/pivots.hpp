#pragma once
// What sums are kept relative to.

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <fusegen/cpu/exp.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// What elements are kept relative to: the pivot, or 0 while it is no usable number.
template <typename V>
inline V shift_anchor(V pivot)
{
    if constexpr (std::is_arithmetic_v<V>)
        return std::isfinite(pivot) ? pivot : 0;
    else
        return pivot - pivot == V() ? pivot : V();
}

// What elements are kept relative to: the pivot, or 1 while it is no usable number.
template <typename V>
inline V scale_anchor(V pivot)
{
    if constexpr (std::is_arithmetic_v<V>)
        return std::isfinite(pivot) && pivot != 0 ? pivot : 1;
    else
        return (pivot - pivot == V()) & (pivot != V()) ? pivot : all<V>(1);
}

// Are exponentials relative to one pivot, of distances in these steps, good for another, which is no
// less? Between them must be a number, and the factor, by which they may also be divided, one that has
// all its digits.
inline bool movable(real from, real to, real divisor = 1, real steps = 1)
{
    const real size = std::fabs(divisor);
    return std::isfinite(from) && (to - from) * steps < 40 && size > real(0x1p-60) && size < real(0x1p60);
}

// The factor that takes exponentials relative to one pivot to another.
inline real factor_between(real from, real to, real divisor = 1, real steps = 1)
{
    return (from == to ? 1 : exp((from - to) * steps)) / divisor;
}

}  // namespace

}  // namespace fusegen
