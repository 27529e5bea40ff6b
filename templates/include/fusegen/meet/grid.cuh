#pragma once
// How blocks all over the device make one state of theirs.

#include <fusegen/meet/block.cuh>

namespace fusegen {

// Blocks leave their totals in device memory and wait for those of the others. Tickets only grow: no
// launch has to reset them.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ State grid_reduce(
    State mine, State* warp_states, State* partials, unsigned long long* ticket, int blocks, int slice,
    Held... held)
{
    mine = block_reduce<Team>(mine, warp_states, held...);
    if (threadIdx.x == 0) {
        partials[slice] = mine;
        __threadfence();
        const unsigned long long taken = atomicAdd(ticket, 1ull);
        const unsigned long long all = (taken / blocks + 1) * blocks;
        while (*static_cast<volatile unsigned long long*>(ticket) < all) {}
        __threadfence();
    }
    __syncthreads();
    mine = State::identity();
    for (int other = threadIdx.x % 32; other < blocks; other += 32) mine = merge(mine, partials[other], held...);
    return lanes_reduce<32>(mine, held...);
}

}  // namespace fusegen
