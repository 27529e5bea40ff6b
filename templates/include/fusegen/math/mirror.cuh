#pragma once

namespace fusegen {

// The order turned round, NaN included, which is greatest: the number above -a, -inf for NaN and NaN
// for -inf. The bits of neighbours differ by 1; 0 - a is never -0.
__device__ __forceinline__ float mirror(float a)
{
    const float infinity = __int_as_float(0x7f800000), less = 0 - a;
    const float above = __uint_as_float(__float_as_uint(less) + (less < 0 ? ~0u : 1u));
    return a != a ? -infinity : a == -infinity ? __int_as_float(0x7fc00000) : above;
}
__device__ __forceinline__ double mirror(double a)
{
    const double infinity = __longlong_as_double(0x7ff0000000000000LL), less = 0 - a;
    const unsigned long long at = __double_as_longlong(less);
    const double above = __longlong_as_double(at + (less < 0 ? ~0ull : 1ull));
    return a != a ? -infinity : a == -infinity ? __longlong_as_double(0x7ff8000000000000LL) : above;
}

}  // namespace fusegen
