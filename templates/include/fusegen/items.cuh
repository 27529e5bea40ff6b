#pragma once
// Elements of a row in registers.

namespace fusegen {

// Elements as memory has them, packed into registers.
template <typename T, int kCount>
struct Packed {
    unsigned word[(kCount * sizeof(T) + 3) / 4];

    __device__ __forceinline__ T operator[](int i) const
    {
        T item;
        memcpy(&item, reinterpret_cast<const char*>(word) + i * sizeof(T), sizeof(T));
        return item;
    }
    // Item i of bfloat16, the upper half of a float: one instruction from where it is in its register.
    __device__ __forceinline__ float widened(int i) const
    {
        return __uint_as_float(i % 2 ? word[i / 2] & 0xffff0000u : word[i / 2] << 16);
    }
    __device__ __forceinline__ void set(int i, T item)
    {
        memcpy(reinterpret_cast<char*>(word) + i * sizeof(T), &item, sizeof(T));
    }
};

// A thread's chunk of a row, as Layout says: kCount items in vectors of Layout::kWidth, a team apart. Item i of
// a chunk whose first vector is number `at` is the row's element (at + i / kWidth * threads) * kWidth + i % kWidth.
template <typename T, int kCount, typename LayoutType>
struct Chunk : Packed<T, kCount> {
    typedef LayoutType Layout;

    // One of its vectors.
    __device__ __forceinline__ Chunk<T, Layout::kWidth, Layout> vector(int number) const
    {
        constexpr int kWords = Layout::kWidth * sizeof(T) / 4;
        Chunk<T, Layout::kWidth, Layout> found;
#pragma unroll
        for (int w = 0; w < kWords; ++w) found.word[w] = this->word[number * kWords + w];
        return found;
    }
};

// The same number, of whose bits compilers know nothing: else they make up the place of every vector that a
// thread holds from these, where a sum within the access does.
template <typename Column>
__device__ __forceinline__ Column opaque(Column at)
{
    if constexpr (sizeof(Column) == 4) asm("" : "+r"(at));
    return at;
}

// The items of a chunk whose first `live` vectors there are.
template <int kCount, int kWidth, typename Visit>
__device__ __forceinline__ void for_items(int live, const Visit& visit)
{
#pragma unroll
    for (int first = 0; first < kCount; first += kWidth) {
        if (first / kWidth >= live) break;
#pragma unroll  // a loop of one level with a break is not unrolled where it is long
        for (int i = first; i < first + kWidth && i < kCount; ++i) visit(i);
    }
}

}  // namespace fusegen
