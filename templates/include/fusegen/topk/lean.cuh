#pragma once
// Where to look next for a word that so many items reach.

namespace fusegen {

// log2 of a number that is not 0 or subnormal.
__device__ __forceinline__ float log2_nearly(float a)
{
    float r;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
    return r;
}

// Where a count stands among so many, on a scale on which values of a bell lie about evenly.
__device__ __forceinline__ float lean(int count, float all)
{
    return log2_nearly(count + 1.0f) - log2_nearly(all - count + 1.0f);
}

// A word that enough of `all` items reach and one that too few do, and what is looked for between them: the next one
// is a guess by how many reach these two, a secant. Where it falls on the same side twice, the other side counts half
// as far away (the Illinois method: Dowell and Jarratt 1971), so that it comes near soon whatever the values are;
// after some rounds halves of what is left are sure. kTurns: guesses and halves take turns, for kernels that have no
// register more.
template <typename Peaks, bool kTurns = false>
struct Bracket {
    static constexpr int kGuesses = 8;
    unsigned low, high;  // enough reach the one, too few what is above the other
    float all;           // of the items; negative where too few reached the last word
    float from, to;      // how many reach them, as places on the scale
    int wanted;

    __device__ __forceinline__ Bracket(unsigned low, unsigned high, int all, int wanted)
        : low(low), high(high), all(static_cast<float>(all)), from(lean(all, all)), to(lean(0, all)), wanted(wanted)
    {
    }
    // Asked for each time: a register less.
    __device__ __forceinline__ float goal() const { return lean(wanted, fabsf(all)); }
    __device__ __forceinline__ unsigned next(int round) const
    {
        if (Peaks::kFloats && round < kGuesses && (!kTurns || round < 2 || round % 2 == 0)) {
            const float first = Peaks::value(low), last = Peaks::value(high);
            const float guess = first + (last - first) * __fdividef(from - goal(), from - to);
            if (first < guess && guess <= last) return min(max(Peaks::word(guess), low + 1), high);
        }
        return high - (high - low) / 2;
    }
    __device__ __forceinline__ void too_few(unsigned word, int count)
    {
        if constexpr (!kTurns) {
            if (all < 0) from = 0.5f * (from + goal());
            all = -fabsf(all);
        }
        high = word - 1, to = lean(count, fabsf(all));
    }
    __device__ __forceinline__ void enough(unsigned word, int count)
    {
        if constexpr (!kTurns) {
            if (all > 0) to = 0.5f * (to + goal());
            all = fabsf(all);
        }
        low = word, from = lean(count, all);
    }
};

}  // namespace fusegen
