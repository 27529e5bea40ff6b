// The same calls by tvm-ffi's ABI, with tensors: f(inputs…, results…, constants…[, threads]). Its library is asked
// for the stream and told of errors where the process has it; nothing is linked.
//
// Layouts: apache-tvm-ffi's c_api.h (TVMFFIAny, TVMFFIObject) and DLPack's dlpack.h (DLTensor).
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "text.hpp"

namespace fusegen::ffi {

struct Device { int32_t type, id; };
constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13;

struct Tensor {  // DLTensor
    void* data;
    Device device;
    int32_t n_axes;
    struct { uint8_t code, bits; uint16_t lanes; } type;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct Any {  // TVMFFIAny
    int32_t kind;
    uint32_t padding;
    union { int64_t number; double real; void* pointer; };
};
constexpr int32_t kNone = 0, kInt = 1, kFloat = 3, kTensorPointer = 7, kTensorObject = 70;

struct Object { uint64_t count; int32_t kind; uint32_t padding; void (*deleter)(void*, int); };

// One of the library's variants at one place.
struct Code {
    int32_t device;
    const Variant& variant;
    int (*call)(const Given* given, const double* constants, int64_t n_rows, int64_t n_cols, int threads, Device device, void* stream);
};

// A function of tvm-ffi's own library; null: the process does not have it.
template <typename F>
F found(const char* name)
{
    void* symbol = dlsym(RTLD_DEFAULT, name);
    if (!symbol)
        if (void* library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD)) symbol = dlsym(library, name);
    return reinterpret_cast<F>(symbol);
}

inline int raise(const char* kind)
{
    if (const auto set = found<void (*)(const char*, const char*)>("TVMFFIErrorSetRaisedFromCStr"))
        set(kind, complaint);
    return -1;
}

inline const Tensor* tensor_of(const Any& any)
{
    if (any.kind == kTensorPointer) return static_cast<const Tensor*>(any.pointer);
    if (any.kind == kTensorObject)
        return reinterpret_cast<const Tensor*>(static_cast<const char*>(any.pointer) + sizeof(Object));
    return nullptr;
}

inline bool is(const Type& type, const Tensor& t)
{
    return t.type.code == type.code && t.type.bits == type.bits && t.type.lanes == 1;
}

// The tensor's first `n_axes` axes as one: how many, and how far apart; false: they are no one axis.
inline bool one_axis(const Tensor& t, int n_axes, int64_t* count, int64_t* stride)
{
    int64_t inner = 1;
    for (int i = n_axes; i < t.n_axes; ++i) inner *= t.shape[i];
    *count = 1, *stride = inner;
    for (int i = 0; i < n_axes; ++i)
        if (t.shape[i] == 0) return *count = 0, true;
    bool first = true;
    for (int i = n_axes; i-- > 0;) {
        const int64_t step = t.strides ? t.strides[i] : *count * inner;
        if (t.shape[i] != 1) {
            if (first) *stride = step;
            else if (step != *stride * *count) return false;
            first = false;
        }
        *count *= t.shape[i];
    }
    return true;
}

inline bool neighbours(const Tensor& t)
{
    for (int i = 0; i < t.n_axes; ++i)
        if (t.shape[i] == 0) return true;  // strides of what is empty say nothing
    const int last = t.n_axes - 1;
    return !t.strides || t.shape[last] < 2 || t.strides[last] == 1;
}

struct Sizes { int64_t n_rows = -1, n_cols = -1; };

// One array as the C ABI has it. Sizes are those that are known so far, or -1.
inline int given_of(const Text& text, const Parameter& p, const Tensor& t, Sizes& sizes, Given* given)
{
    const auto wrong = [&](const char* what) { return fail(kBadShape, "%s: %s %s", text.name, p.name, what); };
    const bool in_rows = p.shape == Shape::element || p.shape == Shape::list;
    const int axes = p.shape == Shape::row ? t.n_axes : t.n_axes - 1;
    if (axes < 0) return wrong("has no columns");
    if (axes < t.n_axes && !neighbours(t)) return wrong("has columns that are not neighbours in memory");
    int64_t n_rows = 1, stride = 0;
    if (!one_axis(t, axes, &n_rows, &stride)) return wrong("has rows that are not equally far apart");
    const int64_t width = axes < t.n_axes ? t.shape[axes] : 1;
    if (p.shape == Shape::per_column && n_rows != 1) return wrong("has more than one axis");
    if (p.shape == Shape::list && width != p.k) return wrong("does not have the K entries of its lists last");
    if (p.shape == Shape::element || p.shape == Shape::per_column) {
        if (sizes.n_cols >= 0 && width != sizes.n_cols) return wrong("has another number of columns");
        sizes.n_cols = width;
    }
    if (p.shape != Shape::per_column) {
        const bool broadcast = !p.output && p.shape == Shape::element && n_rows == 1;
        if (!broadcast && sizes.n_rows >= 0 && n_rows != sizes.n_rows) return wrong("has another number of rows");
        if (!broadcast) sizes.n_rows = n_rows;
        if (broadcast) stride = 0;
    }
    if (p.shape != Shape::element && n_rows > 1 && stride != (in_rows ? p.k : 1)) return wrong("is not contiguous");
    *given = {static_cast<const char*>(t.data) + t.byte_offset, stride};
    return kOk;
}

inline int call_on(const Text& text, const Code& code, const Tensor* const* tensors, const double* constants,
                   int threads, Device device)
{
    Given given[kMost];
    Sizes sizes;
    for (int i = 0; i < text.n_parameters; ++i)
        if (given_of(text, text.parameters[i], *tensors[i], sizes, &given[i])) return raise("ValueError");
    if (sizes.n_rows < 0) sizes.n_rows = 1;  // one row stands alone
    if (sizes.n_rows < 2)
        for (int i = 0; i < text.n_parameters; ++i)
            given[i].stride = text.parameters[i].width(sizes.n_cols);
    void* stream = nullptr;
    if (device.type == kCuda)
        if (const auto ask = found<void* (*)(int32_t, int32_t)>("TVMFFIEnvGetStream")) stream = ask(kCuda, device.id);
    switch (code.call(given, constants, sizes.n_rows, sizes.n_cols, threads, device, stream)) {
        case kOk: return 0;
        case kBadArgument: case kBadShape: case kBadConstant: return raise("ValueError");
        case kNoMemory: return raise("MemoryError");
        default: return raise("RuntimeError");
    }
}

inline bool number_of(const Any& any, double* found)
{
    if (any.kind == kFloat) return *found = any.real, true;
    if (any.kind != kInt) return false;
    *found = static_cast<double>(any.number);
    return static_cast<__int128>(*found) == any.number;  // a double holds it
}

inline int miscounted(const Text& text, int32_t n_args)
{
    char numbers[256] = "";
    for (int i = 0, at = 0; i < text.n_constants && at < static_cast<int>(sizeof numbers); ++i)
        at += std::snprintf(numbers + at, sizeof numbers - at, ", %s", text.constants[i]);
    fail(kBadArgument, "%s: called with %d arguments; it takes %d tensors, results last%s, and a number of threads",
         text.name, n_args, text.n_parameters, numbers);
    return raise("TypeError");
}

inline int call(const Text& text, const std::vector<Code>& codes, const Any* args, int32_t n_args, Any* result)
{
    const int n = text.n_parameters, last = n + text.n_constants;
    if (n_args < last || n_args > last + 1 || (n_args > last && args[last].kind != kInt))
        return miscounted(text, n_args);
    double constants[kMost];
    for (int i = n; i < last; ++i)
        if (!number_of(args[i], &constants[i - n])) {
            fail(kBadArgument, "%s: %s is no number that a double holds", text.name, text.constants[i - n]);
            return raise("TypeError");
        }
    const Tensor* tensors[kMost];
    for (int i = 0; i < n; ++i)
        if (!(tensors[i] = tensor_of(args[i]))) {
            fail(kBadArgument, "%s: %s is no tensor", text.name, text.parameters[i].name);
            return raise("TypeError");
        }
    Device device = tensors[0]->device;
    for (int i = 0; i < n; ++i)
        if (tensors[i]->device.type != device.type || tensors[i]->device.id != device.id) {
            fail(kBadArgument, "%s: %s is on another device than %s", text.name, text.parameters[i].name,
                 text.parameters[0].name);
            return raise("ValueError");
        }
    if (device.type == kCudaManaged) device.type = kCuda;
    if (device.type == kCudaHost) device.type = kCpu;
    const int64_t asked = n_args > last ? args[last].number : 0;
    const int threads = static_cast<int>(asked < -4096 ? -4096 : asked > 4096 ? 4096 : asked);
    bool here = false;
    for (const Code& code : codes) {
        if (code.device != device.type) continue;
        here = true;
        bool fits = true;
        for (int i = 0; i < n; ++i) fits = fits && is(code.variant.types[i], *tensors[i]);
        if (!fits) continue;
        *result = Any{kNone, 0, {0}};
        return call_on(text, code, tensors, constants, threads, device);
    }
    if (here) fail(kBadArgument, "%s: not exported for tensors of these types; see its header", text.name);
    else fail(kBadArgument, "%s: not exported for tensors on this kind of device", text.name);
    return raise("TypeError");
}

}  // namespace fusegen::ffi
