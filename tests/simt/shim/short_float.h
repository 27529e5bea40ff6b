// What __half and __nv_bfloat16 have in common.  Every operation computes in float and rounds once,
// which for +, -, *, / gives exactly the correctly rounded result.
#pragma once

#include "narrow.h"

#define SIMT_SHORT_FLOAT_OPERATOR(type, op)                                                  \
    SIMT_INLINE type operator op(type a, type b) { return type(float(a) op float(b)); }      \
    SIMT_INLINE type& operator op##=(type& a, type b) { return a = a op b; }

#define SIMT_SHORT_FLOAT_COMPARISON(type, op, name)                                          \
    SIMT_INLINE bool operator op(type a, type b) { return float(a) op float(b); }            \
    SIMT_INLINE bool name(type a, type b) { return float(a) op float(b); }

// The functions that CUDA overloads for both types.  In __hmin and __hmax a NaN loses.
#define SIMT_SHORT_FLOAT_FUNCTIONS(type, type2)                                              \
    SIMT_SHORT_FLOAT_OPERATOR(type, +)                                                       \
    SIMT_SHORT_FLOAT_OPERATOR(type, -)                                                       \
    SIMT_SHORT_FLOAT_OPERATOR(type, *)                                                       \
    SIMT_SHORT_FLOAT_OPERATOR(type, /)                                                       \
    SIMT_SHORT_FLOAT_COMPARISON(type, ==, __heq)                                             \
    SIMT_SHORT_FLOAT_COMPARISON(type, !=, __hne)                                             \
    SIMT_SHORT_FLOAT_COMPARISON(type, <, __hlt)                                              \
    SIMT_SHORT_FLOAT_COMPARISON(type, <=, __hle)                                             \
    SIMT_SHORT_FLOAT_COMPARISON(type, >, __hgt)                                              \
    SIMT_SHORT_FLOAT_COMPARISON(type, >=, __hge)                                             \
    SIMT_INLINE type operator-(type a) { return type(-float(a)); }                           \
    SIMT_INLINE type __hadd(type a, type b) { return a + b; }                                \
    SIMT_INLINE type __hsub(type a, type b) { return a - b; }                                \
    SIMT_INLINE type __hmul(type a, type b) { return a * b; }                                \
    SIMT_INLINE type __hdiv(type a, type b) { return a / b; }                                \
    SIMT_INLINE type __hneg(type a) { return -a; }                                           \
    SIMT_INLINE type __habs(type a) { return type(fabsf(float(a))); }                        \
    SIMT_INLINE type __hmin(type a, type b) { return type(fminf(float(a), float(b))); }      \
    SIMT_INLINE type __hmax(type a, type b) { return type(fmaxf(float(a), float(b))); }      \
    SIMT_INLINE bool __hisnan(type a) { return isnan(float(a)); }                            \
    SIMT_INLINE type __low2##type2(type##2 a) { return a.x; }                                \
    SIMT_INLINE type __high2##type2(type##2 a) { return a.y; }                               \
    SIMT_INLINE float __low2float(type##2 a) { return float(a.x); }                          \
    SIMT_INLINE float __high2float(type##2 a) { return float(a.y); }                         \
    SIMT_INLINE type##2 __hadd2(type##2 a, type##2 b) { return {a.x + b.x, a.y + b.y}; }     \
    SIMT_INLINE type##2 __hsub2(type##2 a, type##2 b) { return {a.x - b.x, a.y - b.y}; }     \
    SIMT_INLINE type##2 __hmul2(type##2 a, type##2 b) { return {a.x * b.x, a.y * b.y}; }     \
    SIMT_INLINE type##2 __hmin2(type##2 a, type##2 b) {                                      \
        return {__hmin(a.x, b.x), __hmin(a.y, b.y)};                                         \
    }                                                                                        \
    SIMT_INLINE type##2 __hmax2(type##2 a, type##2 b) {                                      \
        return {__hmax(a.x, b.x), __hmax(a.y, b.y)};                                         \
    }                                                                                        \
    SIMT_INLINE type##2 __hmax2_nan(type##2 a, type##2 b) {                                  \
        return {type(simt::ptx::max_nan(a.x, b.x)), type(simt::ptx::max_nan(a.y, b.y))};     \
    }                                                                                        \
    SIMT_INLINE type##2 __hlt2(type##2 a, type##2 b) {                                       \
        return {type(__hlt(a.x, b.x) ? 1.0f : 0.0f), type(__hlt(a.y, b.y) ? 1.0f : 0.0f)};   \
    }                                                                                        \
    SIMT_INLINE unsigned __hgeu2_mask(type##2 a, type##2 b) {                                \
        return (float(a.x) < float(b.x) ? 0 : 0xffffu) |                                     \
               (float(a.y) < float(b.y) ? 0 : 0xffff0000u);                                  \
    }                                                                                        \
    SIMT_INLINE type##2 __lows2##type2##2(type##2 a, type##2 b) { return {a.x, b.x}; }       \
    SIMT_INLINE type##2 __highs2##type2##2(type##2 a, type##2 b) { return {a.y, b.y}; }      \
    SIMT_INLINE type##2 __halves2##type2##2(type a, type b) { return {a, b}; }

namespace simt {

// Rounds to odd: a second rounding, to far fewer bits, then gives what one rounding would have.
SIMT_INLINE float narrow_for_rounding(double value) {
    const float nearest = float(value);
    const uint32_t bits = std::bit_cast<uint32_t>(nearest);
    if (double(nearest) == value || isnan(value) || (bits & 1)) return nearest;
    return std::bit_cast<float>(fabs(double(nearest)) > fabs(value) ? bits - 1 : bits + 1);
}

}  // namespace simt
