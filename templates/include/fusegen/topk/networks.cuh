#pragma once
// Keys in registers, sorted by networks.

namespace fusegen {

__device__ constexpr int least_of(int a, int b) { return a < b ? a : b; }

// The greatest power of two below a count of two or more.
__device__ constexpr int half_of(int count) { return count > 2 ? 2 * half_of((count + 1) / 2) : 1; }

// a * b + c, by a unit that multiplies.
__device__ __forceinline__ unsigned multiply_add(unsigned a, unsigned b, unsigned c)
{
    unsigned r;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

// Of two words that which is not the `better` one: their sum less it. Networks compare and select, for which devices
// have half as many units as instructions are issued, while those that multiply idle. Blocks have one row of threads in
// z; compilers do not know that, and leave the products.
__device__ __forceinline__ unsigned other_than(unsigned better, unsigned a, unsigned b)
{
    const unsigned one = blockDim.z;
    return multiply_add(better, 0u - one, multiply_add(a, one, b));
}
__device__ __forceinline__ unsigned long long other_than(
    unsigned long long better, unsigned long long a, unsigned long long b)
{
    const unsigned high = other_than(
        static_cast<unsigned>(better >> 32), static_cast<unsigned>(a >> 32), static_cast<unsigned>(b >> 32));
    const unsigned low =
        other_than(static_cast<unsigned>(better), static_cast<unsigned>(a), static_cast<unsigned>(b));
    return static_cast<unsigned long long>(high) << 32 | low;
}

// Puts the better of two keys first.
template <typename Key>
__device__ __forceinline__ void exchange(Key& a, Key& b)
{
    const Key better = a > b ? a : b;
    b = other_than(better, a, b);
    a = better;
}

// Of kCount keys in order every second one, and those between them.
__device__ constexpr int evens_of(int count) { return (count + 1) / 2; }
__device__ constexpr int odds_of(int count) { return count / 2; }

// The kBest best of two lists in order, whose keys are kStep apart: Batcher's odd-even merge, of any two lengths
// (Knuth, The Art of Computer Programming 3, 5.3.4). What is not among the best costs nothing.
template <int kBest, int kFirst, int kSecond, int kStep = 1, typename Key>
__device__ __forceinline__ void merge_best(Key* best, const Key* first, const Key* second)
{
    if constexpr (kFirst == 0 || kSecond == 0) {
#pragma unroll
        for (int i = 0; i < kBest; ++i) best[i] = (kFirst > 0 ? first : second)[i * kStep];
    } else if constexpr (kFirst == 1 && kSecond == 1) {
        best[0] = max(first[0], second[0]);
        if constexpr (kBest > 1) best[1] = other_than(best[0], first[0], second[0]);
    } else {
        constexpr int kNeeded = kBest / 2 + 1;
        constexpr int kEvens = least_of(kNeeded, evens_of(kFirst) + evens_of(kSecond));
        constexpr int kOdds = least_of(kNeeded, odds_of(kFirst) + odds_of(kSecond));
        Key even[kEvens], odd[kOdds];
        merge_best<kEvens, least_of(kEvens, evens_of(kFirst)), least_of(kEvens, evens_of(kSecond)), 2 * kStep>(
            even, first, second);
        merge_best<kOdds, least_of(kOdds, odds_of(kFirst)), least_of(kOdds, odds_of(kSecond)), 2 * kStep>(
            odd, first + kStep, second + kStep);
        best[0] = even[0];
#pragma unroll
        for (int i = 1; i < kBest; i += 2) {
            const int pair = i / 2;
            if (pair + 1 < kEvens && pair < kOdds) {
                best[i] = max(even[pair + 1], odd[pair]);
                if (i + 1 < kBest) best[i + 1] = other_than(best[i], even[pair + 1], odd[pair]);
            } else {
                best[i] = pair < kOdds ? odd[pair] : even[pair + 1];
            }
        }
    }
}

// The kBest best of kCount keys, in order: Batcher's sort, of which only what they need is done.
template <int kBest, int kCount, typename Key>
__device__ __forceinline__ void sort_best(Key* best, const Key* keys)
{
    if constexpr (kCount == 1) {
        best[0] = keys[0];
    } else {
        constexpr int kHalf = half_of(kCount), kRest = kCount - kHalf;
        constexpr int kFirst = least_of(kBest, kHalf), kSecond = least_of(kBest, kRest);
        Key first[kFirst], second[kSecond];
        sort_best<kFirst, kHalf>(first, keys);
        sort_best<kSecond, kRest>(second, keys + kHalf);
        merge_best<kBest, kFirst, kSecond>(best, first, second);
    }
}

// Sorts keys, the best first.
template <int kCount, typename Key>
__device__ __forceinline__ void sort(Key* keys)
{
    Key found[kCount];
    sort_best<kCount, kCount>(found, keys);
#pragma unroll
    for (int i = 0; i < kCount; ++i) keys[i] = found[i];
}

// Keys that fall and then rise, in order, the best first: Batcher's bitonic merge. Of a count that is no power of two
// as if there were keys better than all before them, which stay where they are.
template <int kCount, typename Key>
__device__ __forceinline__ void straighten(Key* keys)
{
    if constexpr (kCount > 1) {
        constexpr int kHalf = half_of(kCount), kRest = kCount - kHalf;
#pragma unroll
        for (int i = 0; i < kRest; ++i) exchange(keys[i], keys[i + kHalf]);
        straighten<kRest>(keys);
        straighten<kHalf>(keys + kRest);
    }
}

}  // namespace fusegen
