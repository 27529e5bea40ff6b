// What inline assembly is turned into (ptx.py): one function for each kind of instruction.
#pragma once

#include "narrow.h"

namespace simt::ptx {

// The constraints of inline assembly, and what the compiler accepts for each.
template <char constraint, class T>
constexpr bool fits() {
    constexpr bool integer = std::is_integral_v<T> || std::is_enum_v<T>;
    switch (constraint) {
        case 'h': return integer && sizeof(T) == 2;
        case 'r': return integer && sizeof(T) == 4;
        case 'l': return (integer && sizeof(T) == 8) || std::is_pointer_v<T>;
        case 'f': return std::is_same_v<T, float>;
        case 'd': return std::is_same_v<T, double>;
        default: return integer;
    }
}

template <char constraint, class T>
SIMT_INLINE T& output(T& place) {
    static_assert(fits<constraint, T>(), "the operand's type does not fit its constraint");
    return place;
}

template <char constraint, class T>
SIMT_INLINE auto input(T value) {
    static_assert(fits<constraint, T>(), "the operand's type does not fit its constraint");
    if constexpr (std::is_pointer_v<T>) {
        return reinterpret_cast<uint64_t>(value);
    } else {
        return value;
    }
}

// A register where it lies; a value that lies nowhere is kept until the statement ends.
template <char constraint, class T>
SIMT_INLINE T in_place(T&& value) {
    static_assert(fits<constraint, std::remove_cvref_t<T>>(),
                  "the operand's type does not fit its constraint");
    return static_cast<T&&>(value);
}

// An integer in the text: it takes the size of the instruction.
struct Immediate {
    long long value;
    template <class T>
        requires std::is_integral_v<T>
    operator T() const {
        return static_cast<T>(value);
    }
};

// A register taken as another type of the same size.
template <class To, class From>
SIMT_INLINE To bits(From value) {
    if constexpr (std::is_same_v<From, Immediate>) {
        return value;
    } else {
        static_assert(sizeof(To) == sizeof(From), "the register has another size");
        return std::bit_cast<To>(value);
    }
}

template <class To, class From>
SIMT_INLINE void put_bits(To& place, From value) { place = bits<To>(value); }

template <class To, class From>
SIMT_INLINE void put(To& place, From value) {
    static_assert(std::is_same_v<To, From>, "the instruction gives another type than its output");
    place = value;
}

// Where a register lies that an instruction of a whole warp writes.
template <class To, class From>
SIMT_INLINE To* place_of(From& place) {
    static_assert(sizeof(To) == sizeof(From), "the register has another size");
    return reinterpret_cast<To*>(&place);
}

// ---- Arithmetic --------------------------------------------------------------------------------

// Subnormal numbers become zeros of the same sign.
SIMT_INLINE float flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x; }

SIMT_INLINE float max(float a, float b) {
    if (a == 0 && b == 0) return signbit(a) ? b : a;
    return fmaxf(a, b);
}
SIMT_INLINE float min(float a, float b) {
    if (a == 0 && b == 0) return signbit(a) ? a : b;
    return fminf(a, b);
}
SIMT_INLINE float max_nan(float a, float b) {
    return isnan(a) || isnan(b) ? __int_as_float(0x7fffffff) : max(a, b);
}
SIMT_INLINE float min_nan(float a, float b) {
    return isnan(a) || isnan(b) ? __int_as_float(0x7fffffff) : min(a, b);
}

SIMT_INLINE float ex2(float x) { return exp2f(x); }
SIMT_INLINE float lg2(float x) { return log2f(x); }
SIMT_INLINE float rcp(float x) { return 1.0f / x; }
SIMT_INLINE float rsqrt(float x) { return 1.0f / sqrtf(x); }
SIMT_INLINE float sqrt(float x) { return sqrtf(x); }
SIMT_INLINE float tanh(float x) { return tanhf(x); }

// Two numbers in a register, the first in its upper half.
SIMT_INLINE uint32_t to_bf16(float high, float low) {
    return uint32_t{float_to_bfloat16_bits(high)} << 16 | float_to_bfloat16_bits(low);
}
SIMT_INLINE uint32_t to_f16(float high, float low) {
    return uint32_t{float_to_half_bits(high)} << 16 | float_to_half_bits(low);
}
SIMT_INLINE uint32_t to_tf32(float x) { return float_to_tf32_bits(x); }

// The bytes of two registers in another order; a selector of 8 or more stands for a byte's sign.
SIMT_INLINE unsigned permute(unsigned a, unsigned b, unsigned selector) {
    const uint64_t bytes = uint64_t(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned select = selector >> (4 * i) & 15;
        const unsigned byte = unsigned(bytes >> (select & 7) * 8) & 0xff;
        result |= (select < 8 ? byte : byte & 0x80 ? 0xff : 0) << (8 * i);
    }
    return result;
}

// ---- Memory ------------------------------------------------------------------------------------

// A register may be wider than what is loaded, which then is extended.
template <class T, class... Registers>
SIMT_INLINE void load(int line, Access how, uint64_t address, Registers&... registers) {
    static_assert(sizeof...(Registers) * sizeof(T) <= 16, "a vector has at most 16 bytes");
    T values[sizeof...(Registers)];
    assembly_load(values, sizeof values, how, address, line);
    const T* value = values;
    const auto extend = [&value](auto& place) {
        using Place = std::remove_reference_t<decltype(place)>;
        if constexpr (sizeof(Place) == sizeof(T)) {
            place = std::bit_cast<Place>(*value++);
        } else {
            static_assert(sizeof(Place) > sizeof(T) && std::is_integral_v<T>,
                          "the register is too small for the load");
            place = static_cast<Place>(*value++);
        }
    };
    (extend(registers), ...);
}

template <class T, class... Registers>
SIMT_INLINE void store(int line, Access how, uint64_t address, Registers... registers) {
    static_assert(sizeof...(Registers) * sizeof(T) <= 16, "a vector has at most 16 bytes");
    const auto narrow = [](auto value) {
        using Value = decltype(value);
        if constexpr (std::is_same_v<Value, Immediate>) {
            return static_cast<T>(value);
        } else if constexpr (sizeof(Value) == sizeof(T)) {
            return std::bit_cast<T>(value);
        } else {
            static_assert(sizeof(Value) > sizeof(T) && std::is_integral_v<T>,
                          "the register is too small for the store");
            return static_cast<T>(value);
        }
    };
    const T values[] = {narrow(registers)...};
    assembly_store(values, sizeof values, how, address, line);
}

// Where an atomic instruction works.
template <class T>
SIMT_INLINE T* place(int line, Space space, uint64_t address) {
    return static_cast<T*>(locate(space, address, line));
}

}  // namespace simt::ptx
