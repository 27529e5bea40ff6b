// __nv_bfloat16: the upper half of a float as a storage type.
#pragma once

#include "short_float.h"

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float value) : bits(simt::float_to_bfloat16_bits(value)) {}
    __nv_bfloat16(double value) : __nv_bfloat16(simt::narrow_for_rounding(value)) {}
    __nv_bfloat16(int value) : __nv_bfloat16(double(value)) {}
    __nv_bfloat16(unsigned value) : __nv_bfloat16(double(value)) {}
    operator float() const { return simt::bfloat16_bits_to_float(bits); }
};

struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

SIMT_SHORT_FLOAT_FUNCTIONS(__nv_bfloat16, bfloat16)

SIMT_INLINE float __bfloat162float(__nv_bfloat16 value) { return float(value); }
SIMT_INLINE __nv_bfloat16 __float2bfloat16(float value) { return __nv_bfloat16(value); }
SIMT_INLINE __nv_bfloat16 __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
SIMT_INLINE __nv_bfloat16 __double2bfloat16(double value) { return __nv_bfloat16(value); }
SIMT_INLINE __nv_bfloat16 __int2bfloat16_rn(int value) { return __nv_bfloat16(value); }
SIMT_INLINE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __nv_bfloat16(fma(double(float(a)), double(float(b)), double(float(c))));
}
SIMT_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
SIMT_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value) { return {value, value}; }
SIMT_INLINE __nv_bfloat162 __float2bfloat162_rn(float value) {
    return {__nv_bfloat16(value), __nv_bfloat16(value)};
}
SIMT_INLINE __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__nv_bfloat16(x), __nv_bfloat16(y)};
}
SIMT_INLINE __nv_bfloat162 __float22bfloat162_rn(float2 value) {
    return {__nv_bfloat16(value.x), __nv_bfloat16(value.y)};
}
SIMT_INLINE float2 __bfloat1622float2(__nv_bfloat162 value) {
    return {float(value.x), float(value.y)};
}
SIMT_INLINE unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
SIMT_INLINE short __bfloat16_as_short(__nv_bfloat16 value) { return short(value.bits); }
SIMT_INLINE __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return std::bit_cast<__nv_bfloat16>(bits);
}
SIMT_INLINE __nv_bfloat16 __short_as_bfloat16(short bits) {
    return std::bit_cast<__nv_bfloat16>(bits);
}
