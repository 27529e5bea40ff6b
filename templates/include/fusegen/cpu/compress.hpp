#pragma once
// Lanes as bits, and those whose bit is set one after the other.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

#if defined(__AVX512BW__)
// Those of as many values as a vector has lanes whose bit is set, one after the other, to a place that
// may be their own; how many there are.
template <typename T>
inline int64_t keep(T* to, const T* values, uint64_t bits)
{
    if constexpr (sizeof(T) == 4 && width<lanes> == 16) {
        int part __attribute__((vector_size(64)));
        std::memcpy(&part, values, sizeof part);
        part = __builtin_ia32_compresssi512_mask(part, part ^ part, bits);
        std::memcpy(to, &part, sizeof part);
    } else if constexpr (sizeof(T) == 4) {
        int part __attribute__((vector_size(32)));
        std::memcpy(&part, values, sizeof part);
        part = __builtin_ia32_compresssi256_mask(part, part ^ part, bits);
        std::memcpy(to, &part, sizeof part);
    } else {
        int64_t n = 0;
        for (int64_t i = 0; i < width<lanes>; i += 8) {
            long long part __attribute__((vector_size(64)));
            std::memcpy(&part, values + i, sizeof part);
            part = __builtin_ia32_compressdi512_mask(part, part ^ part, bits >> i);
            std::memcpy(to + n, &part, sizeof part);
            n += __builtin_popcountll(bits >> i & 255);
        }
    }
    return __builtin_popcountll(bits);
}
#else
#if defined(__AVX2__)
typedef int packed_lanes __attribute__((vector_size(32)));

// For each of 256 masks the numbers of the lanes whose bit is set, one after the other, a byte each.
struct packed_numbers {
    uint64_t of[256] = {};

    constexpr packed_numbers()
    {
        for (int mask = 0; mask < 256; ++mask)
            for (int lane = 7; lane >= 0; --lane)
                if (mask >> lane & 1)
                    of[mask] = of[mask] << 8 | lane;
    }
};
constexpr packed_numbers numbers_of;

inline packed_lanes packed(uint64_t bits)
{
#if __has_builtin(__builtin_ia32_pmovzxbd256)
    typedef char bytes __attribute__((vector_size(16)));
    typedef long long longs __attribute__((vector_size(16)));
    return __builtin_ia32_pmovzxbd256(as<bytes>(longs{int64_t(numbers_of.of[bits]), 0}));
#else
    typedef char bytes __attribute__((vector_size(8)));
    return __builtin_convertvector(as<bytes>(numbers_of.of[bits]), packed_lanes);
#endif
}
#endif

// Those of as many values as a vector has lanes whose bit is set, one after the other, to a place that
// may be their own; how many there are.
template <typename T>
inline int64_t keep(T* to, const T* values, uint64_t bits)
{
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4 && width<lanes> == 8) {
        packed_lanes part;
        std::memcpy(&part, values, sizeof part);
        part = __builtin_ia32_permvarsi256(part, packed(bits));
        std::memcpy(to, &part, sizeof part);
        return __builtin_popcountll(bits);
    }
#endif
    int64_t n = 0;
    for (; bits != 0; bits &= bits - 1, ++n)
        to[n] = values[__builtin_ctzll(bits)];
    return n;
}
#endif

#if defined(__AVX512BW__)
template <uint32_t... number>
inline like<uint32_t, lanes> lane_numbers(std::integer_sequence<uint32_t, number...>)
{
    return like<uint32_t, lanes>{number...};
}

// The lanes of v whose bit is set, one after the other, and their numbers, from `first` on; how many
// there are. (Whole vectors are stored: what lies behind the last is overwritten by the next.)
template <typename V, typename T>
inline int64_t append(T* values, uint32_t* numbers, V v, uint64_t bits, uint32_t first)
{
    if constexpr (std::is_arithmetic_v<V>) {
        *values = v;
        *numbers = first;
        return bits;
    } else {
        const auto at = first + lane_numbers(std::make_integer_sequence<uint32_t, width<lanes>>());
        keep(values, reinterpret_cast<const T*>(&v), bits);
        return keep(numbers, reinterpret_cast<const uint32_t*>(&at), bits);
    }
}
#else
// The lanes of v whose bit is set, one after the other, and their numbers, from `first` on; how many
// there are. (Whole vectors are stored, where there are instructions.)
template <typename V, typename T>
inline int64_t append(T* values, uint32_t* numbers, V v, uint64_t bits, uint32_t first)
{
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32 && sizeof(T) == 4) {
        const packed_lanes at = packed(bits), found = at + int(first);
        const packed_lanes part = __builtin_ia32_permvarsi256(as<packed_lanes>(v), at);
        std::memcpy(values, &part, sizeof part);
        std::memcpy(numbers, &found, sizeof found);
        return __builtin_popcountll(bits);
    }
