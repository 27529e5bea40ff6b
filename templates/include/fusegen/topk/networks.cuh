#pragma once
// Keys in registers, sorted by networks.

namespace fusegen {

// a * b + c, by a unit that multiplies.
__device__ __forceinline__ unsigned multiply_add(unsigned a, unsigned b, unsigned c)
{
    unsigned r;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

// Of two words that which is not the `better` one: their sum less it. Networks compare and select, for which devices
// have half as many units as instructions are issued, while those that multiply idle. Blocks have one row of threads in
// z; compilers do not know that, and leave the products.
__device__ __forceinline__ unsigned other_than(unsigned better, unsigned a, unsigned b)
{
    const unsigned one = blockDim.z;
    return multiply_add(better, 0u - one, multiply_add(a, one, b));
}
__device__ __forceinline__ unsigned long long other_than(
    unsigned long long better, unsigned long long a, unsigned long long b)
{
    const unsigned high = other_than(
        static_cast<unsigned>(better >> 32), static_cast<unsigned>(a >> 32), static_cast<unsigned>(b >> 32));
    const unsigned low =
        other_than(static_cast<unsigned>(better), static_cast<unsigned>(a), static_cast<unsigned>(b));
    return static_cast<unsigned long long>(high) << 32 | low;
}

// Puts the better of two keys first.
template <typename Key>
__device__ __forceinline__ void exchange(Key& a, Key& b)
{
    const Key better = a > b ? a : b;
    b = other_than(better, a, b);
    a = better;
}

// Every kStep-th of kCount keys, halves of which are in order, in order: Batcher's odd-even merge.
template <int kCount, int kStep, typename Key>
__device__ __forceinline__ void merge_halves(Key* keys)
{
    if constexpr (2 * kStep < kCount) {
        merge_halves<kCount, 2 * kStep>(keys);
        merge_halves<kCount, 2 * kStep>(keys + kStep);
#pragma unroll
        for (int i = kStep; i + kStep < kCount; i += 2 * kStep) exchange(keys[i], keys[i + kStep]);
    } else {
        exchange(keys[0], keys[kStep]);
    }
}

// Sorts a power of two of keys, the best first.
template <int kCount, typename Key>
__device__ __forceinline__ void sort(Key* keys)
{
    if constexpr (kCount > 1) {
        sort<kCount / 2>(keys);
        sort<kCount / 2>(keys + kCount / 2);
        merge_halves<kCount, 1>(keys);
    }
}

// Keys that rise and then fall, or the other way round, in order.
template <int kCount, typename Key>
__device__ __forceinline__ void straighten(Key* keys)
{
    if constexpr (kCount > 1) {
#pragma unroll
        for (int i = 0; i < kCount / 2; ++i) exchange(keys[i], keys[i + kCount / 2]);
        straighten<kCount / 2>(keys);
        straighten<kCount / 2>(keys + kCount / 2);
    }
}

}  // namespace fusegen
