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

// kBytes from memory that are `off` bytes behind a boundary of kGrain, to kBytes / 4 words.
template <int kBytes, int kGrain>
__device__ __forceinline__ void load_across(unsigned* word, const char* from, int off)
{
    constexpr int kWords = kBytes / 4, kStep = kGrain / 4, kHeld = kWords + kStep;
    unsigned held[kHeld + 1] = {};  // one more for the shift of the last
    const char* base = from - off;
#pragma unroll
    for (int w = 0; w < kHeld; w += kStep) {
        if (w == kWords && off == 0) continue;
        if constexpr (kStep == 4) {
            const uint4 four = *reinterpret_cast<const uint4*>(base + 4 * w);
            held[w] = four.x, held[w + 1] = four.y, held[w + 2] = four.z, held[w + 3] = four.w;
        } else if constexpr (kStep == 2) {
            const uint2 two = *reinterpret_cast<const uint2*>(base + 4 * w);
            held[w] = two.x, held[w + 1] = two.y;
        } else {
            held[w] = *reinterpret_cast<const unsigned*>(base + 4 * w);
        }
    }
    // By so many whole words, then by bytes.
#pragma unroll
    for (int step = kStep / 2; step > 0; step /= 2) {
        const bool far = off & 4 * step;
#pragma unroll
        for (int w = 0; w + step < kHeld; ++w) held[w] = far ? held[w + step] : held[w];
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) word[w] = __funnelshift_r(held[w], held[w + 1], off % 4 * 8);
}

// As load_items of <fusegen/load.cuh>, wherever the row lies. Nothing is read that is not the row's: words around a
// vector that are not all of the row have its elements one by one.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void load_shifted(
    Chunk<T, kCount, Layout>& items, const Shifted<T>& row, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kBytes = kWidth * sizeof(T), kGrain = kBytes < 16 ? kBytes : 16;
    const int apart = Layout::Team::threads();
    const int off = static_cast<int>(reinterpret_cast<unsigned long long>(row.body) % kGrain);
    const int before = off / sizeof(T), behind = off ? kGrain / sizeof(T) - before : 0;  // elements around a vector
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        if (v >= live) continue;
        const T* there = row.body + (at + v * apart) * kWidth;
        if (kBytes >= 4 && there - before >= row.begin && there + kWidth + behind <= row.end) {
            load_across<kBytes, kGrain>(items.word + v * kBytes / 4, reinterpret_cast<const char*>(there), off);
        } else {
#pragma unroll
            for (int e = 0; e < kWidth; ++e) items.set(v * kWidth + e, there[e]);
        }
    }
}

}  // namespace fusegen
