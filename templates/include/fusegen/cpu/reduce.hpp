#pragma once
// Lanes become one value.

#include <cstdint>
#include <type_traits>
#include <utility>
#include <fusegen/cpu/limits.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

// The greater; NaN if either is.
template <typename V>
inline V greater_of(V a, V b)
{
    const V found = a > b ? a : b;  // b where they do not compare
    return a != a ? a : found;
}

// The lesser; NaN if either is.
template <typename V>
inline V lesser_of(V a, V b)
{
    const V found = a < b ? a : b;  // b where they do not compare
    return a != a ? a : found;
}

template <typename T, typename V, size_t... i>
inline auto half_of(V v, size_t first, std::index_sequence<i...>)
{
    typedef T half __attribute__((vector_size(sizeof...(i) * sizeof(T))));
    return half{v[first + i]...};
}

// Folds the lanes of v, halves onto halves: the same order whatever the processor.
template <typename V, typename F>
inline auto across(V v, F f)
{
    if constexpr (std::is_arithmetic_v<V>) {
        return v;
    } else {
        typedef std::decay_t<decltype(v[0])> T;
        constexpr size_t n = sizeof(V) / sizeof(T) / 2;
        if constexpr (n == 1) {
            return f(T(v[0]), T(v[1]));
        } else {
            const auto low = half_of<T>(v, 0, std::make_index_sequence<n>());
            const auto high = half_of<T>(v, n, std::make_index_sequence<n>());
            return across(f(low, high), f);
        }
    }
}

// Is the mask set in any lane?
template <typename M>
inline bool any(M m)
{
    if constexpr (std::is_arithmetic_v<M>) {
        return m;
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_ptestmd512)
    } else if constexpr (sizeof m == 64) {
        typedef int words __attribute__((vector_size(64)));
        return __builtin_ia32_ptestmd512(as<words>(m), as<words>(m), -1) != 0;
#endif
    } else {
        typedef int64_t words __attribute__((vector_size(sizeof(M))));
        return across(as<words>(m), [](auto a, auto b) { return a | b; }) != 0;
    }
}

// The greatest so far, lane by lane. NaN is noted beside it: to test for it in the comparison would
// lengthen the chain from one element to the next.
template <typename V>
struct highest {
    V so_far = all<V>(-infinity);
    mask<V> nans = mask<V>();

    void take(V x)
    {
        so_far = x > so_far ? x : so_far;
        nans |= x != x;
    }

    V each() const { return nans ? all<V>(nan) : so_far; }

    real across() const
    {
        const real found = fusegen::across(so_far, [](auto a, auto b) { return a > b ? a : b; });
        return rarely(any(nans)) ? nan : found;
    }
};

// The least so far, lane by lane. NaN is noted beside it: to test for it in the comparison would
// lengthen the chain from one element to the next.
template <typename V>
struct lowest {
    V so_far = all<V>(infinity);
    mask<V> nans = mask<V>();

    void take(V x)
    {
        so_far = x < so_far ? x : so_far;
        nans |= x != x;
    }

    V each() const { return nans ? all<V>(nan) : so_far; }

    real across() const
    {
        const real found = fusegen::across(so_far, [](auto a, auto b) { return a < b ? a : b; });
        return rarely(any(nans)) ? nan : found;
    }
};

// Two halves of a chunk.
template <template <typename> typename fold, typename V>
inline fold<V> both(fold<V> one, const fold<V>& other)
{
    one.take(other.so_far);
    one.nans |= other.nans;
    return one;
}

template <typename V>
inline auto greatest(V v)
{
    return across(v, [](auto a, auto b) { return greater_of(a, b); });
}

template <typename V>
inline auto least(V v)
{
    return across(v, [](auto a, auto b) { return lesser_of(a, b); });
}

template <typename V>
inline auto total(V v)
{
    return across(v, [](auto a, auto b) { return a + b; });
}

template <typename V>
inline auto product(V v)
{
    return across(v, [](auto a, auto b) { return a * b; });
}

}  // namespace

}  // namespace fusegen
