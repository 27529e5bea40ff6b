#pragma once
// How the blocks of a row learn who is last, or that all of them are there.

namespace fusegen {

// A word of device memory that other blocks write, and one that they look at meanwhile.
__device__ __forceinline__ unsigned long long look_at(const unsigned long long* place)
{
    unsigned long long found;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(found) : "l"(place) : "memory");
    return found;
}
__device__ __forceinline__ void show_at(unsigned long long* place, unsigned long long word)
{
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(place), "l"(word) : "memory");
}

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

// Waits until the kBlocks blocks of a team are here. What they wrote before is then there to be read. Each says so at a
// place of its own, kApart words from the next, by the number of the turn: who looks at one place does not hold up
// those that write to others. Numbers only grow.
[[maybe_unused]] constexpr int kApart = 8;
template <int kBlocks>
__device__ __forceinline__ void await_blocks(unsigned long long* here, int slice)
{
    const unsigned long long turn = look_at(here + slice * kApart) + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        show_at(here + slice * kApart, turn);
    }
    for (int other = threadIdx.x; other < kBlocks; other += blockDim.x) {
        while (look_at(here + other * kApart) < turn) {}
        __threadfence();
    }
    __syncthreads();
}

}  // namespace fusegen
