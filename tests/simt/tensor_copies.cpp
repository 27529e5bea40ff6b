// Copies of a tensor's box into shared memory (cp.async.bulk.tensor), which complete on mbarriers.
#include <cstring>

#include "machine.h"
#include "shim/narrow.h"
#include "tensor_map.h"

namespace simt {

namespace {

const TensorMap& map_at(uint64_t address, int line) {
    require_aligned(reinterpret_cast<const void*>(address), alignof(TensorMap), "a tensor map", line);
    const auto& map = *reinterpret_cast<const TensorMap*>(address);
    if (map.mark != TensorMap::right_mark) fail(line, "no tensor map at %#llx",
                                                static_cast<unsigned long long>(address));
    return map;
}

// One row of the box, along the innermost dimension; `begin` and `end` are what of it is inside.
void read_row(const TensorMap& map, const char* row, int first, char* to, int line) {
    const auto element = static_cast<int64_t>(map.strides[0]);
    const int64_t extent = static_cast<int64_t>(map.extents[0]), box = map.box[0];
    const int64_t begin = first < 0 ? -int64_t{first} : 0;
    const int64_t end = extent - first < box ? extent - first : box;
    if (begin >= end) return;
    const char* from = row + (first + begin) * element;
    const auto bytes = static_cast<size_t>((end - begin) * element);
    check_access(from, bytes, AccessKind::read, Site{.line = line});
    memcpy(to + begin * element, from, bytes);
    if (!map.tf32) return;
    for (int64_t i = begin; i < end; ++i) {
        float value;
        memcpy(&value, to + i * element, sizeof value);
        const uint32_t rounded = float_to_tf32_bits(value);
        memcpy(to + i * element, &rounded, sizeof rounded);
    }
}

// The box in the order of its elements; what lies outside of the tensor is zero.
std::vector<char> read_box(const TensorMap& map, const int* at, int line) {
    const size_t row_bytes = map.box[0] * map.strides[0];
    size_t rows = 1;
    for (unsigned d = 1; d < map.rank; ++d) rows *= map.box[d];
    std::vector<char> box(rows * row_bytes);
    for (size_t r = 0; r < rows; ++r) {
        size_t rest = r;
        const char* row = map.base;
        bool inside = true;
        for (unsigned d = 1; d < map.rank; ++d) {
            const int64_t index = int64_t{at[d]} + static_cast<int64_t>(rest % map.box[d]);
            rest /= map.box[d];
            inside &= index >= 0 && index < static_cast<int64_t>(map.extents[d]);
            row += index * static_cast<int64_t>(map.strides[d]);
        }
        if (inside) read_row(map, row, at[0], box.data() + r * row_bytes, line);
    }
    return box;
}

// 16 bytes go where the address says: its bits 4 to 6, exclusive or bits 7 to 9.
std::vector<char> swizzled(const std::vector<char>& box, uint64_t address) {
    std::vector<char> result(box.size());
    for (size_t i = 0; i < box.size(); i += 16) {
        memcpy(&result[swizzle_128(address + i) - address], &box[i], 16);
    }
    return result;
}

}  // namespace

void copy_tensor(const TensorCopy& copy, int line) {
    const TensorMap& map = map_at(copy.map, line);
    if (map.rank != copy.rank) {
        fail(line, "cp.async.bulk.tensor: %u coordinates for a tensor of %u dimensions", copy.rank,
             unsigned{map.rank});
    }
    const int64_t first = int64_t{copy.at[0]} * static_cast<int64_t>(map.strides[0]);
    if (first % 16) {  // an illegal instruction on sm_90, whatever the box
        fail(line, "cp.async.bulk.tensor: a box that begins %lld bytes behind a row's start, no multiple of 16",
             static_cast<long long>(first));
    }
    if (copy.to % 128) {
        fail(line, "misaligned access: cp.async.bulk.tensor to address %#llx needs an alignment of "
             "128 bytes", static_cast<unsigned long long>(copy.to));
    }
    std::vector<char> box = read_box(map, copy.at, line);
    if (map.swizzled) box = swizzled(box, copy.to);
    start_bulk_copy(copy.to, std::move(box), copy.mbarrier, "cp.async.bulk.tensor", line);
}

void prefetch_map(uint64_t map, int line) { map_at(map, line); }

}  // namespace simt
