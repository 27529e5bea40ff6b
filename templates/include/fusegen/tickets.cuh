#pragma once
// How the blocks of a row learn who is last, or that all of them are there.

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

// Waits until the kBlocks blocks of a team are here. What they wrote before is then there to be read.
template <int kBlocks>
__device__ __forceinline__ void await_blocks(unsigned long long* ticket)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        const unsigned long long all = (atomicAdd(ticket, 1ull) / kBlocks + 1) * kBlocks;
        while (*static_cast<volatile unsigned long long*>(ticket) < all) {}
        __threadfence();
    }
    __syncthreads();
}

}  // namespace fusegen
