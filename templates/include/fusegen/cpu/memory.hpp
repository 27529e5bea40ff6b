#pragma once
// Rows to vectors and back, and what is asked for ahead of time.

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <fusegen/cpu/walk.hpp>

namespace fusegen {

namespace {

// Asks for an element that is needed soon; beyond the end of the memory that does nothing.
template <typename T>
inline void prefetch(const T* from) { __builtin_prefetch(from); }

// Likewise for n of them.
template <typename T>
inline void prefetch(const T* from, int64_t n)
{
    for (int64_t i = 0; i < n; i += 64 / sizeof(T))
        __builtin_prefetch(from + i);
}

// Asks for the part-th two cache lines of n results, which are going to be written.
template <typename T>
inline void expect(T* to, int64_t n, int64_t part)
{
    constexpr int64_t line = 64 / sizeof(T);
    if (2 * line * part < n) {
        __builtin_prefetch(to + 2 * line * part, 1);
        __builtin_prefetch(to + 2 * line * part + line, 1);
    }
}

// A T from memory.
template <typename T, typename E>
inline T fetch(const E* from, all_lanes = {})
{
    T v;
    std::memcpy(&v, from, sizeof v);
    return v;
}

// A T to memory.
template <typename T, typename E>
inline void put(E* to, T v, all_lanes = {})
{
    std::memcpy(to, &v, sizeof v);
}

#if defined(__AVX512BW__)
template <int64_t n>
struct pack_of_bytes {
    typedef char type __attribute__((vector_size(n)));
};
template <int64_t n>
using byte_vector = typename pack_of_bytes<n>::type;

// An address as instructions that move some bytes of a vector take it.
template <int64_t n, typename E>
inline auto byte_place(E* at)
{
#ifdef __clang__
    return (byte_vector<n>*)at;
#else
    return (char*)at;
#endif
}

// The first n bytes of a vector, as bits.
inline uint64_t first_bytes(int64_t n) { return n >= 64 ? -1 : n <= 0 ? 0 : (uint64_t(1) << n) - 1; }

typedef float words __attribute__((vector_size(64)));

// An address as instructions that move some words of a vector take it.
template <typename E>
inline auto word_place(E* at)
{
#ifdef __clang__
    return (words*)at;
#else
    return (float*)at;
#endif
}

// The live lanes of a T from memory; the others are 0, and what lies there is not touched.
template <typename T, typename E>
inline T fetch(const E* from, first_lanes live)
{
    const int64_t count = live.n * sizeof(E);
    T v;
    if constexpr (sizeof v == 64 && sizeof(E) == 4) {
        return as<T>(__builtin_ia32_loadups512_mask(word_place(from), words(), (1 << live.n) - 1));
    } else if constexpr (sizeof v <= 16) {
        const auto found =
            __builtin_ia32_loaddquqi128_mask(byte_place<16>(from), byte_vector<16>(), first_bytes(count));
        std::memcpy(&v, &found, sizeof v);
    } else if constexpr (sizeof v == 32) {
        const auto found =
            __builtin_ia32_loaddquqi256_mask(byte_place<32>(from), byte_vector<32>(), first_bytes(count));
        std::memcpy(&v, &found, sizeof v);
    } else {
        for (int64_t at = 0; at < int64_t(sizeof v); at += 64) {
            const auto part = reinterpret_cast<const char*>(from) + at;
            const auto found =
                __builtin_ia32_loaddquqi512_mask(byte_place<64>(part), byte_vector<64>(), first_bytes(count - at));
            std::memcpy(reinterpret_cast<char*>(&v) + at, &found, 64);
        }
    }
    return v;
}

// The live lanes of a T to memory.
template <typename T, typename E>
inline void put(E* to, T v, first_lanes live)
{
    const int64_t count = live.n * sizeof(E);
    if constexpr (sizeof v == 64 && sizeof(E) == 4) {
        __builtin_ia32_storeups512_mask(word_place(to), as<words>(v), (1 << live.n) - 1);
    } else if constexpr (sizeof v <= 16) {
        byte_vector<16> stored = {};
        std::memcpy(&stored, &v, sizeof v);
        __builtin_ia32_storedquqi128_mask(byte_place<16>(to), stored, first_bytes(count));
    } else if constexpr (sizeof v == 32) {
        __builtin_ia32_storedquqi256_mask(byte_place<32>(to), as<byte_vector<32>>(v), first_bytes(count));
    } else {
        for (int64_t at = 0; at < int64_t(sizeof v); at += 64) {
            byte_vector<64> stored;
            std::memcpy(&stored, reinterpret_cast<const char*>(&v) + at, 64);
            const auto part = reinterpret_cast<char*>(to) + at;
            __builtin_ia32_storedquqi512_mask(byte_place<64>(part), stored, first_bytes(count - at));
        }
    }
}
#else
// The first n bytes of a word, through registers: a load waits long for what several stores have just
// written. Halves of it may overlap, for they hold the same where they do.
inline uint64_t fetch_bytes(const char* from, int64_t n)
{
    if (n >= 8)
        return fetch<uint64_t>(from);
    if (n >= 4)
        return fetch<uint32_t>(from) | uint64_t(fetch<uint32_t>(from + n - 4)) << 8 * (n - 4);
    if (n >= 2)
        return fetch<uint16_t>(from) | uint64_t(fetch<uint16_t>(from + n - 2)) << 8 * (n - 2);
    return n == 1 ? fetch<uint8_t>(from) : 0;
}

inline void put_bytes(char* to, uint64_t word, int64_t n)
{
    if (n >= 8) {
        put(to, word);
    } else if (n >= 4) {
        put(to, uint32_t(word));
        put(to + n - 4, uint32_t(word >> 8 * (n - 4)));
    } else if (n >= 2) {
        put(to, uint16_t(word));
        put(to + n - 2, uint16_t(word >> 8 * (n - 2)));
    } else if (n == 1) {
        put(to, uint8_t(word));
    }
}

// As many bytes, in words.
template <int64_t n>
struct pack_of_words {
    typedef uint64_t type __attribute__((vector_size(n)));
};

// The live lanes of a T from memory; the others are 0, and what lies there is not touched.
template <typename T, typename E>
inline T fetch(const E* from, first_lanes live)
{
    constexpr int64_t n = sizeof(T) > 8 ? sizeof(T) : 8;
    typename pack_of_words<n>::type words;
    for (int64_t i = 0; i < n / 8; ++i)
        words[i] = fetch_bytes(reinterpret_cast<const char*>(from) + 8 * i, live.n * sizeof(E) - 8 * i);
    T v;
    std::memcpy(&v, &words, sizeof v);
    return v;
}

// The live lanes of a T to memory.
template <typename T, typename E>
inline void put(E* to, T v, first_lanes live)
{
    constexpr int64_t n = sizeof(T) > 8 ? sizeof(T) : 8;
    typename pack_of_words<n>::type words = {};
    std::memcpy(&words, &v, sizeof v);
    for (int64_t i = 0; i < n / 8; ++i)
        put_bytes(reinterpret_cast<char*>(to) + 8 * i, words[i], live.n * sizeof(E) - 8 * i);
}
#endif

template <typename V, typename L = all_lanes>
inline V load(const real* from, L live = {})
{
    return fetch<V>(from, live);
}

template <typename V, typename L = all_lanes>
inline void store(real* to, V v, L live = {})
{
    put(to, v, live);
}

// A small state is made apart from its place, beside which others' lie: threads that write to one line wait for
// one another.
template <typename State, typename F>
inline void apart(void* place, F make)
{
    if constexpr (sizeof(State) <= 4096) {
        State state;
        make(state);
        *static_cast<State*>(place) = state;
    } else {
        make(*static_cast<State*>(place));
    }
}

// Bytes of the largest of some types.
template <typename... T>
constexpr int64_t largest_of()
{
    int64_t bytes = 0;
    ((bytes = int64_t(sizeof(T)) > bytes ? sizeof(T) : bytes), ...);
    return bytes;
}

}  // namespace

}  // namespace fusegen
