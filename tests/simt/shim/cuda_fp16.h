// __half: IEEE binary16 as a storage type.
#pragma once

#include "short_float.h"

struct __half {
    uint16_t bits;
    __half() = default;
    __half(float value) : bits(simt::float_to_half_bits(value)) {}
    __half(double value) : __half(simt::narrow_for_rounding(value)) {}
    __half(int value) : __half(double(value)) {}
    __half(unsigned value) : __half(double(value)) {}
    operator float() const { return simt::half_bits_to_float(bits); }
};

struct __align__(4) __half2 {
    __half x, y;
};

using half = __half;
using half2 = __half2;

SIMT_SHORT_FLOAT_FUNCTIONS(__half, half)

SIMT_INLINE float __half2float(__half value) { return float(value); }
SIMT_INLINE __half __float2half(float value) { return __half(value); }
SIMT_INLINE __half __float2half_rn(float value) { return __half(value); }
SIMT_INLINE __half __double2half(double value) { return __half(value); }
SIMT_INLINE __half __int2half_rn(int value) { return __half(value); }
SIMT_INLINE __half __hfma(__half a, __half b, __half c) {
    return __half(fma(double(float(a)), double(float(b)), double(float(c))));
}
SIMT_INLINE __half2 make_half2(__half x, __half y) { return {x, y}; }
SIMT_INLINE __half2 __half2half2(__half value) { return {value, value}; }
SIMT_INLINE __half2 __float2half2_rn(float value) { return {__half(value), __half(value)}; }
SIMT_INLINE __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
SIMT_INLINE __half2 __float22half2_rn(float2 value) { return {__half(value.x), __half(value.y)}; }
SIMT_INLINE float2 __half22float2(__half2 value) { return {float(value.x), float(value.y)}; }
SIMT_INLINE unsigned short __half_as_ushort(__half value) { return value.bits; }
SIMT_INLINE short __half_as_short(__half value) { return short(value.bits); }
SIMT_INLINE __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }
SIMT_INLINE __half __short_as_half(short bits) { return std::bit_cast<__half>(bits); }
