// Numbers of 16 and of 19 bits: from float and back.
#pragma once

#include <math.h>

#include <bit>

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

// Round to nearest even; NaN becomes CUDA's canonical one.
SIMT_INLINE uint16_t float_to_bfloat16_bits(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (isnan(value)) return 0x7fff;
    return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

SIMT_INLINE float bfloat16_bits_to_float(uint16_t bits) {
    return std::bit_cast<float>(uint32_t(bits) << 16);
}

// Ties away from zero; NaN becomes CUDA's canonical one.
SIMT_INLINE uint32_t float_to_tf32_bits(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if (isnan(value)) return 0x7fffffff;
    return isinf(value) ? bits : (bits + 0x1000) & ~0x1fffu;
}

// Tensor cores drop the bits that are not the type's.
SIMT_INLINE float tf32_bits_to_float(uint32_t bits) {
    return std::bit_cast<float>(bits & ~0x1fffu);
}

}  // namespace simt
