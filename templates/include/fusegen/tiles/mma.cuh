#pragma once
// Products of 16-bit vectors on tensor cores, by mma.sync: vectors in shared memory, scores and sums of vectors in
// registers, as fragment.cuh says. Vectors of kDepth numbers lie kDepth + 8 apart: an odd multiple of 16 bytes, so
// that eight neighbours begin in different banks.

#include <fusegen/tiles/alone.cuh>
#include <fusegen/tiles/fragment.cuh>
#include <fusegen/tiles/instructions.cuh>
#include <fusegen/tiles/reference.cuh>
#include <fusegen/warp.cuh>

namespace fusegen {

constexpr int kBetweenVectors = 8;  // numbers

// ---- Teams: the threads that go over tiles of columns together, a block or a warp ----------------------------

template <int kTeams>
__device__ __forceinline__ void meet_team()
{
    if constexpr (kTeams == 1)
        __syncthreads();
    else
        __syncwarp();
}

// Does it hold for any of them?
template <int kTeams>
__device__ __forceinline__ bool any_of_team(bool holds)
{
    if constexpr (kTeams == 1)
        return __syncthreads_or(holds);
    else
        return __any_sync(0xffffffffu, holds);
}

// Tiles of columns: from `first` to before `end`.
struct Run {
    int first, end;
};

// Part `part` of them, of `parts` that are as long as one another, or longer by one.
__device__ __forceinline__ Run part_of(Run all, int part, int parts)
{
    const int count = all.end - all.first, length = count / parts, longer = count % parts;
    const int first = all.first + part * length + min(part, longer);
    return {first, first + length + (part < longer)};
}

// That of all threads of a block.
template <int kThreads>
__device__ __forceinline__ Run run_of_block(Run mine)
{
    __shared__ unsigned firsts[kThreads / 32], ends[kThreads / 32];
    const unsigned first = least_of_warp(mine.first), end = greatest_of_warp(mine.end);
    __syncthreads();
    if (threadIdx.x % 32 == 0) firsts[threadIdx.x / 32] = first, ends[threadIdx.x / 32] = end;
    __syncthreads();
    for (int i = 0; i < kThreads / 32; ++i) {
        mine.first = min(mine.first, static_cast<int>(firsts[i]));
        mine.end = max(mine.end, static_cast<int>(ends[i]));
    }
    return mine;
}

// ---- Vectors on their way to shared memory -------------------------------------------------------------------

// Does every vector begin at a multiple of 16 bytes, as copies need it?
template <typename T>
__device__ __forceinline__ bool in_sixteens(const T* first, long long stride)
{
    return ((reinterpret_cast<unsigned long long>(first) | 2 * stride) & 15) == 0;
}

// Two numbers of a vector as they lie; 0 behind `numbers`.
template <typename T>
__device__ __forceinline__ unsigned two_numbers(const T* vector, int number, int numbers)
{
    const unsigned short* const bits = reinterpret_cast<const unsigned short*>(vector) + number;
    return (number < numbers ? bits[0] : 0u) | (number + 1 < numbers ? bits[1] : 0u) << 16;
}

// For thread `rank` of kThreads: numbers [0, numbers) of kCount vectors, or of as many as there are; 0 behind them.
// In sixteens, copies are on their way, until they are committed and awaited.
template <int kThreads, int kCount, int kDepth, typename T>
__device__ __forceinline__ void bring_words(
    T* to, const T* from, long long stride, long long there, int numbers, bool sixteens, int rank)
{
    constexpr int kPitch = kDepth + kBetweenVectors, kPieces = kDepth / 8, kAll = kCount * kPieces;
    const int vectors = there < kCount ? static_cast<int>(there) : kCount;
    const auto bytes = [&](int piece) { return 2 * min(max(numbers - 8 * piece, 0), 8); };
    if (!sixteens) {
#pragma unroll 1
        for (int at = rank; at < kAll; at += kThreads) {
            const int vector = at / kPieces, piece = at % kPieces;
            const int count = vector < vectors ? bytes(piece) / 2 : 0;
            const T* const place = from + vector * stride + 8 * piece;
            uint4 words = make_uint4(0, 0, 0, 0);
            if (count > 0)
                words = make_uint4(two_numbers(place, 0, count), two_numbers(place, 2, count),
                                   two_numbers(place, 4, count), two_numbers(place, 6, count));
            *reinterpret_cast<uint4*>(to + vector * kPitch + 8 * piece) = words;
        }
    } else if (kThreads % kPieces == 0 && kAll % kThreads == 0 && vectors == kCount) {
        // All of them are there: a thread has the same piece of every vector that it copies.
        constexpr int kStep = kThreads / kPieces;
        const int piece = rank % kPieces, part = bytes(piece);
        const T* place = from + rank / kPieces * stride + (part > 0 ? 8 * piece : 0);
        const unsigned target = shared_address(to) + 2 * (rank / kPieces * kPitch + 8 * piece);
#pragma unroll
        for (int i = 0; i < kAll / kThreads; ++i, place += kStep * stride)
            copy_async_some(target + 2 * i * kStep * kPitch, place, part);
    } else {
#pragma unroll 1
        for (int at = rank; at < kAll; at += kThreads) {
            const int vector = at / kPieces, piece = at % kPieces, part = vector < vectors ? bytes(piece) : 0;
            copy_async_some(shared_address(to) + 2 * (vector * kPitch + 8 * piece),
                            part > 0 ? from + vector * stride + 8 * piece : from, part);
        }
    }
}

// ---- The vectors of a warp's rows, as products take them -----------------------------------------------------

// In registers.
template <int kRowTiles, int kSteps>
struct HeldRows {
    unsigned words[kSteps][kRowTiles][4];

