#pragma once
// What sums are kept relative to.

#include <cmath>
#include <cstdint>
#include <fusegen/cpu/exp.hpp>

namespace fusegen {

namespace {

// What elements are kept relative to: the pivot, or 0 while it is no usable number.
inline real shift_anchor(real pivot) { return std::isfinite(pivot) ? pivot : 0; }

// What elements are kept relative to: the pivot, or 1 while it is no usable number.
inline real scale_anchor(real pivot) { return std::isfinite(pivot) && pivot != 0 ? pivot : 1; }

// Are exponentials relative to one pivot good for another, which is no less? Between them must be a
// number, and the factor, by which they may also be divided, one that has all its digits.
inline bool movable(real from, real to, real divisor = 1)
{
    const real size = std::fabs(divisor);
    return std::isfinite(from) && to - from < 40 && size > real(0x1p-60) && size < real(0x1p60);
}

// The factor that takes exponentials relative to one pivot to another.
inline real factor_between(real from, real to, real divisor = 1)
{
    return (from == to ? 1 : exp(from - to)) / divisor;
}

}  // namespace

}  // namespace fusegen
