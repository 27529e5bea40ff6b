#pragma once
// Rows that begin elsewhere between two boundaries than the one whose vectors are gone over: a vector of theirs lies in
// the words around it, and comes out of them by shifts.

#include <fusegen/load.cuh>

namespace fusegen {

// A row of which vectors are read that begin at `body` and whole vectors behind it.
template <typename T>
struct Shifted {
    static constexpr int kGrain = 4;  // bytes of a word that is read; greater ones are fewer, and take more registers
    const T* __restrict__ body;

    // How far behind a boundary of kBytes the vectors begin, in bytes.
    template <int kBytes>
    __device__ __forceinline__ int off() const
    {
        return static_cast<int>(reinterpret_cast<unsigned long long>(body) % kBytes);
    }
    // Where the 16-byte words begin in which vectors do, and how many elements that is before these.
    __device__ __forceinline__ const T* words() const { return body - before(); }
    __device__ __forceinline__ int before() const { return off<16>() / static_cast<int>(sizeof(T)); }
};

// What the first and the last word around a vector have of it, element by element, so that nothing else is read: the
// bits of as many elements as `bytes` have.
template <typename T>
__device__ __forceinline__ unsigned some_of_word(const T* from, int bytes)
{
    constexpr int kSize = sizeof(T), kGrain = Shifted<T>::kGrain;
    static_assert(kSize < kGrain);
    unsigned found = 0;
#pragma unroll
    for (int e = 0; e < kGrain / kSize - 1; ++e) {
        if (e * kSize >= bytes) break;
        if constexpr (sizeof(T) == 1)
            found |= reinterpret_cast<const unsigned char*>(from)[e] << 8 * e;
        else
            found |= reinterpret_cast<const unsigned short*>(from)[e];
    }
    return found;
}

// What shifts make items of, while it is on its way: the last word around each of kCount vectors, and how far behind a
// word's boundary all of them begin. The other words are where the items will be.
template <int kCount>
struct Behind {
    unsigned word[kCount];
    int off;
};

// Asks for a chunk's words; shift_items waits for them. In between others can be asked for.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ Behind<kCount / Layout::kWidth> ask_items(
    Chunk<T, kCount, Layout>& items, const Shifted<T>& row, Column at, int live)
{
    constexpr int kGrain = Shifted<T>::kGrain;
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T), kWords = kBytes / kGrain;
    const int apart = Layout::Team::threads();
    const T* first = row.body + at * kWidth;
    Behind<kCount / kWidth> behind = {};
    behind.off = row.template off<kGrain>();
    if (row.template off<(kBytes < 16 ? kBytes : 16)>() == 0) {
        load_items(items, row.body, at, live);
        return behind;
    }
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        if (v >= live) continue;
        const T* from = first + v * apart * kWidth;
        if constexpr (kBytes % kGrain != 0 || sizeof(T) >= kGrain) {
#pragma unroll
            for (int e = 0; e < kWidth; ++e) items.set(v * kWidth + e, from[e]);
        } else {
            const unsigned* words = reinterpret_cast<const unsigned*>(reinterpret_cast<const char*>(from) - behind.off);
            items.word[v * kWords] = behind.off == 0 ? words[0] : some_of_word(from, kGrain - behind.off);
#pragma unroll
            for (int w = 1; w < kWords; ++w) items.word[v * kWords + w] = words[w];
            behind.word[v] = some_of_word(reinterpret_cast<const T*>(words + kWords), behind.off);
        }
    }
    return behind;
}

template <typename T, int kCount, typename Layout>
__device__ __forceinline__ void shift_items(
    Chunk<T, kCount, Layout>& items, const Behind<kCount / Layout::kWidth>& behind)
{
    constexpr int kGrain = Shifted<T>::kGrain;
    constexpr int kBytes = Layout::kWidth * sizeof(T), kWords = kBytes / kGrain;
    if constexpr (kBytes % kGrain == 0 && sizeof(T) < kGrain) {
        const int off = behind.off;
        // Bytes of the first word, of which there are no others, and then of the second.
        const unsigned whose = off == 0 ? 0x3210 : off == 1 ? 0x4210 : off == 2 ? 0x5410 : 0x6540;
#pragma unroll
        for (int v = 0; v < kCount / Layout::kWidth; ++v) {
#pragma unroll
            for (int w = 0; w < kWords; ++w) {
                unsigned& word = items.word[v * kWords + w];
                const unsigned next = w + 1 < kWords ? items.word[v * kWords + w + 1] : behind.word[v];
                word = w == 0 ? __byte_perm(word, next, whose) : __funnelshift_r(word, next, off * 8);
            }
        }
    }
}

// As load_items of <fusegen/load.cuh>, wherever the row lies.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_shifted(
    Chunk<T, kCount, Layout>& items, const Shifted<T>& row, Column at, int live)
{
    shift_items(items, ask_items(items, row, at, live));
}

}  // namespace fusegen
