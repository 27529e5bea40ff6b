#pragma once
// A bit for each of a thread's items.

namespace fusegen {

// In words of 32. They are gone over one by one by their numbers, which compilers know: a loop over them that holds
// another is not unrolled, and puts them, and all items with them, into memory.
template <int kItems>
struct ItemBits {
    static constexpr int kWords = (kItems + 31) / 32;
    unsigned word[kWords];

    __device__ __forceinline__ int count() const
    {
        int found = 0;
#pragma unroll
        for (int w = 0; w < kWords; ++w) found += __popc(word[w]);
        return found;
    }
    // Calls with the number of a word and of a bit in it, for all that are set.
    template <int kWord = 0, typename Visit>
    __device__ __forceinline__ void visit(const Visit& visit) const
    {
#pragma unroll 1
        for (unsigned bits = word[kWord]; bits != 0; bits &= bits - 1) visit(kWord, __ffs(bits) - 1);
        if constexpr (kWord + 1 < kWords) this->template visit<kWord + 1>(visit);
    }
};

}  // namespace fusegen
