#pragma once
// Where lanes have what of a tile: as tensor cores leave their results. Of 16 rows, lane l has rows l / 4
// and l / 4 + 8, its slots 0 and 1; of 8 columns, 2·(l % 4) and the next. Item i of slot r is at
// 4·(i / 2) + 2·r + i % 2 of an array, its column 8·(i / 2) + i % 2 behind the lane's first.

namespace fusegen {

constexpr int kRowLanes = 4;  // that share a row

__device__ __forceinline__ int first_row_of_lane() { return threadIdx.x % 32 / kRowLanes; }
__device__ __forceinline__ int first_column_of_lane() { return threadIdx.x % kRowLanes * 2; }

// A bit for each of a slot's items of a tile.
template <bool kWide>
struct Bits {
    typedef unsigned Word;
};
template <>
struct Bits<true> {
    typedef unsigned long long Word;
};
template <int kColumns>
using ItemBits = typename Bits<(kColumns > 128)>::Word;

// Those of the items whose columns are less than so far behind the lane's first.
template <int kColumns, typename Column>
__device__ __forceinline__ ItemBits<kColumns> items_before(Column distance)
{
    typedef ItemBits<kColumns> Word;
    static_assert(kColumns <= 256);
    constexpr Column none = 0, all = kColumns;
    const unsigned within = static_cast<unsigned>(min(max(distance, none), all));
    const unsigned count = within / 8 * 2 + min(within % 8, 2u);
    return count == 8 * sizeof(Word) ? ~Word{0} : (Word{1} << count) - 1;
}

// Stores two neighbours, or the first where there is no second.
template <typename T>
__device__ __forceinline__ void store_two(T* to, const T (&two)[2], int numbers)
{
    struct alignas(2 * sizeof(T)) Both {
        T first, second;
    };
    if (numbers > 1 && reinterpret_cast<unsigned long long>(to) % sizeof(Both) == 0) {
        *reinterpret_cast<Both*>(to) = {two[0], two[1]};
    } else {
        to[0] = two[0];
        if (numbers > 1) to[1] = two[1];
    }
}

// Two numbers of 16 bits in a register, the first in its lower half; and back.
template <typename T>
__device__ __forceinline__ unsigned word_of(const T (&two)[2])
{
    static_assert(sizeof two == sizeof(unsigned), "16 bits each");
    unsigned word;
    memcpy(&word, two, sizeof word);
    return word;
}

// Four lanes of a row have two numbers each of every 8: words[m], of the 8 behind 8·m. They store 32 numbers, which
// begin at `to`, 8 by each lane if rows are `aligned` to 16 bytes. For whole warps; nothing is stored unless `here`.
template <typename T>
__device__ __forceinline__ void store_words(T* to, unsigned (&words)[4], bool here, bool aligned)
{
    const int lane = threadIdx.x % kRowLanes;
    if (!aligned) {
        T two[2];
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            memcpy(two, words + m, sizeof two);
            if (here) store_two(to + 8 * m + 2 * lane, two, 2);
        }
        return;
    }
    // Word m of lane l becomes word l of lane m: of pairs of lanes first, then of pairs of pairs.
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) {
        const bool upper = lane & apart;
#pragma unroll
        for (int m = 0; m < 4; ++m) {
            if (m & apart) continue;
            const unsigned given = __shfl_xor_sync(0xffffffffu, upper ? words[m] : words[m + apart], apart);
            (upper ? words[m] : words[m + apart]) = given;
        }
    }
    if (here) *reinterpret_cast<uint4*>(to + 8 * lane) = make_uint4(words[0], words[1], words[2], words[3]);
}

// A factor that is at most 1 wherever there is anything to be moved; sums of no elements are 0, and stay so.
template <typename Real>
__device__ __forceinline__ Real shrinking(Real factor) { return factor <= 1 ? factor : 0; }

// Is it so of one of a lane's rows?
template <int kCount, typename Row, typename Test>
__device__ __forceinline__ bool any_row(const Row (&rows)[kCount], const Test& test)
{
    bool found = false;
#pragma unroll
    for (int r = 0; r < kCount; ++r) found |= test(rows[r]);
    return found;
}

// a / b, of numbers that are not negative: of 32 bits, which is many times faster, where that will do.
__device__ __forceinline__ long long quotient(long long a, long long b)
{
    return (a | b) >> 32 == 0 ? static_cast<unsigned>(a) / static_cast<unsigned>(b) : a / b;
}

// What a block works on: rows [row, row_end) of one batch, columns of split `split`, and part `part` of the
// numbers of vectors.
struct BlockTile {
    long long row, row_end, tile;
    int split, part;
};

// Neighbouring blocks share rows. A tile of rows is of one batch. Where the last rows of a batch are the longest, those
// of all batches come first: what ends last is short.
template <int kRows, int kParts, bool kLastFirst>
__device__ __forceinline__ BlockTile tile_of_block(long long batch_rows, long long splits)
{
    const unsigned tiles = static_cast<unsigned>((batch_rows + kRows - 1) / kRows);  // fewer than blocks
    const unsigned shares = static_cast<unsigned>(splits) * kParts;
    const unsigned shared = blockIdx.x / shares, batches = gridDim.x / shares / tiles;
    const unsigned batch = kLastFirst ? shared % batches : shared / tiles;
    const unsigned place = kLastFirst ? shared / batches : shared % tiles;
    const int mine = static_cast<int>(blockIdx.x % shares);
    const long long row = batch * batch_rows + (kLastFirst ? tiles - 1 - place : place) * 1LL * kRows;
    const long long end = (batch + 1) * batch_rows;
    return {row, row + kRows < end ? row + kRows : end, shared, mine / kParts, mine % kParts};
}

}  // namespace fusegen
