#pragma once
// Fields of a state in its bytes, each on its natural boundary.

namespace fusegen {

template <typename T>
__device__ __forceinline__ T field(const unsigned char* state, int offset)
{
    return *reinterpret_cast<const T*>(state + offset);
}

template <typename T>
__device__ __forceinline__ void set_field(unsigned char* state, int offset, T value)
{
    *reinterpret_cast<T*>(state + offset) = value;
}

}  // namespace fusegen
