#pragma once
// Bounds of float32 scores x·y or -½|x - y|² by products of bfloat16, which are twice as fast: what a bound
// leaves out is not scored.
//
// For x', y' of bfloat16, |x·y - x'·y'| <= |x - x'||y'| + |x||y - y'|, and sums in float32 are off by at most
// c·(|x||y| + ½|y|²), c = (d + 8)·2^-22. So that x·y (- ½|y|²) is no more than the product of
// (x', |x - x'|, |x|) and (y', |y'|, |y - y'| + c|y|), to which (-½|y|² + c·½|y|²) + 2^-100 is added: all norms
// are rounded up, and 2^-55 or more, so that nothing of theirs is lost to underflow. Numbers beyond 2^60 are not
// bounded: of such columns every score counts, and of such rows.

#include <cmath>
#include <cstdint>
#include <fusegen/cpu/best.hpp>
#include <fusegen/cpu/pairs.hpp>

namespace fusegen {

namespace {

#if defined(__AVX512BW__)
typedef pack<float, 16>::type singles;
typedef pack<uint32_t, 16>::type pairs;  // of bfloat16

constexpr int64_t bound_rows = 6, bound_vectors = 4;  // of what registers hold
constexpr int64_t bound_columns = bound_vectors * 16;

// Has this processor products of bfloat16? (A bit of what it says of itself; the compiler's own question
// needs a library.)
inline bool has_bounds()
{
    uint32_t a = 0, b, c = 0, d;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (a < 7)
        return false;
    a = 7, c = 1;
    __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    return a >> 5 & 1;
}

// Pairs of a vector of n numbers: theirs, and one of norms.
constexpr int64_t pairs_of(int64_t n) { return (n + 1) / 2 + 1; }

// The sums and the products of pairs. (Compilers disagree about its types.)
inline singles pair_products(singles sum, pairs a, pairs b)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}

// To the nearest bfloat16, whose other half is 0. NaN need not stay NaN.
template <typename B>
inline B rounded_half(B bits)
{
    return (bits + 0x8000) & 0xffff0000;
}

// A bfloat16 that is no less than v >= 0.
template <typename B, typename V>
inline B half_above(V v)
{
    return as<B>(v * (1 + 0x1p-6f)) & 0xffff0000;
}

// No less than the norm of a vector whose squares add up to this, as float32 adds.
inline float norm_above(float squares) { return std::sqrt(squares * (1 + 0x1p-9f) + 0x1p-110f); }

constexpr float largest_bounded = 0x1p60f;

// What float32 may add to a sum of n terms, in parts of the norms' product.
constexpr float rounding_share(int64_t n) { return (n + 8) * 0x1p-22f; }

// Vectors of rows, one after the other, as pairs; |x|² of each, NaN where x is not bounded.
inline void round_rows(uint32_t* to, double* squares, const float* from, int64_t n, int64_t length)
{
    const int64_t step = pairs_of(length);
    for (int64_t r = 0; r < n; ++r, to += step, from += length) {
        double all = 0;
        float size = 0, rest = 0;
        for (int64_t i = 0; i < step - 1; ++i) {
            const float a = from[2 * i], b = 2 * i + 1 < length ? from[2 * i + 1] : 0;
            const uint32_t low = rounded_half(as<uint32_t>(a)), high = rounded_half(as<uint32_t>(b));
            to[i] = low >> 16 | high;
            const float a_rest = a - as<float>(low), b_rest = b - as<float>(high);
            all += double(a) * a + double(b) * b;
            size += a * a + b * b;
            rest += a_rest * a_rest + b_rest * b_rest;
        }
        const float norm = norm_above(size);
        to[step - 1] = half_above<uint32_t>(norm_above(rest)) >> 16 | half_above<uint32_t>(norm);
        squares[r] = norm <= largest_bounded ? all : std::numeric_limits<double>::quiet_NaN();
    }
}

// Vectors of columns, which lie in blocks, number by number, as pairs:
// to[c / bound_columns][i / 2][c % bound_columns]; and what is added to their products, of distances or of dots.
template <bool distances>
inline void round_columns(uint32_t* to, float* start, const float* from, int64_t columns, int64_t length)
{
    constexpr int64_t step = bound_columns;
    const float share = rounding_share(length);
    for (int64_t c = 0; c < columns; c += step, from += length * step, to += pairs_of(length) * step)
        for (int64_t v = 0; v < step; v += 16) {
            singles size = singles(), rest = singles();
            for (int64_t i = 0; i < length; i += 2) {
                const singles a = fetch<singles>(from + i * step + v);
                const singles b = i + 1 < length ? fetch<singles>(from + (i + 1) * step + v) : singles();
                const pairs low = rounded_half(as<pairs>(a)), high = rounded_half(as<pairs>(b));
                put(to + i / 2 * step + v, low >> 16 | high);
                const singles a_rest = a - as<singles>(low), b_rest = b - as<singles>(high);
                size += a * a + b * b;
                rest += a_rest * a_rest + b_rest * b_rest;
            }
            singles norm, other, first;
            for (int i = 0; i < 16; ++i) {
                norm[i] = norm_above(size[i]), other[i] = norm_above(rest[i]);
                first[i] = distances ? size[i] * (share - 1) * 0.5f + 0x1p-100f : 0x1p-100f;
                first[i] = norm[i] <= largest_bounded ? first[i] : std::numeric_limits<float>::infinity();
            }
            put(to + (length + 1) / 2 * step + v,
                half_above<pairs>(norm + other) >> 16 | half_above<pairs>(other + share * norm));
            put(start + c + v, first);
        }
}

// Of rows and bound_columns columns: may any of a row's columns reach its bar?
template <int64_t rows>
inline void bound_block(uint8_t* reach, int64_t reach_step, const uint32_t* x, const uint32_t* y, const float* start,
                        const float* bars, int64_t n)
{
    singles sum[rows][bound_vectors];
#pragma GCC unroll 8
    for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 8
        for (int64_t v = 0; v < bound_vectors; ++v)
            sum[r][v] = fetch<singles>(start + 16 * v);
    for (int64_t i = 0; i < n; ++i) {
        pairs right[bound_vectors];
#pragma GCC unroll 8
        for (int64_t v = 0; v < bound_vectors; ++v)
            right[v] = fetch<pairs>(y + i * bound_columns + 16 * v);
#pragma GCC unroll 8
        for (int64_t r = 0; r < rows; ++r) {
            const pairs left = x[r * n + i] - pairs();
#pragma GCC unroll 8
            for (int64_t v = 0; v < bound_vectors; ++v)
                sum[r][v] = pair_products(sum[r][v], left, right[v]);
        }
    }
#pragma GCC unroll 8
    for (int64_t r = 0; r < rows; ++r) {
        constexpr int not_less = 5;
        const singles bar = bars[r] - singles();
        unsigned found = 0;
#pragma GCC unroll 8
        for (int64_t v = 0; v < bound_vectors; ++v)
            found |= __builtin_ia32_cmpps512_mask(sum[r][v], bar, not_less, -1, rounding_as_set);
        reach[r * reach_step] = found != 0;
    }
}

// The same for any number of rows, and whole blocks of columns: reach[r][c / bound_columns]. How many may?
inline int64_t bound_tile(uint8_t* reach, int64_t reach_step, const uint32_t* x, const uint32_t* y, const float* start,
                          const float* bars, int64_t rows, int64_t columns, int64_t n)
{
    for (int64_t c = 0; c < columns / bound_columns; ++c, y += n * bound_columns, start += bound_columns) {
        int64_t r = 0;
        for (; r + bound_rows <= rows; r += bound_rows)
            bound_block<bound_rows>(reach + r * reach_step + c, reach_step, x + r * n, y, start, bars + r, n);
        for (; r < rows; ++r)
            bound_block<1>(reach + r * reach_step + c, reach_step, x + r * n, y, start, bars + r, n);
    }
    int64_t found = 0;
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns / bound_columns; ++c)
            found += reach[r * reach_step + c];
    return found;
}

// What a dot must reach to be no less than the worst that is kept; `squares`: of the row.
inline float dot_bar(double squares, float worst) { return float(worst + 0 * squares); }

// The distance whose root was rounded to this, but for what `distance_bar` allows.
inline double squared(float root) { return double(root) * root; }

// What -½|x - y|² + ½|x|² must reach for a distance, summed in float32, that is no more than the worst that is kept.
inline float distance_bar(double squares, double worst, int64_t length)
{
    const double most = worst * (1 + (length + 16) * 0x1p-23);
    const double bar = 0.5 * (squares * (1 - 0x1p-40) - most);
    return float(bar - std::fabs(bar) * 0x1p-22);
}
#endif

// What is last in a list: nothing else enters that is behind it.
template <typename T, int64_t K>
inline T last_of(const best_list<T, K>& list) { return list.values[K - 1]; }

template <typename T>
inline T last_of(const leader<T, descending>& list) { return list.column < 0 ? -infinity : list.value; }

template <typename T>
inline T last_of(const leader<T, ascending>& list) { return list.column < 0 ? infinity : list.value; }

}  // namespace

}  // namespace fusegen
