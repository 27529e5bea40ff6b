#pragma once
// Values of lists as integers that compare as they do.

#include <cstdint>
#include <limits>
#include <type_traits>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// Integers as wide as T.
template <typename T>
using rank = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
template <typename T>
using unsigned_rank = std::make_unsigned_t<rank<T>>;

// An integer that compares as the value does in a list: NaN above all numbers, -0 as 0. Its low bits are
// 0 where those of the value are, whatever its sign.
template <typename T>
inline rank<T> rank_of(T value)
{
    if constexpr (std::is_integral_v<T>) {
        return value;
    } else {
        constexpr rank<T> most = std::numeric_limits<rank<T>>::max();
        const rank<T> bits = as<rank<T>>(value), size = bits & most;
        const rank<T> ordered = bits < 0 ? -size : size;
        return value != value ? most : ordered;
    }
}

// The value of a rank.
template <typename T>
inline T value_of(rank<T> r)
{
    if constexpr (std::is_integral_v<T>)
        return r;
    else
        return r < 0 ? -as<T>(rank<T>(-r)) : as<T>(r);
}

// The next value after those of a rank; after the last, infinity or the largest integer, itself.
template <typename T>
inline T following(rank<T> r)
{
    if constexpr (std::is_integral_v<T>)
        return r < std::numeric_limits<T>::max() ? r + 1 : r;
    else
        return r < rank_of(infinity) ? value_of<T>(r + 1) : infinity;
}

}  // namespace

}  // namespace fusegen
