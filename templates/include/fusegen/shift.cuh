#pragma once
// Rows that begin elsewhere between two boundaries than the one whose vectors are gone over: a vector of theirs lies in
// the aligned words around it, and comes out of them by shifts.

#include <fusegen/items.cuh>
#include <fusegen/team.cuh>

namespace fusegen {

// A row of which vectors are read that begin at `body` and whole vectors behind it.
template <typename T>
struct Shifted {
    const T *__restrict__ body, *begin, *end;
};

// Bytes of a word that is read: elements, where these are words. Greater ones are fewer, and take more registers.
template <typename T>
constexpr int kGrain = sizeof(T) < 4 ? 4 : sizeof(T);

// kBytes that are `off` bytes behind a boundary of kStep words: the words around them. All words of a chunk are asked
// for before any is shifted, so that they are under way together.
template <int kBytes, int kStep>
struct Around {
    static constexpr int kWords = kBytes / 4, kHeld = kWords + kStep;
    unsigned held[kHeld + 1];  // one more for the shift of the last

    __device__ __forceinline__ void load(const char* from, int off, bool wanted)
    {
        const char* base = from - off;
#pragma unroll
        for (int w = 0; w < kHeld; w += kStep) {
            const bool asked = wanted && (w < kWords || off != 0);
            if constexpr (kStep == 4) {
                const uint4 four = asked ? *reinterpret_cast<const uint4*>(base + 4 * w) : make_uint4(0, 0, 0, 0);
                held[w] = four.x, held[w + 1] = four.y, held[w + 2] = four.z, held[w + 3] = four.w;
            } else {
                static_assert(kStep == 1);
                held[w] = asked ? *reinterpret_cast<const unsigned*>(base + 4 * w) : 0;
            }
        }
        held[kHeld] = 0;
    }
    // By so many whole words, then by bytes.
    __device__ __forceinline__ void shift(unsigned* word, int off)
    {
#pragma unroll
        for (int step = kStep / 2; step > 0; step /= 2) {
            const bool far = off & 4 * step;
#pragma unroll
            for (int w = 0; w + step < kHeld; ++w) held[w] = far ? held[w + step] : held[w];
        }
#pragma unroll
        for (int w = 0; w < kWords; ++w) word[w] = __funnelshift_r(held[w], held[w + 1], off % 4 * 8);
    }
};

// As load_items of <fusegen/load.cuh>, wherever the row lies. Nothing is read that is not the row's: words around a
// vector that are not all of the row have its elements one by one.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_shifted(
    Chunk<T, kCount, Layout>& items, const Shifted<T>& row, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T), kAll = kCount / kWidth;
    const int apart = Layout::Team::threads();
    const T* first = row.body + at * kWidth;
    if constexpr (kBytes % kGrain<T> != 0 || kGrain<T> == sizeof(T)) {
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            if (i / kWidth < live) items.set(i, first[i / kWidth * apart * kWidth + i % kWidth]);
    } else {
        const int off = static_cast<int>(reinterpret_cast<unsigned long long>(row.body) % kGrain<T>);
        const int before = off / sizeof(T), behind = off ? kGrain<T> / sizeof(T) - before : 0;  // elements around
        Around<kBytes, kGrain<T> / 4> around[kAll];
        bool edges = false;
#pragma unroll
        for (int v = 0; v < kAll; ++v) {
            const T* there = first + v * apart * kWidth;
            const bool inside = there - before >= row.begin && there + kWidth + behind <= row.end;
            around[v].load(reinterpret_cast<const char*>(there), off, v < live && inside);
            edges |= v < live && !inside;
        }
#pragma unroll
        for (int v = 0; v < kAll; ++v) around[v].shift(items.word + v * kBytes / 4, off);
        if (!edges) return;
#pragma unroll
        for (int v = 0; v < kAll; ++v) {
            const T* there = first + v * apart * kWidth;
            if (v >= live || (there - before >= row.begin && there + kWidth + behind <= row.end)) continue;
#pragma unroll
            for (int e = 0; e < kWidth; ++e) items.set(v * kWidth + e, there[e]);
        }
    }
}

}  // namespace fusegen
