// The same calls by tvm-ffi's ABI, with tensors: f(inputs…, results…, constants…[, threads]). Its library is asked
// for the stream and told of errors where the process has it; nothing is linked.
//
// Layouts: apache-tvm-ffi's c_api.h (TVMFFIAny, TVMFFIObject).
#pragma once

#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "tensors.hpp"

namespace fusegen::ffi {

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
    int (*call)(const Given* given, const double* constants, const Sizes& sizes, int threads, Device device, void* stream);
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

inline int call_on(const Text& text, const Code& code, const Tensor* const* tensors, const double* constants,
                   int threads, Device device)
{
    Given given[kMost];
    Sizes sizes;
    if (all_given(text, code.variant, tensors, given, sizes)) return raise("ValueError");
    void* stream = nullptr;
    if (device.type == kCuda)
        if (const auto ask = found<void* (*)(int32_t, int32_t)>("TVMFFIEnvGetStream")) stream = ask(kCuda, device.id);
    switch (code.call(given, constants, sizes, threads, device, stream)) {
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
            fail(kBadArgument, "%s: %s is no tensor", text.name, codes.front().variant.parameters[i].name);
            return raise("TypeError");
        }
    Device device = tensors[0]->device;
    for (int i = 0; i < n; ++i)
        if (tensors[i]->device.type != device.type || tensors[i]->device.id != device.id) {
            fail(kBadArgument, "%s: %s is on another device than %s", text.name, codes.front().variant.parameters[i].name,
                 codes.front().variant.parameters[0].name);
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
        for (int i = 0; i < n; ++i) fits = fits && is(code.variant, i, *tensors[i]);
        if (!fits) continue;
        *result = Any{kNone, 0, {0}};
        return call_on(text, code, tensors, constants, threads, device);
    }
    if (here) fail(kBadArgument, "%s: not exported for tensors of these types, or vectors of these lengths; see its header", text.name);
    else fail(kBadArgument, "%s: not exported for tensors on this kind of device", text.name);
    return raise("TypeError");
}

}  // namespace fusegen::ffi
