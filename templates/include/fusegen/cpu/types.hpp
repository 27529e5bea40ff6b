#pragma once
// Elements of other types than what is computed with.

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

#if defined(__F16C__)
// Are there instructions for as many float16 numbers?
template <typename V>
constexpr bool has_halves = width<V> == 1 || width<V> == 4 || width<V> == 8
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_vcvtph2ps512_mask)
                            || width<V> == 16
#endif
    ;

template <typename T, int64_t n>
using pack_of = typename pack<T, n>::type;

// The first bytes of v; 0 behind them.
template <typename To, typename From>
inline To resized(From v)
{
    To to = {};
    std::memcpy(&to, &v, sizeof v < sizeof to ? sizeof v : sizeof to);
    return to;
}

template <typename To, typename From>
inline To from_halves(From v)
{
    if constexpr (sizeof(To) == 32)
        return as<To>(__builtin_ia32_vcvtph2ps256(as<pack_of<short, 8>>(v)));
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_vcvtph2ps512_mask)
    else if constexpr (sizeof(To) == 64)
        return as<To>(__builtin_ia32_vcvtph2ps512_mask(
            as<pack_of<short, 16>>(v), pack_of<float, 16>(), -1, rounding_as_set));
#endif
    else
        return resized<To>(__builtin_ia32_vcvtph2ps(resized<pack_of<short, 8>>(v)));
}

// Rounded to nearest even.
template <typename To, typename From>
inline To to_halves(From v)
{
    if constexpr (sizeof v == 32)
        return as<To>(__builtin_ia32_vcvtps2ph256(as<pack_of<float, 8>>(v), 0));
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_vcvtph2ps512_mask)
    else if constexpr (sizeof v == 64)
        return as<To>(__builtin_ia32_vcvtps2ph512_mask(as<pack_of<float, 16>>(v), 0, pack_of<short, 16>(), -1));
#endif
    else
        return resized<To>(__builtin_ia32_vcvtps2ph(resized<pack_of<float, 4>>(v), 0));
}
#endif

// Where there are no instructions, exponent and fraction move to their places in a float32, still
// with float16's bias of 15; a product with 2^(127-15) corrects it, and gives subnormals their
// leading bit.
template <typename V, typename L = all_lanes>
inline V load_float16(const uint16_t* from, L live = {})
{
    const auto stored = fetch<like<uint16_t, V>>(from, live);
#if defined(__F16C__)
    if constexpr (has_halves<V>)
        return convert<V>(from_halves<like<float, V>>(stored));
#endif
    typedef like<uint32_t, V> bits;
    const bits wide = convert<bits>(stored);
    const like<float, V> size = as<like<float, V>>((wide & 0x7fff) << 13) * 0x1p112f;
    const bits special = all<bits>(0x7f800000u) | ((wide & 0x3ff) << 13);
    const bits number = select((wide & 0x7c00) == 0x7c00, special, as<bits>(size));
    return convert<V>(as<like<float, V>>(number | ((wide & 0x8000) << 16)));
}

// Words as the upper halves of as many numbers; the lower ones are 0.
template <typename To, typename From>
inline To in_upper_halves(From v)
{
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_permvarhi512_mask)
    if constexpr (sizeof(To) == 64) {
        typedef short words __attribute__((vector_size(64)));
        typedef int numbers __attribute__((vector_size(32)));
        const words from = as<words>(__builtin_ia32_si512_256si(as<numbers>(v)));  // and whatever
        const words at = {0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7,
                          0, 8, 0, 9, 0, 10, 0, 11, 0, 12, 0, 13, 0, 14, 0, 15};
        return as<To>(__builtin_ia32_permvarhi512_mask(from, at, words(), 0xaaaaaaaa));
    } else
#endif
#if defined(__AVX2__) && __has_builtin(__builtin_ia32_pmovzxwd256)
    if constexpr (sizeof(To) == 32) {  // which some compilers do in five steps
        typedef short words __attribute__((vector_size(16)));
        return as<To>(__builtin_ia32_pmovzxwd256(as<words>(v)) << 16);
    } else
#endif
        return as<To>(convert<typename pack<uint32_t, sizeof(To) / sizeof(uint32_t)>::type>(v) << 16);
}

// The upper halves of numbers, as a To.
template <typename To, typename From>
inline To upper_halves(From v)
{
#if defined(__AVX512BW__) && __has_builtin(__builtin_ia32_permvarhi512_mask)
    if constexpr (sizeof v == 64) {
        typedef short words __attribute__((vector_size(64)));
        const words at = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
        const words found = __builtin_ia32_permvarhi512_mask(as<words>(v), at, words(), -1);
        To first;
        std::memcpy(&first, &found, sizeof first);
        return first;
    } else
#endif
#if defined(__AVX2__) && __has_builtin(__builtin_ia32_packusdw128)
    if constexpr (sizeof v == 32) {
        typedef int half __attribute__((vector_size(16)));
        half halves[2];
        const From low = v >> 16;
        std::memcpy(halves, &low, sizeof halves);
        return as<To>(__builtin_ia32_packusdw128(halves[0], halves[1]));
    } else
#endif
        return convert<To>(v >> 16);
}

