#pragma once
// Vectors of rows and of columns in tiles: sums over their index, and sums of vectors by weights. Both
// are products of two tables, made in blocks that stay in registers.

#include <cstdint>
#include <utility>
#include <fusegen/cpu/memory.hpp>
#include <fusegen/cpu/order.hpp>
#include <fusegen/cpu/vectors.hpp>

namespace fusegen {

namespace {

constexpr int64_t block_rows = sizeof(lanes) == 64 ? 6 : 4;  // of what registers hold
constexpr int64_t block_vectors = sizeof(lanes) == 64 ? 4 : sizeof(lanes) == 32 ? 2 : 2;
constexpr int64_t block_columns = block_vectors * width<lanes>;

// Room for n numbers, so that blocks of them are whole.
constexpr int64_t in_blocks(int64_t n) { return (n + block_columns - 1) / block_columns * block_columns; }

// a·b more.
struct product_term {
    template <typename V>
    V operator()(V sum, const V (&a)[1], const V (&b)[1]) const
    {
        return sum + a[0] * b[0];
    }
};

// A block of sums: to[r][c] (+)= Σ_i term(a[r][i], b[i][c]), numbers i < n.
template <bool more, int64_t rows, int64_t A, int64_t B, typename Term>
inline void sum_block(real* to, int64_t to_step, const real* const (&a)[A], int64_t a_step,
                      const real* const (&b)[B], int64_t b_step, int64_t n, Term term)
{
    lanes sum[rows][block_vectors];
#pragma GCC unroll 8
    for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int64_t v = 0; v < block_vectors; ++v)
            sum[r][v] = more ? fetch<lanes>(to + r * to_step + v * width<lanes>) : lanes();
    for (int64_t i = 0; i < n; ++i) {
        lanes right[block_vectors][B];
#pragma GCC unroll 8
        for (int64_t v = 0; v < block_vectors; ++v)
#pragma GCC unroll 4
            for (int64_t k = 0; k < B; ++k)
                right[v][k] = fetch<lanes>(b[k] + i * b_step + v * width<lanes>);
#pragma GCC unroll 8
        for (int64_t r = 0; r < rows; ++r) {
            lanes left[A];
#pragma GCC unroll 4
            for (int64_t k = 0; k < A; ++k)
                left[k] = all<lanes>(a[k][r * a_step + i]);
#pragma GCC unroll 8
            for (int64_t v = 0; v < block_vectors; ++v)
                sum[r][v] = term(sum[r][v], left, right[v]);
        }
    }
#pragma GCC unroll 8
    for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int64_t v = 0; v < block_vectors; ++v)
            put(to + r * to_step + v * width<lanes>, sum[r][v]);
}

// The same for any number of rows, and columns in whole blocks. The tables b lie block by block, so
// that what a block needs is one piece of memory: b[k][c / block_columns][i][c % block_columns], a
// block from the next b_step numbers apart.
template <bool more, int64_t A, int64_t B, typename Term>
inline void sum_tile(real* to, int64_t to_step, const real* const (&a)[A], int64_t a_step,
                     const real* const (&b)[B], int64_t b_step, int64_t rows, int64_t columns, int64_t n,
                     Term term)
{
    for (int64_t c = 0; c < columns; c += block_columns) {
        const real* right[B];
        for (int64_t k = 0; k < B; ++k)
            right[k] = b[k] + c / block_columns * b_step;
        int64_t r = 0;
        for (; r + block_rows <= rows; r += block_rows) {
            const real* left[A];
            for (int64_t k = 0; k < A; ++k)
                left[k] = a[k] + r * a_step;
            sum_block<more, block_rows>(to + r * to_step + c, to_step, left, a_step, right, block_columns, n, term);
        }
        for (; r < rows; ++r) {
            const real* left[A];
            for (int64_t k = 0; k < A; ++k)
                left[k] = a[k] + r * a_step;
            sum_block<more, 1>(to + r * to_step + c, to_step, left, a_step, right, block_columns, n, term);
        }
    }
}

// Numbers [begin, end) of a vector; those that fill no vector come one by one.
template <typename T, typename Read>
inline void copy_numbers(real* to, const T* from, int64_t begin, int64_t end, Read read)
{
    for (; begin + width<lanes> <= end; begin += width<lanes>)
        put(to + begin, read(from + begin, lanes()));
    for (; begin < end; ++begin)
        to[begin] = read(from + begin, real());
}

// n vectors, one after the other.
template <typename T, typename Read>
inline void copy_vectors(real* to, const T* from, int64_t step, int64_t n, int64_t length, Read read)
{
    for (int64_t c = 0; c < n; ++c)
        copy_numbers(to + c * length, from + c * step, 0, length, read);
}

