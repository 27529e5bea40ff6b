#pragma once
// How the blocks of a row learn who is last.

namespace fusegen {

// Counts this block as done with the row; true in the block that is last. What the row's blocks wrote
// before is then there to be read. Tickets only grow: no launch has to reset them.
__device__ __forceinline__ bool last_of_row(unsigned long long* ticket, int blocks)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(ticket, 1ull) % blocks == blocks - 1;
        __threadfence();
    }
    __syncthreads();
    return last;
}

}  // namespace fusegen
