#pragma once
// Values as unsigned integers in the same order.

namespace fusegen {

// The order of floats as integers: NaN above all, -0 equal to 0. The lowest kSpare bits say nothing
// where all values have fewer digits.
template <int kSpare>
struct FloatOrder {
    typedef float Value;
    typedef unsigned Bits;
    static constexpr bool kHasNaN = true;
    static constexpr int kSpareBits = kSpare;

    static __device__ __forceinline__ Bits of(float value)
    {
        const unsigned bits = __float_as_uint(value + 0.0f);
        const unsigned order = bits ^ (static_cast<unsigned>(static_cast<int>(bits) >> 31) | 0x80000000u);
        return (value != value ? 0xffffffffu : order) >> kSpare;
    }
    static __device__ __forceinline__ float value(Bits order)
    {
        const unsigned left = order << kSpare;
        if (left & 0x80000000u) return __uint_as_float(left ^ 0x80000000u);
        return __uint_as_float(~(left | ((1u << kSpare) - 1)));
    }
    static __device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ __forceinline__ float lowest() { return -infinity(); }
    static __device__ __forceinline__ bool minus_zero(float value) { return value == 0 && signbit(value); }
    static __device__ __forceinline__ float with_sign(float value, bool minus)
    {
        return minus && value == 0 ? -0.0f : value;
    }
};

// The order of doubles as integers: NaN above all, -0 equal to 0.
struct DoubleOrder {
    typedef double Value;
    typedef unsigned long long Bits;
    static constexpr bool kHasNaN = true;

    static __device__ __forceinline__ Bits of(double value)
    {
        const Bits bits = __double_as_longlong(value + 0.0);
        const Bits sign = 1ull << 63, order = bits & sign ? ~bits : bits | sign;
        return value != value ? ~0ull : order;
    }
    static __device__ __forceinline__ double value(Bits order)
    {
        const Bits sign = 1ull << 63;
        if (order & sign) return __longlong_as_double(order ^ sign);
        return __longlong_as_double(~order);
    }
    static __device__ __forceinline__ double infinity() { return __longlong_as_double(0x7ff0000000000000LL); }
    static __device__ __forceinline__ double lowest() { return -infinity(); }
    static __device__ __forceinline__ bool minus_zero(double value)
    {
        return value == 0 && signbit(value);
    }
    static __device__ __forceinline__ double with_sign(double value, bool minus)
    {
        return minus && value == 0 ? -0.0 : value;
    }
};

// The order of integers that fit 32 bits as unsigned ones.
struct IntOrder {
    typedef long long Value;
    typedef unsigned Bits;
    static constexpr bool kHasNaN = false;
    static constexpr int kSpareBits = 0;

    static __device__ __forceinline__ Bits of(long long value) { return static_cast<Bits>(value) ^ 0x80000000u; }
    static __device__ __forceinline__ long long value(Bits order) { return static_cast<int>(order ^ 0x80000000u); }
    static __device__ __forceinline__ long long lowest() { return -2147483648LL; }
    static __device__ __forceinline__ bool minus_zero(long long) { return false; }
    static __device__ __forceinline__ long long with_sign(long long value, bool) { return value; }
};

// The order of 64-bit integers as unsigned ones.
struct LongOrder {
    typedef long long Value;
    typedef unsigned long long Bits;
    static constexpr bool kHasNaN = false;

    static __device__ __forceinline__ Bits of(long long value) { return static_cast<Bits>(value) ^ (1ull << 63); }
    static __device__ __forceinline__ long long value(Bits order)
    {
        return static_cast<long long>(order ^ (1ull << 63));
    }
    static __device__ __forceinline__ long long lowest() { return -9223372036854775807LL - 1; }
    static __device__ __forceinline__ bool minus_zero(long long) { return false; }
    static __device__ __forceinline__ long long with_sign(long long value, bool) { return value; }
};

}  // namespace fusegen
