#pragma once
// Packets of several ranks, each a seal and states: what was made of others than one's own is nothing.

namespace fusegen {

// Words of a seal.
constexpr int kSealWords = 4;

// Every word of `states` becomes -1, and `wrong` true, where one of the packets, `apart` words apart, begins with
// another seal. All threads of a grid call it; each block looks at all seals.
__device__ inline void poison_unless_sealed(const long long* packets, const long long* seal, long long* states,
                                            bool* wrong, long long ranks, long long apart, long long words)
{
    bool differs = false;
    for (long long i = threadIdx.x; i < kSealWords * ranks; i += blockDim.x)
        differs |= packets[i / kSealWords * apart + i % kSealWords] != seal[i % kSealWords];
    if (!__syncthreads_or(differs)) return;
    const long long first = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    for (long long i = first; i < words; i += static_cast<long long>(gridDim.x) * blockDim.x) states[i] = -1;
    if (first == 0) *wrong = true;
}

}  // namespace fusegen
