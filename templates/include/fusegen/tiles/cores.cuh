#pragma once
// Products of vectors on CUDA cores: tables of vectors in shared memory, sums in registers.

#include <fusegen/tiles/fragment.cuh>

namespace fusegen {

template <typename Real>
struct alignas(16) FourNumbers {
    Real of[4];
};

// Numbers [0, numbers) of kCount vectors, or of as many as there are, one after the other; 0 behind them.
// True if all that this thread brings are finite.
template <int kThreads, int kCount, int kDepth, int kPitch, typename Real, typename T, typename Read>
__device__ __forceinline__ bool bring_vectors(
    Real* to, const T* from, long long stride, long long there, int numbers, const Read& read)
{
    Real seen = 0;  // NaN, once one is not
    if constexpr (kDepth == 4) {  // a thread has whole vectors
#pragma unroll 4
        for (int vector = threadIdx.x; vector < kCount; vector += kThreads) {
            const T* const mine = from + vector * stride;
            FourNumbers<Real> four;
#pragma unroll
            for (int number = 0; number < 4; ++number)
                four.of[number] = vector < there && number < numbers ? read(mine[number]) : Real(0);
#pragma unroll
            for (int number = 0; number < 4; ++number) seen += four.of[number] * Real(0);
            *reinterpret_cast<FourNumbers<Real>*>(to + vector * kPitch) = four;
        }
    } else {
        for (int at = threadIdx.x; at < kCount * kDepth; at += kThreads) {
            const int vector = at / kDepth, number = at % kDepth;
            const bool live = vector < there && number < numbers;
            const Real brought = live ? read(from[vector * stride + number]) : Real(0);
            seen += brought * Real(0);
            to[vector * kPitch + number] = brought;
        }
    }
    return seen == seen;
}

// A number beside each of kCount vectors, or of as many as there are: by the thread that brings the vector.
template <int kThreads, int kCount, int kPitch, typename Real>
__device__ __forceinline__ void bring_beside(Real* to, const Real* from, long long there)
{
#pragma unroll 4
    for (int vector = threadIdx.x; vector < kCount; vector += kThreads)
        to[vector * kPitch] = vector < there ? from[vector] : Real(0);
}

// a·b more.
struct ProductTerm {
    template <typename Real>
    __device__ __forceinline__ Real operator()(Real sum, const Real (&a)[1], const Real (&b)[1]) const
    {
        return sum + a[0] * b[0];
    }
};

// Four numbers of every vector more, or fewer: scores[t][…] += term, for this lane's rows and columns.
template <int kNumbers, int kRowTiles, int kColumns, int kPitch, int kStep, typename Real, int kA, int kB,
          typename Term>
__device__ __forceinline__ void add_four(
    Real (&scores)[kRowTiles][kColumns / 2], const Real* const (&rows)[kA], const Real* const (&columns)[kB], int n,
    const Term& term)
{
    FourNumbers<Real> a[2 * kRowTiles][kA];
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r)
#pragma unroll
        for (int k = 0; k < kA; ++k) a[r][k] = *reinterpret_cast<const FourNumbers<Real>*>(rows[k] + r * kStep + n);
#pragma unroll
    for (int i = 0; i < kColumns / 4; ++i) {
        FourNumbers<Real> b[kB];
#pragma unroll
        for (int k = 0; k < kB; ++k)
            b[k] = *reinterpret_cast<const FourNumbers<Real>*>(columns[k] + (i / 2 * 8 + i % 2) * kPitch + n);
#pragma unroll
        for (int at = 0; at < kNumbers; ++at) {
            Real right[kB];
#pragma unroll
            for (int k = 0; k < kB; ++k) right[k] = b[k].of[at];
#pragma unroll
            for (int r = 0; r < 2 * kRowTiles; ++r) {
                Real left[kA];
#pragma unroll
                for (int k = 0; k < kA; ++k) left[k] = a[r][k].of[at];
                Real& sum = scores[r / 2][4 * (i / 2) + 2 * (r % 2) + i % 2];
                sum = term(sum, left, right);
            }
        }
    }
}

// All numbers from `number` on that are in shared memory: at most kDepth of the vectors' kLength.
template <int kLength, int kDepth, int kRowTiles, int kColumns, int kPitch, bool kRows, typename Real, int kA, int kB,
          typename Term>