#endif
    int64_t n = 0;
    for (; bits != 0; bits &= bits - 1, ++n) {
        const int lane = __builtin_ctzll(bits);
        values[n] = in_lane(v, lane);
        numbers[n] = first + lane;
    }
    return n;
}
#endif

#if defined(__AVX512BW__)
// The lanes of v that are not below the bar, as bits.
template <typename V, typename T>
inline uint64_t reaching(V v, T bar)
{
    constexpr int not_below = 21, not_below_int = 5;  // as instructions number them
    if constexpr (std::is_arithmetic_v<V>) {
        return !(v < bar);
    } else if constexpr (sizeof(T) == 4) {
        typedef float part __attribute__((vector_size(64)));
        return uint16_t(__builtin_ia32_cmpps512_mask(as<part>(v), bar - part(), not_below, -1, rounding_as_set));
    } else {
        typedef T part __attribute__((vector_size(64)));
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof v / 64; ++i) {
            part some;
            std::memcpy(&some, reinterpret_cast<const char*>(&v) + 64 * i, 64);
            if constexpr (std::is_integral_v<T>) {
                typedef long long longs __attribute__((vector_size(64)));
                const uint8_t here = __builtin_ia32_cmpq512_mask(longs(some), longs(bar - part()), not_below_int, -1);
                bits |= uint64_t(here) << 8 * i;
            } else {
                const uint8_t here = __builtin_ia32_cmppd512_mask(some, bar - part(), not_below, -1, rounding_as_set);
                bits |= uint64_t(here) << 8 * i;
            }
        }
        return bits;
    }
}
#else
// The lanes of v that are not below the bar, as bits.
template <typename V, typename T>
inline uint64_t reaching(V v, T bar)
{
    return lanes_where(inverse(v < bar));
}
#endif

#if defined(__AVX512BW__)
// Which of 64 numbers are not 0, as bits.
inline uint64_t where_any(const uint16_t* numbers)
{
    short low __attribute__((vector_size(64))), high __attribute__((vector_size(64)));
    std::memcpy(&low, numbers, 64);
    std::memcpy(&high, numbers + 32, 64);
    const int unequal = 4;
    return uint64_t(__builtin_ia32_cmpw512_mask(low, low ^ low, unequal, -1))
        | uint64_t(__builtin_ia32_cmpw512_mask(high, high ^ high, unequal, -1)) << 32;
}
#elif defined(__AVX2__)
// Which of 64 numbers are not 0, as bits.
inline uint64_t where_any(const uint16_t* numbers)
{
    uint64_t bits = 0;
    typedef short words __attribute__((vector_size(32)));
    typedef long long longs __attribute__((vector_size(32)));
    for (int i = 0; i < 64; i += 32) {
        words part[2];
        std::memcpy(part, numbers + i, sizeof part);
        const auto bytes = __builtin_ia32_packsswb256(part[0] == words(), part[1] == words());  // by halves
        const auto in_order = __builtin_ia32_permdi256(as<longs>(bytes), 0xd8);
        bits |= uint64_t(~uint32_t(__builtin_ia32_pmovmskb256(as<decltype(bytes + bytes)>(in_order)))) << i;
    }
    return bits;
}
#else
// Which of 64 numbers are not 0, as bits.
inline uint64_t where_any(const uint16_t* numbers)
{
    uint64_t bits = 0;
    for (int i = 0; i < 64; ++i)
        bits |= uint64_t(numbers[i] != 0) << i;
    return bits;
}
#endif

}  // namespace

}  // namespace fusegen
