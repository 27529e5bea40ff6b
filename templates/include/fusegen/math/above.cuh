#pragma once

namespace fusegen {

// Total order of (value, column): NaN first, then greater values, then lower columns.
template <typename V, typename Column>
__device__ __forceinline__ bool above(V a, Column a_column, V b, Column b_column)
{
    if ((a != a) != (b != b)) return a != a;
    if (a != b && a == a) return a > b;
    return a_column < b_column;
}

}  // namespace fusegen
