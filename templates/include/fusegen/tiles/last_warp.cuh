#pragma once
// How warps of several blocks that share rows learn which one is last.

namespace fusegen {

// For a warp: counts it as done; true in the last one of so many. What the others wrote before is then there to be
// read. The last one leaves the ticket as it was found, 0.
__device__ __forceinline__ bool last_of_warps(unsigned long long* ticket, long long warps)
{
    bool last = false;
    __threadfence();
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
        last = atomicAdd(ticket, 1ull) == warps - 1;
        if (last) {
            __threadfence();
            *ticket = 0;  // behind the fence, which would wait for it
        }
    }
    last = __shfl_sync(0xffffffffu, last, 0);
    __syncwarp();
    return last;
}

}  // namespace fusegen
