#pragma once
// A band of neighbouring rows on its way through shared memory: whole vectors of 16 bytes between there and device
// memory, whatever rows begin and end on.

#include <fusegen/copy.cuh>

namespace fusegen {

// The row of its band that a team has in a step, where those of a warp are kApart rows from one another.
template <typename Team, int kApart, int kThreads>
__device__ __forceinline__ int row_of_step(int step)
{
    const int turn = step * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;  // of all warps
    const int team = static_cast<int>(threadIdx.x) % 32 / Team::kThreads;          // of this warp
    return (turn / kApart * (32 / Team::kThreads) + team) * kApart + turn % kApart;
}

// Does a block write such elements?
template <typename T> constexpr bool kIsWritten = true;
template <typename T> constexpr bool kIsWritten<const T> = false;

// A block's rows of one array. In `slots` they lie as far behind boundaries as in memory: rows that follow one another
// as the one range that they are there, with what lies between them, others kPitch bytes apart.
template <typename T, int kRows, int kColumns, int kThreads>
struct Band {
    static constexpr int kVector = 16, kSpan = kVector / sizeof(T);  // bytes and elements
    // Room for a row that begins anywhere in a vector; an odd number of vectors, so that rows begin in different banks.
    static constexpr int kPitch = ((kColumns * int(sizeof(T)) + 2 * kVector - 1) / kVector | 1) * kVector;
    static constexpr int kBytes = kRows * kPitch;
    static constexpr int kFewBanks = 64;  // bytes: rows so far apart begin in two places of the banks
    typedef unsigned long long Address;

    unsigned char* slots;
    T* first;  // the band's first row, in memory
    long long stride;
    int n_cols;
    int pitch;        // bytes from a row to the next in shared memory
    unsigned behind;  // how far behind a boundary the first row begins,
    unsigned turn;    // and how much farther each begins than the one before it, but for whole vectors

    // What every row's place takes is worth registers: compilers would work it out again for each.
    __device__ __forceinline__ Band(unsigned char* slots, T* first, long long stride, int n_cols)
        : slots(slots), first(first), stride(stride), n_cols(n_cols),
          pitch(opaque(packed() ? int(stride) * int(sizeof(T)) : kPitch)),
          behind(opaque(unsigned(reinterpret_cast<Address>(first) % kVector))),
          turn(opaque(packed() ? 0u : unsigned(Address(stride) * sizeof(T) % kVector)))
    {
    }

    // One range? What is written has nothing between its rows. Small gaps come along, unless rows then begin in the
    // same banks.
    __device__ __forceinline__ bool packed() const
    {
        if (kIsWritten<T> || stride == n_cols) return stride == n_cols;
        const long long apart = stride * int(sizeof(T));
        return apart > 0 && apart <= kPitch && apart % kFewBanks != 0;
    }
    // So many rows that are one range.
    __device__ __forceinline__ int bytes(int rows) const
    {
        return ((rows - 1) * int(stride) + n_cols) * int(sizeof(T));
    }

    // Row r in shared memory.
    __device__ __forceinline__ T* row(int r) const
    {
        return reinterpret_cast<T*>(slots + r * pitch + (behind + unsigned(r) * turn) % kVector);
    }

    // Starts the copies of so many rows, before and after which the array has others. What lies between rows comes
    // along, and what vectors have of neighbours.
    __device__ __forceinline__ void fetch(int rows, long long before, long long after) const
    {
        const Address here = reinterpret_cast<Address>(first);
        const Address top = here - before * stride * sizeof(T);
        const Address last = here + (rows - 1 + after) * stride * sizeof(T);
        const Address low = top < last ? top : last, high = (top < last ? last : top) + n_cols * sizeof(T);
        vectors(rows, low, high, false, [](unsigned char* slot, Address from) {
            copy_vector<kVector>(static_cast<unsigned>(__cvta_generic_to_shared(slot)),
                                 reinterpret_cast<const char*>(from));
        });
        edges(rows, low, high, false, [](unsigned char* slot, Address from) {
            memcpy(slot, reinterpret_cast<const void*>(from), sizeof(T));
        });
    }

