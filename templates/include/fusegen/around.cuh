#pragma once
// Vectors that begin inside 16-byte words: the words around them are read, and shifted. These must be the array's own:
// where vectors are read so, those at both ends of a row are left to single elements (<fusegen/edges.cuh>).

#include <fusegen/load.cuh>

namespace fusegen {

constexpr int kWord = 16;  // bytes

// How far behind a word's boundary something begins, in bytes. It is worth a register: compilers would work it out
// again for every chunk.
__device__ __forceinline__ int offset_in_word(const void* from)
{
    return opaque(static_cast<int>(reinterpret_cast<unsigned long long>(from) % kWord));
}

// The words around kBytes that begin inside the first of them.
template <int kBytes>
struct Around {
    static constexpr int kWords = kBytes / 4, kHeld = kWords + kWord / 4;
    unsigned held[kHeld + 1];  // one more for the shift of the last

    // The last of the words only if something begins inside the first.
    __device__ __forceinline__ void load(const uint4* from, bool inside = true)
    {
#pragma unroll
        for (int w = 0; w < kHeld; w += 4) {
            if (w == kWords && !inside) continue;
            const uint4 four = from[w / 4];
            held[w] = four.x, held[w + 1] = four.y, held[w + 2] = four.z, held[w + 3] = four.w;
        }
        held[kHeld] = 0;
    }
    // The bytes from kFar times four and `off` % 4 on.
    template <int kFar>
    __device__ __forceinline__ void shift(unsigned* word, int off) const
    {
#pragma unroll
        for (int w = 0; w < kWords; ++w) word[w] = __funnelshift_r(held[w + kFar], held[w + kFar + 1], off % 4 * 8);
    }
};

template <int kFar, int kBytes, int kCount>
__device__ __forceinline__ void shift_all(unsigned* word, const Around<kBytes> (&around)[kCount], int off)
{
#pragma unroll
    for (int v = 0; v < kCount; ++v) around[v].template shift<kFar>(word + v * kBytes / 4, off);
}

// Vectors that begin `off` bytes inside their words, 0 < off < 16. One branch, the same for all of a row, says by how
// many times four, where selects would be several for every one.
template <int kBytes, int kCount>
__device__ __forceinline__ void shift_around(unsigned* word, const Around<kBytes> (&around)[kCount], int off)
{
    if (off < 4)
        shift_all<0>(word, around, off);
    else if (off < 8)
        shift_all<1>(word, around, off);
    else if (off < 12)
        shift_all<2>(word, around, off);
    else
        shift_all<3>(word, around, off);
}

// What all rows share, from where vectors of the row at hand begin.
template <typename T>
struct Within {
    const T* __restrict__ body;
    int off;

    __device__ __forceinline__ Within(const T* from) : body(from), off(offset_in_word(from)) {}
};

// What shifts make items of, while it is on its way.
template <int kBytes, int kCount>
struct BehindWithin {
    Around<kBytes> around[kCount];
    int off;
};

// Asks for a chunk's words; shift_items waits for them. In between others can be asked for.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ BehindWithin<Layout::kWidth * sizeof(T), kCount / Layout::kWidth> ask_items(
    Chunk<T, kCount, Layout>& items, const Within<T>& row, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T);
    static_assert(kBytes == kWord);
    BehindWithin<kBytes, kCount / kWidth> behind;
    behind.off = row.off;
    const int apart = Layout::Team::threads();
    const char* words = reinterpret_cast<const char*>(row.body) - row.off;
    const uint4* first = reinterpret_cast<const uint4*>(words) + at;
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v)
        if (v < live) behind.around[v].load(first + v * apart, row.off != 0);
    return behind;
}

template <typename T, int kCount, typename Layout, int kBytes>
__device__ __forceinline__ void shift_items(
    Chunk<T, kCount, Layout>& items, const BehindWithin<kBytes, kCount / Layout::kWidth>& behind)
{
    constexpr int kVectors = kCount / Layout::kWidth;
    if (behind.off != 0) {
        shift_around(items.word, behind.around, behind.off);
    } else {
#pragma unroll
        for (int w = 0; w < kVectors * 4; ++w) items.word[w] = behind.around[w / 4].held[w % 4];
    }
}

// As load_items of <fusegen/load.cuh>.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_within(
    Chunk<T, kCount, Layout>& items, const Within<T>& row, Column at, int live)
{
    shift_items(items, ask_items(items, row, at, live));
}

}  // namespace fusegen