// The upper half of a float32.
template <typename V, typename L = all_lanes>
inline V load_bfloat16(const uint16_t* from, L live = {})
{
    const auto stored = fetch<like<uint16_t, V>>(from, live);
    return convert<V>(in_upper_halves<like<float, V>>(stored));
}

template <typename V, typename L = all_lanes>
inline V load_float32(const float* from, L live = {})
{
    return convert<V>(fetch<like<float, V>>(from, live));
}

template <typename V, typename L = all_lanes>
inline V load_float64(const double* from, L live = {})
{
    return convert<V>(fetch<like<double, V>>(from, live));
}

template <typename V, typename T, typename L = all_lanes>
inline whole<V> load_int(const T* from, L live = {})
{
    const auto stored = fetch<like<T, V>>(from, live);
    return convert<whole<V>>(stored);
}

template <typename V, typename L = all_lanes>
inline mask<V> load_bool(const uint8_t* from, L live = {})
{
    const auto stored = fetch<like<uint8_t, V>>(from, live);
    if constexpr (width<V> == 1)
        return stored != 0;
    else
        return __builtin_convertvector(stored != 0, mask<V>);
}

// Doubles are rounded to odd, so that rounding once more to 16 bits gives what one rounding would.
template <typename V>
inline like<float, V> to_single(V v)
{
    if constexpr (sizeof(real) == 4) {
        return v;
    } else {
        typedef like<int32_t, V> bits;
        typedef like<int64_t, V> wide;
        const like<float, V> nearest = convert<like<float, V>>(v);
        const V back = convert<V>(nearest);
        const V beyond = (back < 0 ? -back : back) - (v < 0 ? -v : v);  // NaN and exact: no step
        const wide step = select(beyond > 0, all<wide>(-1), select(beyond < 0, all<wide>(1), wide()));
        const bits even = as<bits>(nearest);
        return as<like<float, V>>(even + ((even & 1) - 1 & convert<bits>(step)));
    }
}

// Rounded to nearest even: where there are no instructions, normal numbers by an integer sum that
// carries, subnormal ones by a float sum whose unit is float16's smallest step; beyond 65520 infinity;
// NaN stays NaN.
template <typename V, typename L = all_lanes>
inline void store_float16(uint16_t* to, V v, L live = {})
{
#if defined(__F16C__)
    if constexpr (has_halves<V>)
        return put(to, to_halves<like<uint16_t, V>>(to_single(v)), live);
#endif
    typedef like<uint32_t, V> bits;
    const bits wide = as<bits>(to_single(v));
    const bits size = wide & 0x7fffffff;
    const bits normal = (size - 0x38000000 + 0xfff + ((size >> 13) & 1)) >> 13;
    const bits small = as<bits>(as<like<float, V>>(size) + 0.5f) - 0x3f000000;
    const bits special = select(size > 0x7f800000, all<bits>(0x7e00u), all<bits>(0x7c00u));
    const bits number = select(size < 0x38800000, small, select(size >= 0x47800000, special, normal));
    const auto stored = convert<like<uint16_t, V>>(number | ((wide >> 16) & 0x8000));
    put(to, stored, live);
}

// The upper half of a float32, rounded to nearest even by a sum that carries; NaN stays NaN.
template <typename V, typename L = all_lanes>
inline void store_bfloat16(uint16_t* to, V v, L live = {})
{
    typedef like<uint32_t, V> bits;
    const bits wide = as<bits>(to_single(v));
    const bits half = select((wide & 0x10000) != 0, all<bits>(0x8000u), all<bits>(0x7fffu));
    const bits rounded = select(v != v, wide | 0x400000, wide + half);
    put(to, upper_halves<like<uint16_t, V>>(rounded), live);
}

template <typename V, typename L = all_lanes>
inline void store_float32(float* to, V v, L live = {})
{
    put(to, convert<like<float, V>>(v), live);
}

template <typename V, typename L = all_lanes>
inline void store_float64(double* to, V v, L live = {})
{
    put(to, convert<like<double, V>>(v), live);
}

// Integers clamped to the range of T.
template <typename T, typename I, typename L = all_lanes>
inline void store_int(T* to, I v, L live = {})
{
    if constexpr (sizeof(T) < 8) {
        constexpr int64_t low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
        v = v < low ? all<I>(low) : v;
        v = v > high ? all<I>(high) : v;
    }
    if constexpr (std::is_arithmetic_v<I>) {
        *to = T(v);
    } else {
        typedef T narrow_lanes __attribute__((vector_size(sizeof(I) / 8 * sizeof(T))));
        const narrow_lanes stored = __builtin_convertvector(v, narrow_lanes);
        put(to, stored, live);
    }
}

template <typename M, typename L = all_lanes>
inline void store_bool(uint8_t* to, M m, L live = {})
{
    if constexpr (std::is_arithmetic_v<M>) {
        *to = m;
    } else {
        typedef uint8_t bytes __attribute__((vector_size(sizeof(lanes) / sizeof(real))));
        const bytes stored = one_where<bytes>(m);
        put(to, stored, live);
    }
}

}  // namespace

}  // namespace fusegen