    // Writes so many rows, and nothing else.
    __device__ __forceinline__ void put(int rows) const
    {
        vectors(rows, 0, 0, true, [](const unsigned char* slot, Address to) {
            __stwb(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(slot));
        });
        edges(rows, 0, 0, true, [](const unsigned char* slot, Address to) {
            *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(slot);
        });
    }

private:
    // Visits the vectors of all rows that lie between two addresses, or, if `own`, each in its row: the place in shared
    // memory, the address in memory. A line is what lies in one piece: a row, or all of them.
    template <typename Visit>
    __device__ __forceinline__ void vectors(int rows, Address low, Address high, bool own, const Visit& visit) const
    {
        if (packed()) {
            const Address begin = reinterpret_cast<Address>(first), end = begin + bytes(rows);
            const int skipped = static_cast<int>(begin % kVector), size = bytes(rows);
            const bool early = !own && begin - skipped >= low;
            const bool late = !own && (end + kVector - 1) / kVector * kVector <= high;
            const int head = early ? -skipped : skipped ? kVector - skipped : 0;
            const int most = late ? size - 1 : size - kVector;  // the last vector begins here, or before
            unsigned char* to = slots + skipped;
#pragma unroll 4
            for (int at = head + static_cast<int>(threadIdx.x) * kVector; at <= most; at += kThreads * kVector)
                visit(to + at, begin + at);
            return;
        }
        constexpr int kCount = kPitch / kVector;  // that a row touches, at most
        const int size = n_cols * int(sizeof(T));
        const Address start = reinterpret_cast<Address>(first), step = stride * sizeof(T);
        const Address last = start + Address(rows - 1) * step;
        const Address least = start < last ? start : last, most = start < last ? last : start;
        // May all be read that rows touch? Only the first and the last of an array have nothing beside them.
        const bool inside = !own && least - kVector >= low && most + size + kVector <= high;
#pragma unroll 4
        for (int i = static_cast<int>(threadIdx.x); i < rows * kCount; i += kThreads) {
            const int line = i / kCount, place = i % kCount * kVector;
            const int at = place - int((behind + unsigned(line) * turn) % kVector);  // from where the row begins
            const Address there = start + line * step + at;
            const bool whole = own ? at >= 0 && at + kVector <= size
                                   : inside || (there >= low && there + kVector <= high);
            if (at < size && whole) visit(slots + line * kPitch + place, there);
        }
    }

    // Visits the elements of all rows whose vectors the other left out.
    template <typename Visit>
    __device__ __forceinline__ void edges(int rows, Address low, Address high, bool own, const Visit& visit) const
    {
        const int size = bytes(packed() ? rows : 1);
        const Address start = reinterpret_cast<Address>(first);
        if (!own && packed() && start / kVector * kVector >= low &&
            (start + size + kVector - 1) / kVector * kVector <= high)
            return;
        // Of rows a vector or more apart, only the first and the last reach into vectors that are not all theirs.
        const bool apart = !own && (stride >= kSpan || stride <= -kSpan) && rows > 1;
        const int lines = packed() ? 1 : apart ? 2 : rows, step = apart ? rows - 1 : 1;
        for (int i = static_cast<int>(threadIdx.x); i < lines * 2 * kSpan; i += kThreads) {
            const int line = i / (2 * kSpan) * step, place = i % (2 * kSpan);
            const Address begin = reinterpret_cast<Address>(first + line * stride), end = begin + size;
            const Address base = begin / kVector * kVector, last = end / kVector * kVector;
            const bool tail = place >= kSpan;
            const Address vector = tail ? last : base, at = vector + place % kSpan * sizeof(T);
            const bool whole = vector >= (own ? begin : low) && vector + kVector <= (own ? end : high);
            if (!whole && at >= begin && at < end && !(tail && last == base))
                visit(slots + line * kPitch + (at - base), at);
        }
    }
};

// The `live` vectors of a chunk, the first of which is number `at`, to shared memory.
template <typename T, int kCount, typename Layout, typename Column>
__device__ __forceinline__ void keep_items(T* to, const Chunk<T, kCount, Layout>& items, Column at, int live)
{
    constexpr int kWidth = Layout::kWidth, kWords = kWidth * sizeof(T) / 4;
    const int apart = Layout::Team::threads();
#pragma unroll
    for (int v = 0; v < kCount / kWidth; ++v) {
        if (v >= live) continue;
        T* there = to + (at + v * apart) * kWidth;
        const unsigned* word = items.word + v * kWords;
        if constexpr (kWidth == 1) {
            *there = items[v];
        } else if constexpr (kWords % 4 == 0 && kWords > 0) {
#pragma unroll
            for (int w = 0; w < kWords; w += 4)
                reinterpret_cast<uint4*>(there)[w / 4] = make_uint4(word[w], word[w + 1], word[w + 2], word[w + 3]);
        } else {
#pragma unroll
            for (int e = 0; e < kWidth; ++e) there[e] = items[v * kWidth + e];
        }
    }
}

}  // namespace fusegen
