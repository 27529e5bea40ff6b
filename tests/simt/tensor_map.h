// What a launch gives a kernel for the 128 opaque bytes of a tensor map; tensor_maps.py mirrors it.
#pragma once

#include <cstdint>

namespace simt {

constexpr unsigned max_rank = 5;

struct alignas(64) TensorMap {
    static constexpr uint64_t right_mark = 0x70616d2d726f736e;
    uint64_t mark;
    char* base;
    uint64_t extents[max_rank];  // the innermost dimension first
    uint64_t strides[max_rank];  // bytes
    uint16_t box[max_rank];
    uint8_t rank;
    uint8_t swizzled;  // in rows of 128 bytes
    uint8_t tf32;      // elements are rounded to it
    uint8_t unused[13];
};
static_assert(sizeof(TensorMap) == 128);

}  // namespace simt
