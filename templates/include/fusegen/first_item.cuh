#pragma once
// Where in a chunk its best value is.

namespace fusegen {

// The lowest number of a chunk's items that have the value, NaN that of NaN; -1: none of the first `live` vectors'.
template <int kCount, int kWidth, typename Value, typename ValueOf>
__device__ __forceinline__ int first_item(Value value, int live, const ValueOf& value_of)
{
    int first = -1;
    if (value == value) {
#pragma unroll
        for (int i = kCount - 1; i >= 0; --i)
            if (i / kWidth < live && value_of(i) == value) first = i;
    } else {
#pragma unroll
        for (int i = kCount - 1; i >= 0; --i)
            if (i / kWidth < live && value_of(i) != value_of(i)) first = i;
    }
    return first;
}

}  // namespace fusegen
