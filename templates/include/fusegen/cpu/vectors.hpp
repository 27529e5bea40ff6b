#pragma once
// Values, alone or in every lane of a vector. What is computed with (`real`) and its vectors (`lanes`) stand before
// the first header.

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fusegen {

namespace {

constexpr int rounding_as_set = 4;  // as instructions number it

// Elements in a V: 1 for a plain value.
template <typename V>
constexpr int64_t width = sizeof(V) / sizeof(real);

template <typename T, int64_t n>
struct pack {
    typedef T type __attribute__((vector_size(n * sizeof(T))));
};
template <typename T>
struct pack<T, 1> {
    typedef T type;
};
// As many T as there are values in a V.
template <typename T, typename V>
using like = typename pack<T, sizeof(V) / sizeof(real)>::type;

template <typename V>
using whole = like<int64_t, V>;

// What comparing two V gives: a bool, or lanes of all ones and all zeros.
template <typename V>
using mask = decltype(V() < V());

// One value in every lane. (s - 0 is s for every s, -0 and NaN included.)
template <typename V, typename S>
inline V all(S s)
{
    if constexpr (std::is_arithmetic_v<V>)
        return static_cast<V>(s);
    else
        return static_cast<std::decay_t<decltype(V()[0])>>(s) - V();
}

// One truth in every lane.
template <typename M>
inline M all_if(bool truth)
{
    return M() - int(truth);
}

// The same bits as another type.
template <typename To, typename From>
inline To as(From from)
{
    To to;
    static_assert(sizeof to == sizeof from);
    std::memcpy(&to, &from, sizeof to);
    return to;
}

// The same values as another type.
template <typename To, typename From>
inline To convert(From v)
{
    if constexpr (std::is_arithmetic_v<From>)
        return static_cast<To>(v);
    else
        return __builtin_convertvector(v, To);
}

// A comparison of 64-bit integers as a mask for V.
template <typename V, typename M>
inline mask<V> narrow(M m)
{
    if constexpr (width<V> == 1)
        return m;
    else
        return __builtin_convertvector(m, mask<V>);
}

template <typename M>
inline M inverse(M m)
{
    return m == M();
}

// a where m, else b.
template <typename M, typename T>
inline T select(M m, T a, T b)
{
    if constexpr (sizeof(M) == sizeof(T) || std::is_arithmetic_v<M>)
        return m ? a : b;
    else
        return __builtin_convertvector(m, mask<T>) ? a : b;
}

// 1 where m, else 0.
template <typename T, typename M>
inline T one_where(M m)
{
    if constexpr (std::is_arithmetic_v<M>)
        return T(m);
    else
        return T() - __builtin_convertvector(m, T);
}

// The column numbers of the elements from `first` on.
template <typename V>
inline whole<V> column_numbers(int64_t first)
{
    if constexpr (width<V> == 1) {
        return first;
    } else {
        whole<V> at;
        for (int64_t i = 0; i < width<V>; ++i)
            at[i] = first + i;
        return at;
    }
}

// What `at` finds for each of the columns from `first` on: as many as V has lanes.
template <typename V, typename W, typename F>
inline W one_by_one(int64_t first, F at)
{
    if constexpr (width<V> == 1) {
        return at(first);
    } else {
        W found;
        for (int64_t i = 0; i < width<V>; ++i)
            found[i] = at(first + i);
        return found;
    }
}

template <typename V, typename F>
inline V lane_by_lane(V v, F f)
{
    if constexpr (width<V> == 1) {
        return f(v);
    } else {
        for (int64_t i = 0; i < width<V>; ++i)
            v[i] = f(v[i]);
        return v;
    }
}

// The value in lane i.
template <typename V>
inline auto in_lane(V v, int64_t i)
{
    if constexpr (std::is_arithmetic_v<V>)
        return v;
    else
        return v[i];
}

inline bool rarely(bool condition) { return __builtin_expect(condition, 0); }

}  // namespace

}  // namespace fusegen
