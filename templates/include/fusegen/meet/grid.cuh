#pragma once
// How blocks all over the device make one state of theirs.

#include <fusegen/meet/block.cuh>
#include <fusegen/tickets.cuh>

namespace fusegen {

// What the blocks of a team tell one another, in words of 8 bytes: 4 are the state's, 4 the number of the turn. Who
// finds this turn's number has what is beside it: nothing is counted, and no fence waits. Turns alternate between two
// places, as some may still read of the turn before. Numbers go on from launch to launch; the first finds zeros.
template <typename State>
struct Turns {
    static constexpr int kWords = (sizeof(State) + 3) / 4;
    static constexpr int kPlace = kWords < 8 ? 8 : kWords;  // lines of memory that all look at are apart
    unsigned long long* places;                             // of the team: [2][blocks][kPlace]
    unsigned turn;                                          // the latest

    __device__ __forceinline__ Turns(unsigned long long* told, int blocks, int slice)
        : places(told + static_cast<long long>(blockIdx.x - slice) * 2 * kPlace)
    {
        const unsigned even = look_at(places + slice * kPlace) >> 32;
        const unsigned odd = look_at(places + (blocks + slice) * kPlace) >> 32;
        turn = static_cast<int>(odd - even) > 0 ? odd : even;
    }
    __device__ __forceinline__ void tell(const State& mine, int blocks, int slice)
    {
        ++turn;
        unsigned word[kWords] = {};
        memcpy(word, &mine, sizeof(State));
        unsigned long long* const to = place(slice, blocks);
#pragma unroll
        for (int w = 0; w < kWords; ++w)
            if (threadIdx.x == w) show_at(to + w, static_cast<unsigned long long>(turn) << 32 | word[w]);
    }
    // What another block tells in this turn.
    __device__ __forceinline__ State heard(int other, int blocks) const
    {
        const unsigned long long* const from = place(other, blocks);
        unsigned word[kWords];
        for (bool there = false; !there;) {
            there = true;
#pragma unroll
            for (int w = 0; w < kWords; ++w) {
                const unsigned long long found = look_at(from + w);
                there &= found >> 32 == turn;
                word[w] = static_cast<unsigned>(found);
            }
        }
        State told;
        memcpy(&told, word, sizeof(State));
        return told;
    }

  private:
    __device__ __forceinline__ unsigned long long* place(int slice, int blocks) const
    {
        return places + (turn % 2 * blocks + slice) * kPlace;
    }
};

// Blocks tell the others of their team their totals, and wait for theirs.
template <typename Team, typename State, typename... Held>
__device__ __forceinline__ State grid_reduce(
    State mine, State* warp_states, Turns<State>& turns, int blocks, int slice, Held... held)
{
    turns.tell(block_reduce<Team>(mine, warp_states, held...), blocks, slice);
    mine = State::identity();
    for (int other = threadIdx.x; other < blocks; other += Team::threads())
        mine = merge(mine, turns.heard(other, blocks), held...);
    return block_reduce_again<Team>(mine, warp_states, held...);
}

}  // namespace fusegen
