// How the launcher calls a kernel: through an array of pointers to arguments, as CUDA does.
//
// SIMT_EXPORT_KERNEL lets the compiler tell the kernel's parameter types, so that the launcher need
// not parse C++: typedefs, macros and comments in the parameter list are all understood.
#pragma once

// Launchers are not instrumented: arguments live outside of what a kernel may access.
#define SIMT_UNCHECKED __attribute__((no_sanitize("thread", "undefined")))
#define SIMT_EXPORTED extern "C" __attribute__((visibility("default"))) SIMT_UNCHECKED

namespace simt {

template <class T>
constexpr char type_letter() {
    if (std::is_void_v<T>) return 'v';
    if (std::is_floating_point_v<T>) return 'f';
    if (std::is_integral_v<T> || std::is_enum_v<T>) return std::is_signed_v<T> ? 'i' : 'u';
    return 'x';
}

// Appends one parameter as text and returns the new end: "i4;" for int, "f4;" for float, "*f4;" for
// float*, "*cx2;" for const __half*.
template <class T>
char* describe_parameter(char* end) {
    if constexpr (std::is_pointer_v<T>) {
        using Target = std::remove_pointer_t<T>;
        using Plain = std::remove_cv_t<Target>;
        size_t bytes = 1;
        if constexpr (!std::is_void_v<Plain>) bytes = sizeof(Plain);
        const char* prefix = std::is_const_v<Target> ? "*c" : "*";
        return end + sprintf(end, "%s%c%zu;", prefix, type_letter<Plain>(), bytes);
    } else {
        return end + sprintf(end, "%c%zu;", type_letter<T>(), sizeof(T));
    }
}

template <auto kernel>
struct KernelAdapter;

template <class... Parameters, void (*kernel)(Parameters...)>
struct KernelAdapter<kernel> {
    static void describe(char* end) {
        *end = 0;
        ((end = describe_parameter<Parameters>(end)), ...);
    }

    SIMT_UNCHECKED static void call(void** arguments) {
        unpack(arguments, std::index_sequence_for<Parameters...>());
    }

    template <size_t... index>
    SIMT_UNCHECKED static void unpack([[maybe_unused]] void** arguments,
                                      std::index_sequence<index...>) {
        kernel(*static_cast<Parameters*>(arguments[index])...);
    }
};

}  // namespace simt

#define SIMT_EXPORT_KERNEL(name)                                                \
    SIMT_EXPORTED void simt_run_##name(void** arguments) {                      \
        simt::KernelAdapter<&name>::call(arguments);                            \
    }                                                                           \
    SIMT_EXPORTED void simt_describe_##name(char* text) {                       \
        simt::KernelAdapter<&name>::describe(text);                             \
    }
