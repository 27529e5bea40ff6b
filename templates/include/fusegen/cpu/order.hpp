#pragma once
// The orders of lists, and which lanes of a vector matter to them.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <fusegen/cpu/reduce.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

#if defined(__AVX512BW__)
// The lanes where m is set, as bits.
template <typename M>
inline uint64_t lanes_where(M m)
{
    if constexpr (std::is_arithmetic_v<M>) {
        return m;
    } else {
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof m / 64; ++i) {
            if constexpr (sizeof m[0] == 4) {
                int part __attribute__((vector_size(64)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 64 * i, 64);
                bits |= uint64_t(__builtin_ia32_cvtd2mask512(part)) << 16 * i;
            } else {
                long long part __attribute__((vector_size(64)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 64 * i, 64);
                bits |= uint64_t(__builtin_ia32_cvtq2mask512(part)) << 8 * i;
            }
        }
        return bits;
    }
}
#elif defined(__AVX2__)
// The lanes where m is set, as bits.
template <typename M>
inline uint64_t lanes_where(M m)
{
    if constexpr (std::is_arithmetic_v<M>) {
        return m;
    } else {
        uint64_t bits = 0;
        for (size_t i = 0; i < sizeof m / 32; ++i) {
            if constexpr (sizeof m[0] == 4) {
                float part __attribute__((vector_size(32)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 32 * i, 32);
                bits |= uint64_t(__builtin_ia32_movmskps256(part)) << 8 * i;
            } else {
                double part __attribute__((vector_size(32)));
                std::memcpy(&part, reinterpret_cast<const char*>(&m) + 32 * i, 32);
                bits |= uint64_t(__builtin_ia32_movmskpd256(part)) << 4 * i;
            }
        }
        return bits;
    }
}
#else
// The lanes where m is set, as bits.
template <typename M>
inline uint64_t lanes_where(M m)
{
    if constexpr (std::is_arithmetic_v<M>) {
        return m;
    } else {
        M bit;
        for (size_t i = 0; i < sizeof m / sizeof m[0]; ++i)
            bit[i] = 1 << i;
        return across(m & bit, [](auto a, auto b) { return a | b; });
    }
}
#endif

// The order of lists: greatest first, NaN ahead of all numbers.
struct descending {
    template <typename T>
    static bool ahead(T a, T b)
    {
        return (a > b) | ((a != a) & (b == b));
    }

    // The lanes of v that could be ahead of the bar, as bits.
    template <typename V, typename T>
    static uint64_t admitted(V v, T bar)
    {
        return lanes_where(inverse(v <= bar));
    }
};

// Least first, NaN ahead of all numbers.
struct ascending {
    template <typename T>
    static bool ahead(T a, T b)
    {
        return (a < b) | ((a != a) & (b == b));
    }

    // The lanes of v that could be ahead of the bar, as bits.
    template <typename V, typename T>
    static uint64_t admitted(V v, T bar)
    {
        return lanes_where(inverse(v >= bar));
    }
};

// By value, then by column. (No short circuits: which of two candidates leads cannot be predicted.)
template <typename order, typename T>
inline bool precedes(T a, int64_t a_column, T b, int64_t b_column)
{
    return order::ahead(a, b) | (!order::ahead(b, a) & (a_column < b_column));
}

}  // namespace

}  // namespace fusegen