__device__ __forceinline__ void add_terms(
    Real (&scores)[kRowTiles][kColumns / 2], const Real* const (&rows)[kA], const Real* const (&columns)[kB],
    int number, const Term& term)
{
    constexpr int kStep = kRows ? 8 * kPitch : 0;  // from a row to this lane's next one
    const int there = kLength <= kDepth ? kLength : min(kDepth, kLength - number);
    const int fours = there / 4;
#pragma unroll 1
    for (int four = 0; four < fours; ++four)
        add_four<4, kRowTiles, kColumns, kPitch, kStep>(scores, rows, columns, 4 * four, term);
    if (kLength % 4 != 0 && there % 4 != 0)
        add_four<kLength % 4, kRowTiles, kColumns, kPitch, kStep>(scores, rows, columns, 4 * fours, term);
}

// Scores of vectors of up to four numbers, each made where it is folded, so that its arithmetic runs beside what other
// scores wait for: tile[t][…] is in place of an array of scores.
template <int kLength, int kRowTiles, int kColumns, int kPitch, bool kRows, typename Real, int kA, int kB,
          typename Term>
struct ShortScores {
    FourNumbers<Real> rows[2 * kRowTiles][kA], columns[kColumns / 4][kB];
    const Term& term;

    __device__ __forceinline__ ShortScores(
        const Real* const (&of_rows)[kA], const Real* const (&of_columns)[kB], const Term& term) : term(term)
    {
        typedef FourNumbers<Real> Four;
#pragma unroll
        for (int r = 0; r < 2 * kRowTiles; ++r)
#pragma unroll
            for (int k = 0; k < kA; ++k)
                rows[r][k] = *reinterpret_cast<const Four*>(of_rows[k] + (kRows ? r * 8 * kPitch : 0));
#pragma unroll
        for (int i = 0; i < kColumns / 4; ++i)
#pragma unroll
            for (int k = 0; k < kB; ++k)
                columns[i][k] = *reinterpret_cast<const Four*>(of_columns[k] + (i / 2 * 8 + i % 2) * kPitch);
    }

    struct OfRows {
        const ShortScores& all;
        int t;

        __device__ __forceinline__ Real operator[](int at) const
        {
            Real sum = 0;
#pragma unroll
            for (int n = 0; n < kLength; ++n) {
                Real left[kA], right[kB];
#pragma unroll
                for (int k = 0; k < kA; ++k) left[k] = all.rows[2 * t + at / 2 % 2][k].of[n];
#pragma unroll
                for (int k = 0; k < kB; ++k) right[k] = all.columns[at / 4 * 2 + at % 2][k].of[n];
                sum = all.term(sum, left, right);
            }
            return sum;
        }

        // Number n beside the vector of item i.
        __device__ __forceinline__ Real beside(int i, int n) const { return all.columns[i][0].of[kLength + n]; }
    };
    __device__ __forceinline__ OfRows operator[](int t) const { return {*this, t}; }
};

// Weights of this lane's rows and columns to where all lanes of the warp find them.
template <int kRowTiles, int kColumns, int kPitch, typename Real>
__device__ __forceinline__ void leave_weights(Real* to, const Real (&weights)[kRowTiles][kColumns / 2])
{
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r)
#pragma unroll
        for (int i = 0; i < kColumns / 4; ++i)
            to[(first_row_of_lane() + 8 * r) * kPitch + first_column_of_lane() + i / 2 * 8 + i % 2] =
                weights[r / 2][4 * (i / 2) + 2 * (r % 2) + i % 2];
    __syncwarp();
}

// sum[t][…] += Σ over the tile's columns of weight · vector. What a mask leaves out has the weight -0, and is not
// looked at.
template <bool kMasked, int kRowTiles, int kColumns, int kNumbers, int kWeightPitch, int kPitch, typename Real>
__device__ __forceinline__ void add_weighted(
    Real (&sum)[kRowTiles][kNumbers / 2], const Real* weights, const Real* vectors)
{
#pragma unroll 2
    for (int c = 0; c < kColumns; ++c) {
        Real weight[2 * kRowTiles];
        bool live[2 * kRowTiles];
#pragma unroll
        for (int r = 0; r < 2 * kRowTiles; ++r) {
            weight[r] = weights[(first_row_of_lane() + 8 * r) * kWeightPitch + c];
            live[r] = !kMasked || weight[r] != 0 || !signbit(weight[r]);
        }
#pragma unroll
        for (int j = 0; j < kNumbers / 4; ++j) {
            const Real number = vectors[c * kPitch + first_column_of_lane() + j / 2 * 8 + j % 2];
#pragma unroll
            for (int r = 0; r < 2 * kRowTiles; ++r)
                if (!kMasked || live[r]) sum[r / 2][4 * (j / 2) + 2 * (r % 2) + j % 2] += weight[r] * number;
        }
    }
}

}  // namespace fusegen
