// Entry points of the compiler's instrumentation.
//
// Kernels are compiled with -fsanitize=thread and parts of -fsanitize=undefined, but linked without
// the sanitizers' own libraries: these definitions take their place.
#include "machine.h"

using simt::AccessKind;
using simt::Site;

#define CALLER \
    Site { .instruction = static_cast<const char*>(__builtin_return_address(0)) - 1 }

extern "C" {

// ---- -fsanitize=thread: a call in front of every load and store --------------------------------

#define ACCESS_HOOKS(bytes)                                             \
    void __tsan_read##bytes(void* address) {                            \
        simt::check_access(address, bytes, AccessKind::read, CALLER);   \
    }                                                                   \
    void __tsan_write##bytes(void* address) {                           \
        simt::check_access(address, bytes, AccessKind::write, CALLER);  \
    }                                                                   \
    void __tsan_volatile_read##bytes(void* address) {                   \
        simt::check_access(address, bytes, AccessKind::poll, CALLER);   \
        simt::let_others_run(address, CALLER);                          \
        simt::observe(address);                                         \
    }                                                                   \
    void __tsan_volatile_write##bytes(void* address) {                  \
        simt::check_access(address, bytes, AccessKind::post, CALLER);   \
        simt::let_others_run(address, CALLER);                          \
        simt::post(address);                                            \
    }                                                                   \
    void __tsan_unaligned_read##bytes(void* address) {                  \
        simt::check_access(address, bytes, AccessKind::read, CALLER);   \
    }                                                                   \
    void __tsan_unaligned_write##bytes(void* address) {                 \
        simt::check_access(address, bytes, AccessKind::write, CALLER);  \
    }

ACCESS_HOOKS(1)
ACCESS_HOOKS(2)
ACCESS_HOOKS(4)
ACCESS_HOOKS(8)
ACCESS_HOOKS(16)

void __tsan_read_range(void* address, size_t bytes) {
    simt::check_access(address, bytes, AccessKind::read, CALLER);
}
void __tsan_write_range(void* address, size_t bytes) {
    simt::check_access(address, bytes, AccessKind::write, CALLER);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

// ---- -fsanitize=undefined: a call where a check has failed -------------------------------------

struct SourceLocation {
    const char* file;
    unsigned line, column;
};

struct TypeDescriptor {
    unsigned short kind, info;
    char name[1];  // as long as it takes
};

struct TypeMismatch {
    SourceLocation location;
    const TypeDescriptor* type;
    unsigned char log_alignment, check_kind;
};

struct OutOfBounds {
    SourceLocation location;
    const TypeDescriptor* array_type;
    const TypeDescriptor* index_type;
};

void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* data, uintptr_t address) {
    if (address == 0) simt::fail_at(CALLER, "access through a null pointer");
    simt::fail_at(CALLER, "misaligned access: %s at %p needs an alignment of %u bytes",
                  data->type->name, reinterpret_cast<void*>(address), 1u << data->log_alignment);
}

void __ubsan_handle_out_of_bounds_abort(OutOfBounds* data, uintptr_t index) {
    simt::fail_at(CALLER, "out-of-bounds array index: %lld in an array of type %s",
                  static_cast<long long>(index), data->array_type->name);
}

void __ubsan_handle_shift_out_of_bounds_abort(void*, uintptr_t, uintptr_t) {
    simt::fail_at(CALLER, "shift by a negative amount or by more than the type's width");
}

void __ubsan_handle_divrem_overflow_abort(void*, uintptr_t, uintptr_t) {
    simt::fail_at(CALLER, "integer division by zero, or its result overflows");
}

#define OVERFLOW_HOOK(operation)                                                              \
    void __ubsan_handle_##operation##_overflow_abort(void*, uintptr_t, uintptr_t) {           \
        simt::fail_at(CALLER, "signed integer overflow");                                     \
    }

OVERFLOW_HOOK(add)
OVERFLOW_HOOK(sub)
OVERFLOW_HOOK(mul)
OVERFLOW_HOOK(negate)

// ---- assert() ----------------------------------------------------------------------------------

void __assert_fail(const char* condition, const char*, unsigned line, const char*) noexcept {
    simt::fail(static_cast<int>(line), "assertion failed: %s", condition);
}

}  // extern "C"
