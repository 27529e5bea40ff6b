// A kernel's arguments, placed in memory that is watched.
#pragma once

#include <cstddef>

#include "machine.h"
#include "mapping.h"
#include "tensor_map.h"

// arguments.py mirrors both.
enum class ArgumentKind : uint32_t { value, input, output, initialised_output, tensor_map };

struct Argument {
    void* data;
    size_t bytes;
    ArgumentKind kind;
    size_t before;  // bytes of the same array that lie in front of data
};

namespace simt {

class Arguments {
public:
    Arguments(const Argument* arguments, size_t count, std::vector<Buffer>& buffers)
        : buffers_(buffers) {
        for (size_t i = 0; i < count; ++i) join(arguments[i]);
        devices_.reserve(count);  // the kernel's pointers are read from here
        maps_.reserve(count);     // and its tensor maps
        buffers_.reserve(count);
        for (size_t i = 0; i < count; ++i) add(arguments[i], i);
        for (size_t i = 0; i < copies_.size(); ++i) {
            if (buffers_[i].writable) continue;
            buffers_[i].initialised.clear();
            copies_[i].make_read_only();
        }
    }

    void** pointers() { return pointers_.data(); }

    void copy_back() const {
        for (const Buffer& buffer : buffers_) {
            if (buffer.writable) memcpy(buffer.host, buffer.device, buffer.bytes);
        }
    }

private:
    // The bytes of an array, or of the one that a tensor map describes.
    static AddressRange bytes_of(const Argument& argument) {
        char* data = static_cast<char*>(argument.data);
        if (argument.kind == ArgumentKind::tensor_map) {
            memcpy(&data, data + offsetof(TensorMap, base), sizeof data);
        }
        return {data, argument.bytes};
    }

    // The bytes of arrays that share some, as fields of one array of records do.
    void join(const Argument& argument) {
        if (argument.kind == ArgumentKind::value) return;
        AddressRange whole = bytes_of(argument);
        whole = {whole.begin - argument.before, whole.bytes + argument.before};
        for (size_t i = 0; i < ranges_.size();) {
            const AddressRange& other = ranges_[i];
            if (other.begin < whole.begin + whole.bytes && whole.begin < other.begin + other.bytes) {
                char* first = std::min(other.begin, whole.begin);
                char* end = std::max(other.begin + other.bytes, whole.begin + whole.bytes);
                whole = {first, static_cast<size_t>(end - first)};
                ranges_.erase(ranges_.begin() + static_cast<ptrdiff_t>(i));
                i = 0;
            } else {
                ++i;
            }
        }
        ranges_.push_back(whole);
    }

    AddressRange range_of(const Argument& argument) const {
        char* begin = bytes_of(argument).begin;
        for (const AddressRange& range : ranges_) {
            const size_t offset = static_cast<size_t>(begin - range.begin);
            if (begin >= range.begin && offset + argument.bytes <= range.bytes) return range;
        }
        return {begin, argument.bytes};
    }

    void add(const Argument& argument, size_t index) {
        if (argument.kind == ArgumentKind::value) {
            pointers_.push_back(argument.data);
            return;
        }
        Buffer& buffer = find_or_place(argument, index);
        const bool map = argument.kind == ArgumentKind::tensor_map;
        buffer.writable |= !map && argument.kind != ArgumentKind::input;
        if (argument.kind == ArgumentKind::input || argument.kind == ArgumentKind::initialised_output)
            buffer.initialised.clear();
        char* device = buffer.device + (bytes_of(argument).begin - buffer.host);
        if (map) {
            maps_.emplace_back();
            memcpy(&maps_.back(), argument.data, sizeof(TensorMap));
            maps_.back().base = device;
            pointers_.push_back(&maps_.back());
        } else {
            devices_.push_back(device);
            pointers_.push_back(&devices_.back());
        }
    }

    // An array that is passed twice is one buffer, as in an in-place operation.
    Buffer& find_or_place(const Argument& argument, size_t index) {
        const AddressRange range = range_of(argument);
        for (Buffer& buffer : buffers_) {
            if (buffer.host == range.begin && buffer.bytes == range.bytes) return buffer;
        }
        copies_.emplace_back(range.begin, range.bytes);
        return buffers_.emplace_back(Buffer{
            .argument = static_cast<unsigned>(index),
            .host = range.begin,
            .device = copies_.back().begin(),
            .bytes = range.bytes,
            .writable = false,
            .initialised = std::vector<bool>(range.bytes, false),
            .shadow = nullptr,
        });
    }

    std::vector<Buffer>& buffers_;
    std::vector<GuardedCopy> copies_;
    std::vector<AddressRange> ranges_;
    std::vector<void*> devices_;
    std::vector<TensorMap> maps_;
    std::vector<void*> pointers_;
};

}  // namespace simt
