#pragma once
// The ends of a type's values.

#include <cstdint>
#include <limits>

namespace fusegen {

namespace {

constexpr real infinity = std::numeric_limits<real>::infinity();

constexpr real nan = std::numeric_limits<real>::quiet_NaN();

template <typename T>
constexpr T lowest_of =
    std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();

}  // namespace

}  // namespace fusegen
