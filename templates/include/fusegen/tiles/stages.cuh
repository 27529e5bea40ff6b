#pragma once
// Tiles that pass through shared memory: one thread has them copied, warps read them, each in its turn.

#include <fusegen/tiles/copies.cuh>

namespace fusegen {

// A stage, and the parity of the phase that a turn there waits for. Readers begin with {0, 0}; who fills begins
// with {0, 1}, since all stages are empty.
struct Turn {
    int stage;
    unsigned parity;
};

// The same parity, as compilers cannot know before a number is: what waits for it comes behind what makes the number.
// They move waits for products ahead of all work of the same block of instructions, beside none of which these then
// are under way. No sum is a NaN of these bits.
__device__ __forceinline__ unsigned parity_behind(unsigned parity, float known)
{
    return __float_as_uint(known) == 0x7fc0deadu ? parity ^ 1 : parity;
}

// The barriers of kStages tiles.
template <int kStages>
struct Stages {
    unsigned long long full[kStages];  // all bytes of a tile have come
    unsigned long long empty[kStages];  // all warps that read it are done with it

    // For the thread that fills them, before all meet. So many warps read a tile, and so many fill it.
    __device__ __forceinline__ void begin(int warps, int filling = 1)
    {
        for (int i = 0; i < kStages; ++i) {
            barrier_init(shared_address(full + i), filling);
            barrier_init(shared_address(empty + i), warps);
        }
    }
    static __device__ __forceinline__ void advance(Turn& turn)
    {
        if (++turn.stage < kStages) return;
        turn.stage = 0;
        turn.parity ^= 1;
    }

    // ---- For who fills them -----------------------------------------------------------------------

    __device__ __forceinline__ void await_empty(const Turn& turn)
    {
        barrier_wait(shared_address(empty + turn.stage), turn.parity);
    }
    // The barrier that is to count so many bytes. What was written before comes with them.
    __device__ __forceinline__ unsigned expect(const Turn& turn, unsigned bytes)
    {
        const unsigned counts = shared_address(full + turn.stage);
        barrier_expect(counts, bytes);
        return counts;
    }

    // What a warp has written there is complete, beside what a barrier counts.
    __device__ __forceinline__ void add(const Turn& turn)
    {
        if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(full + turn.stage));
    }

    // What a thread has copied by itself (cp.async) will be; it arrives by itself, and does not wait.
    __device__ __forceinline__ void add_copies(const Turn& turn)
    {
        barrier_arrive_copied(shared_address(full + turn.stage));
    }

    // ---- For warps that read them -----------------------------------------------------------------

    __device__ __forceinline__ void await_full(const Turn& turn)
    {
        barrier_wait(shared_address(full + turn.stage), turn.parity);
    }
    // The stage behind a turn's, once `known`.
    __device__ __forceinline__ void await_next(Turn turn, float known)
    {
        advance(turn);
        turn.parity = parity_behind(turn.parity, known);
        await_full(turn);
    }
    __device__ __forceinline__ void leave(const Turn& turn)
    {
        if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(empty + turn.stage));
    }
};

}  // namespace fusegen
