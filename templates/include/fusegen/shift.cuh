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

// Which vectors of a row have all words of kGrain bytes around them inside the row: numbers `first` … `end` - 1.
template <int kWidth, int kGrain, typename T, typename Column>
struct Inside {
    Column first, end;

    __device__ __forceinline__ explicit Inside(const Shifted<T>& row)
    {
        constexpr int kElements = kGrain / sizeof(T);  // of a word; a vector has no fewer
        const int off = static_cast<int>(reinterpret_cast<unsigned long long>(row.body) % kGrain);
        const int before = off / static_cast<int>(sizeof(T)), behind = off ? kElements - before : 0;  // elements around
        const Column rest = static_cast<Column>(row.end - row.body) - behind;
        first = before > row.body - row.begin;
        end = rest > 0 ? rest / kWidth : 0;
    }
    __device__ __forceinline__ bool has(Column vector) const { return vector >= first && vector < end; }
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
    // Those that begin kFar words and `off` % 4 bytes behind the first.
    template <int kFar>
    __device__ __forceinline__ void shift(unsigned* word, int off) const
    {
#pragma unroll
        for (int w = 0; w < kWords; ++w) word[w] = __funnelshift_r(held[w + kFar], held[w + kFar + 1], off % 4 * 8);
    }
};

template <int kFar, int kBytes, int kStep, int kVectors>
__device__ __forceinline__ void shift_far(unsigned* word, const Around<kBytes, kStep> (&around)[kVectors], int off)
{
#pragma unroll
    for (int v = 0; v < kVectors; ++v) around[v].template shift<kFar>(word + v * kBytes / 4, off);
}

// The words that vectors begin `off` bytes behind: one branch, the same for all of a row, says by how many whole words,
// where selects would be several for every word.
template <int kBytes, int kStep, int kVectors>
__device__ __forceinline__ void shift_all(unsigned* word, const Around<kBytes, kStep> (&around)[kVectors], int off)
{
    if constexpr (kStep == 1) {
        shift_far<0>(word, around, off);
    } else {
        static_assert(kStep == 4);
        if (off < 4)
            shift_far<0>(word, around, off);
        else if (off < 8)
            shift_far<1>(word, around, off);
        else if (off < 12)
            shift_far<2>(word, around, off);
        else
            shift_far<3>(word, around, off);
    }
}

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
        const Inside<kWidth, kGrain<T>, T, Column> inside(row);
        Around<kBytes, kGrain<T> / 4> around[kAll];
        bool edges = false;
#pragma unroll
        for (int v = 0; v < kAll; ++v) {
            const bool whole = inside.has(at + v * apart);
            around[v].load(reinterpret_cast<const char*>(first + v * apart * kWidth), off, v < live && whole);
            edges |= v < live && !whole;
        }
        shift_all(items.word, around, off);
        if (!edges) return;
#pragma unroll
        for (int v = 0; v < kAll; ++v) {
            if (v >= live || inside.has(at + v * apart)) continue;
#pragma unroll
            for (int e = 0; e < kWidth; ++e) items.set(v * kWidth + e, first[v * apart * kWidth + e]);
        }
    }
}

}  // namespace fusegen
