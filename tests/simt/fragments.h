// How lanes hold matrices: g = lane / 4, c = lane % 4.
#pragma once

#include "records.h"
#include "runtime.h"
#include "shim/narrow.h"

namespace simt {

// Elements of `operand` in 32 bytes, the inner index of one product.
inline unsigned inner_extent(Operand operand) { return operand == Operand::tf32 ? 8 : 16; }
inline size_t bytes_of(Operand operand) { return operand == Operand::tf32 ? 4 : 2; }

inline float decode(Operand operand, uint32_t bits) {
    switch (operand) {
        case Operand::f16: return half_bits_to_float(static_cast<uint16_t>(bits));
        case Operand::bf16: return bfloat16_bits_to_float(static_cast<uint16_t>(bits));
        case Operand::tf32: return tf32_bits_to_float(bits);
    }
    return 0;
}

using Inner = std::array<float, 16>;  // along the inner index

// Puts the elements of a lane's register into a row that it has a part of: with 16 bits columns
// 2c and 2c + 1 of eight, with 32 bits column c of four; `part` counts eights or fours.
inline void place_word(Inner& row, Operand operand, unsigned lane, unsigned part, uint32_t word) {
    const unsigned c = lane % 4;
    if (operand == Operand::tf32) {
        row[4 * part + c] = decode(operand, word);
    } else {
        row[8 * part + 2 * c] = decode(operand, word & 0xffff);
        row[8 * part + 2 * c + 1] = decode(operand, word >> 16);
    }
}

// Four registers of a: rows g and g + 8 of the first part, then of the second.
inline void place_a(std::array<Inner, 16>& rows, Operand operand, unsigned lane,
                    const uint32_t* words) {
    for (unsigned i = 0; i < 4; ++i) {
        place_word(rows[lane / 4 + 8 * (i & 1)], operand, lane, i >> 1, words[i]);
    }
}

// More exact than tensor cores, which round in between.
inline float dot(const Inner& a, const Inner& b, unsigned count, float added) {
    double sum = added;
    for (unsigned k = 0; k < count; ++k) sum += double{a[k]} * double{b[k]};
    return static_cast<float>(sum);
}

}  // namespace simt