// The same in blocks of their numbers, to_step apart; behind a vector's end is 0. Are all finite?
template <typename T, typename Read>
inline bool block_vectors_of(real* to, int64_t to_step, const T* from, int64_t step, int64_t n, int64_t length,
                             Read read)
{
    lanes zero = lanes();  // what finite numbers times 0 add up to
    for (int64_t i = 0; i < length; i += block_columns, from += block_columns, to += to_step) {
        const int64_t some = length - i < block_columns ? length - i : block_columns;
        for (int64_t c = 0; c < n; ++c) {
            real* const own = to + c * block_columns;
            copy_numbers(own, from + c * step, 0, some, read);
            for (int64_t at = some; at < block_columns; ++at)
                own[at] = 0;
            for (int64_t at = 0; at < block_columns; at += width<lanes>)
                zero += fetch<lanes>(own + at) * 0;
        }
    }
    return lanes_where(zero == 0) == lanes_where(lanes() == 0);
}

// Of two vectors by turns a value of one and of the other: the lower half of that, or the upper.
template <int64_t half, typename V, size_t... at>
inline V by_turns(V a, V b, std::index_sequence<at...>)
{
    constexpr int64_t n = sizeof...(at);
#ifdef __clang__
    return __builtin_shufflevector(a, b, (at % 2 * n + half * n / 2 + at / 2)...);
#else
    const mask<V> from = {(at % 2 * n + half * n / 2 + at / 2)...};
    return __builtin_shuffle(a, b, from);
#endif
}

// As many vectors as one has lanes: rows become columns.
template <typename V>
inline void turn(V (&rows)[width<V>])
{
    constexpr int64_t n = width<V>;
    constexpr std::make_index_sequence<n> lane{};
#pragma GCC unroll 4
    for (int64_t h = 1; h < n; h *= 2) {
        V next[n];
#pragma GCC unroll 16
        for (int64_t i = 0; i < n / 2; ++i) {
            next[2 * i] = by_turns<0>(rows[i], rows[i + n / 2], lane);
            next[2 * i + 1] = by_turns<1>(rows[i], rows[i + n / 2], lane);
        }
#pragma GCC unroll 16
        for (int64_t i = 0; i < n; ++i)
            rows[i] = next[i];
    }
}

// In blocks of columns, number by number: to[c / block_columns][i][c % block_columns]; 0 where there
// is no column any more.
template <typename T, typename Read>
inline void turn_vectors(real* to, const T* from, int64_t step, int64_t n, int64_t length, Read read)
{
    constexpr int64_t some = width<lanes>;
    for (int64_t first = 0; first < n; first += some) {
        real* const block = to + first / block_columns * length * block_columns + first % block_columns;
        for (int64_t c = 0; c < some; ++c)  // what comes next, a little ahead
            prefetch(from + (first + 4 * some + c) * step, length);
        int64_t i = 0;
        for (; first + some <= n && i + some <= length; i += some) {
            lanes rows[some];
            for (int64_t c = 0; c < some; ++c)
                rows[c] = read(from + (first + c) * step + i, lanes());
            turn(rows);
            for (int64_t at = 0; at < some; ++at)
                put(block + (i + at) * block_columns, rows[at]);
        }
        for (; i < length; ++i)
            for (int64_t c = 0; c < some; ++c)
                block[i * block_columns + c] = first + c < n ? read(from + (first + c) * step + i, real()) : 0;
    }
    for (int64_t first = (n + some - 1) / some * some; first < in_blocks(n); first += some)
        for (int64_t i = 0; i < length; ++i)
            put(to + first / block_columns * length * block_columns + i * block_columns + first % block_columns,
                lanes());
}

// Of n numbers, those beside [begin, end) become 0.
inline void clear_beside(real* at, int64_t n, int64_t begin, int64_t end)
{
    if (begin >= end)
        begin = end = n;
    for (int64_t c = 0; c < begin; ++c)
        at[c] = 0;
    for (int64_t c = end; c < n; ++c)
        at[c] = 0;
}

// Parts of one piece of memory, each on a cache line; of none it tells how large it must be.
struct parts_of {
    char* begin;
    int64_t bytes = 0;

    template <typename T>
    T* next(int64_t n)
    {
        T* const found = reinterpret_cast<T*>(begin + bytes);
        bytes += (n * int64_t(sizeof(T)) + 63) / 64 * 64;
        return found;
    }
};

}  // namespace

}  // namespace fusegen
