// Arithmetic, bit and conversion intrinsics.  The fast-math ones are exact here.
#pragma once

// CUDA's min and max take any mix of arithmetic types; for floats a NaN loses.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) {
        return fmin(T(a), T(b));
    } else {
        return T(b) < T(a) ? T(b) : T(a);
    }
}

template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>) {
        return fmax(T(a), T(b));
    } else {
        return T(a) < T(b) ? T(b) : T(a);
    }
}

SIMT_INLINE float rsqrtf(float x) { return 1.0f / sqrtf(x); }
SIMT_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
SIMT_INLINE float rcbrtf(float x) { return 1.0f / cbrtf(x); }
SIMT_INLINE float normcdff(float x) { return 0.5f * erfcf(-x * float(M_SQRT1_2)); }
SIMT_INLINE double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }

// Macros, because the C library already declares functions of these names.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)

SIMT_INLINE float __fdividef(float x, float y) { return x * (1.0f / y); }  // as rough as a GPU's
SIMT_INLINE float __saturatef(float x) { return x > 0.0f ? fminf(x, 1.0f) : 0.0f; }
SIMT_INLINE float __frsqrt_rn(float x) { return float(1.0 / sqrt(double(x))); }

SIMT_INLINE float __fadd_rn(float x, float y) { return x + y; }
SIMT_INLINE float __fsub_rn(float x, float y) { return x - y; }
SIMT_INLINE float __fmul_rn(float x, float y) { return x * y; }
SIMT_INLINE float __fdiv_rn(float x, float y) { return x / y; }
SIMT_INLINE float __frcp_rn(float x) { return 1.0f / x; }
SIMT_INLINE float __fsqrt_rn(float x) { return sqrtf(x); }
SIMT_INLINE float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
SIMT_INLINE double __dadd_rn(double x, double y) { return x + y; }
SIMT_INLINE double __dsub_rn(double x, double y) { return x - y; }
SIMT_INLINE double __dmul_rn(double x, double y) { return x * y; }
SIMT_INLINE double __ddiv_rn(double x, double y) { return x / y; }
SIMT_INLINE double __drcp_rn(double x) { return 1.0 / x; }
SIMT_INLINE double __dsqrt_rn(double x) { return sqrt(x); }
SIMT_INLINE double __fma_rn(double x, double y, double z) { return fma(x, y, z); }

#define SIMT_BIT_CAST(name, to, from) \
    SIMT_INLINE to name(from value) { return std::bit_cast<to>(value); }

SIMT_BIT_CAST(__float_as_int, int, float)
SIMT_BIT_CAST(__float_as_uint, unsigned, float)
SIMT_BIT_CAST(__int_as_float, float, int)
SIMT_BIT_CAST(__uint_as_float, float, unsigned)
SIMT_BIT_CAST(__double_as_longlong, long long, double)
SIMT_BIT_CAST(__longlong_as_double, double, long long)
#undef SIMT_BIT_CAST

SIMT_INLINE int __double2hiint(double x) { return int(__double_as_longlong(x) >> 32); }
SIMT_INLINE int __double2loint(double x) { return int(__double_as_longlong(x)); }

namespace simt {

// Unlike C++, CUDA defines float-to-integer conversion everywhere: saturating, and NaN gives zero.
template <class Integer>
SIMT_INLINE Integer saturating_cast(double rounded) {
    constexpr int value_bits = sizeof(Integer) * 8 - std::is_signed_v<Integer>;
    const double limit = ldexp(1.0, value_bits);
    constexpr Integer highest = Integer(~0ull >> (64 - value_bits));
    const double lowest = std::is_signed_v<Integer> ? -limit : 0.0;
    if (isnan(rounded)) return 0;
    if (rounded >= limit) return highest;
    return rounded <= lowest ? Integer(lowest) : Integer(rounded);
}

}  // namespace simt

#define SIMT_FLOAT_TO(name, from, to)                                                          \
    SIMT_INLINE to name##_rn(from x) { return simt::saturating_cast<to>(nearbyint(x)); }       \
    SIMT_INLINE to name##_rz(from x) { return simt::saturating_cast<to>(trunc(x)); }           \
    SIMT_INLINE to name##_rd(from x) { return simt::saturating_cast<to>(floor(x)); }           \
    SIMT_INLINE to name##_ru(from x) { return simt::saturating_cast<to>(ceil(x)); }

SIMT_FLOAT_TO(__float2int, float, int)
SIMT_FLOAT_TO(__float2uint, float, unsigned)
SIMT_FLOAT_TO(__float2ll, float, long long)
SIMT_FLOAT_TO(__double2int, double, int)
SIMT_FLOAT_TO(__double2ll, double, long long)
#undef SIMT_FLOAT_TO

SIMT_INLINE float __int2float_rn(int x) { return float(x); }
SIMT_INLINE float __uint2float_rn(unsigned x) { return float(x); }
SIMT_INLINE float __ll2float_rn(long long x) { return float(x); }
SIMT_INLINE float __ull2float_rn(unsigned long long x) { return float(x); }
SIMT_INLINE float __double2float_rn(double x) { return float(x); }

SIMT_INLINE int __popc(unsigned x) { return std::popcount(x); }
SIMT_INLINE int __popcll(unsigned long long x) { return std::popcount(x); }
SIMT_INLINE int __ffs(int x) { return __builtin_ffs(x); }
SIMT_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
SIMT_INLINE int __clz(int x) { return std::countl_zero(unsigned(x)); }
SIMT_INLINE int __clzll(long long x) { return std::countl_zero((unsigned long long)(x)); }

SIMT_INLINE unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int bit = 0; bit < 32; ++bit) reversed |= (x >> bit & 1u) << (31 - bit);
    return reversed;
}

SIMT_INLINE unsigned __umulhi(unsigned x, unsigned y) {
    return unsigned((unsigned long long)(x) * y >> 32);
}
SIMT_INLINE int __mulhi(int x, int y) { return int((long long)(x) * y >> 32); }
SIMT_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)(x) * y >> 64);
}

SIMT_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return unsigned(((uint64_t(high) << 32 | low) << (shift & 31)) >> 32);
}
SIMT_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return unsigned((uint64_t(high) << 32 | low) >> (shift & 31));
}

SIMT_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = uint64_t(y) << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned byte = unsigned(bytes >> (selector >> (4 * i) & 7) * 8) & 0xffu;
        result |= byte << (8 * i);
    }
    return result;
}
