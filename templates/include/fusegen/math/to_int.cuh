#pragma once

namespace fusegen {

// Toward zero, clamped to 64 bits, NaN to 0.
template <typename Real>
__device__ __forceinline__ long long to_int(Real a)
{
    if (a != a) return 0;
    if (a >= Real(9223372036854775808.0)) return 9223372036854775807LL;
    if (a <= Real(-9223372036854775808.0)) return -9223372036854775807LL - 1;
    return static_cast<long long>(a);
}

}  // namespace fusegen