    // `first`: the warp's first row's; of rows that are not there, the last one's.
    template <typename T>
    __device__ __forceinline__ void bring(const T* from, long long stride, int first, long long there, int numbers)
    {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
            for (int slot = 0; slot < 2; ++slot) {
                const long long row = first + 16 * t + 8 * slot + first_row_of_lane();
                const T* const vector = from + (row < there ? row : there - 1) * stride;
                const bool fours = (reinterpret_cast<unsigned long long>(vector) & 3) == 0;
#pragma unroll
                for (int i = 0; i < 2 * kSteps; ++i) {
                    const int number = 8 * i + first_column_of_lane();
                    unsigned& word = words[i / 2][t][2 * (i % 2) + slot];
                    if (fours && number + 1 < numbers)
                        word = *reinterpret_cast<const unsigned*>(vector + number);
                    else
                        word = two_numbers(vector, number, numbers);
                }
            }
    }
    __device__ __forceinline__ void load(int step, int t, unsigned (&a)[4]) const
    {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[i] = words[step][t][i];
    }
};

// In shared memory, kDepth numbers of each.
template <int kDepth>
struct TableRows {
    static constexpr int kPitch = 2 * (kDepth + kBetweenVectors);
    unsigned first;  // of this lane

    template <typename T>
    __device__ __forceinline__ explicit TableRows(const T* table)
        : first(shared_address(table) + threadIdx.x % 16 * kPitch + threadIdx.x % 32 / 16 * 16)
    {}
    __device__ __forceinline__ void load(int step, int t, unsigned (&a)[4]) const
    {
        load_matrices_4(a, first + 16 * t * kPitch + 32 * step);
    }
};

// ---- Products ------------------------------------------------------------------------------------------------

// scores += rows · columns, over 16 kSteps numbers of vectors of kDepth.
template <Operand kOperand, int kRowTiles, int kColumns, int kSteps, int kDepth, typename Rows, typename T>
__device__ __forceinline__ void add_dots(float (&scores)[kRowTiles][kColumns / 2], const Rows& rows, const T* columns)
{
    constexpr int kPitch = 2 * (kDepth + kBetweenVectors);
    const int lane = threadIdx.x % 32;
    const unsigned first = shared_address(columns) + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 16;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
        unsigned a[kRowTiles][4];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) rows.load(step, t, a[t]);
#pragma unroll
        for (int j = 0; j < kColumns / 16; ++j) {
            unsigned b[4];
            load_matrices_4(b, first + 16 * j * kPitch + 32 * step);
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                multiply_16x8x16<kOperand>(scores[t] + 8 * j, a[t], b[0], b[1]);
                multiply_16x8x16<kOperand>(scores[t] + 8 * j + 4, a[t], b[2], b[3]);
            }
        }
    }
}

// sums += weights, rounded to the vectors' type, · vectors: kNumbers, a multiple of 8, of each.
template <Operand kOperand, int kRowTiles, int kColumns, int kNumbers, int kDepth, typename T>
__device__ __forceinline__ void add_vectors(
    float (&sums)[kRowTiles][kNumbers / 2], const float (&weights)[kRowTiles][kColumns / 2], const T* vectors)
{
    constexpr int kPitch = 2 * (kDepth + kBetweenVectors);
    const int lane = threadIdx.x % 32;
    const unsigned first = shared_address(vectors) + lane % 16 * kPitch + lane / 16 * 16;
#pragma unroll
    for (int step = 0; step < kColumns / 16; ++step) {
        unsigned a[kRowTiles][4];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
            for (int i = 0; i < 4; ++i)
                a[t][i] = packed<kOperand>(weights[t][8 * step + 2 * i], weights[t][8 * step + 2 * i + 1]);
#pragma unroll
        for (int j = 0; j < kNumbers / 16; ++j) {
            unsigned b[4];
            load_matrices_4_transposed(b, first + 16 * step * kPitch + 32 * j);
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                multiply_16x8x16<kOperand>(sums[t] + 8 * j, a[t], b[0], b[1]);
                multiply_16x8x16<kOperand>(sums[t] + 8 * j + 4, a[t], b[2], b[3]);
            }
        }
        if constexpr (kNumbers % 16 != 0) {
            unsigned b[2];
            load_matrices_2_transposed(b, first + 16 * step * kPitch + 2 * (kNumbers - 8));
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
                multiply_16x8x16<kOperand>(sums[t] + kNumbers / 2 - 4, a[t], b[0], b[1]);
        }
    }
}

// Does it hold for one of the lanes of a row?
__device__ __forceinline__ bool any_of_row(bool holds)
{
    holds |= __shfl_xor_sync(0xffffffffu, holds, 1);
    return holds | __shfl_xor_sync(0xffffffffu, holds, 2);
}

// Is one of a lane's numbers of row `slot` of 16 infinite, or none?
template <int kCount>
__device__ __forceinline__ bool any_unusual(const float (&sum)[kCount], int slot)
{
    float seen = 0.0f;  // NaN, once one of them is
#pragma unroll
    for (int j = 0; j < kCount / 2; ++j) seen += sum[4 * (j / 2) + 2 * slot + j % 2] * 0.0f;
    return seen != seen;
}

}  // namespace fusegen
