#pragma once
// Where to look next for a word that so many items reach.

namespace fusegen {

// Where a count stands among so many, on a scale on which values of a bell lie about evenly.
__device__ __forceinline__ float lean(int count, int all)
{
    return __log2f(count + 0.5f) - __log2f(all - count + 0.5f);
}

// A word between two, of which too many items reach the lower one and too few what is behind the higher one: in some
// rounds a guess by how many do, in the others halfway.
template <typename Peaks>
__device__ __forceinline__ unsigned next_word(
    unsigned low, unsigned high, float from, float to, float wanted, int round)
{
    if (Peaks::kFloats && (round < 2 || (round < 8 && round % 2 == 0))) {
        const float first = Peaks::value(low), last = Peaks::value(high);
        const float guess = first + (last - first) * __fdividef(from - wanted, from - to);
        if (first < guess && guess <= last) return min(max(Peaks::word(guess), low + 1), high);
    }
    return high - (high - low) / 2;
}

}  // namespace fusegen
