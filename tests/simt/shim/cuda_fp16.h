// __half: IEEE binary16 as a storage type.
#pragma once

#include "short_float.h"

namespace simt {

// Round to nearest even; NaN becomes CUDA's canonical one.
SIMT_INLINE uint16_t float_to_half_bits(float value) {
    constexpr uint32_t infinity = 0x7f800000, overflow = 0x477ff000, smallest_normal = 0x38800000;
    constexpr uint32_t rebias = (127 - 15) << 23;
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > infinity) return 0x7fff;
    if (magnitude >= overflow) return uint16_t(sign | 0x7c00);
    if (magnitude < smallest_normal) {
        // Adding 0.5 lets the floating-point unit round: its last bit is worth 2^-24 then.
        const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
        return uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return uint16_t(sign | (magnitude - rebias) >> 13);
}

SIMT_INLINE float half_bits_to_float(uint16_t bits) {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16;
    const uint32_t magnitude = uint32_t(bits & 0x7fff) << 13;
    if ((bits & 0x7c00) == 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | magnitude);
    // The scaling corrects the exponent's bias and turns subnormal halves into normal floats.
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
}

}  // namespace simt

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
