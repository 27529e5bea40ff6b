#pragma once
// How lanes of a warp make one state of theirs: by butterflies, after which each of them has the total.
// A state says by its `Exchange` which way is its own; combine, rebase and merge are the program's. `held`
// are numbers of the call that moves depend on, the same for all states.

#include <fusegen/warp.cuh>

namespace fusegen {

// What another lane has of a value; of a struct, of every one of its `Parts`.
template <typename T>
__device__ __forceinline__ T of_lane(T mine, int lane_mask)
{
    if constexpr (__is_class(T))
        return T::Parts::of_lane(mine, lane_mask);
    else
        return __shfl_xor_sync(0xffffffffu, mine, lane_mask);
}

// Some members of a struct.
template <auto... kMembers>
struct Members {
    static constexpr int kCount = sizeof...(kMembers);

    // What this lane has, but these members of another one.
    template <typename S>
    static __device__ __forceinline__ S of_lane(S mine, int lane_mask)
    {
        ((mine.*kMembers = fusegen::of_lane(mine.*kMembers, lane_mask)), ...);
        return mine;
    }
    // What this lane has, and these members of another one added to its own.
    template <typename S>
    static __device__ __forceinline__ S with_lane(S mine, int lane_mask)
    {
        ((mine.*kMembers += fusegen::of_lane(mine.*kMembers, lane_mask)), ...);
        return mine;
    }
};

// Tells apart what depends on pivots of the first level, of the second, …
template <int kNumber>
struct Level {};

// Members that need no pivot are exchanged at once. The sums wait until the pivot of all lanes is known,
// and move once, level by level.
template <typename Known, typename... Sums>
struct AboutPivots {
    template <int kLanes, int kApart, typename State, typename... Held>
    static __device__ __forceinline__ State reduce(const State& mine, Held... held)
    {
        State total = mine;
        if constexpr (Known::kCount > 0) {
#pragma unroll
            for (int lane_mask = kLanes * kApart / 2; lane_mask >= kApart; lane_mask /= 2)
                total = combine(total, Known::of_lane(total, lane_mask));
        }
        if constexpr (sizeof...(Sums) > 0) add_up<1, kLanes, kApart, Sums...>(mine, total, held...);
        return total;
    }

    // Where sums wait until all lanes know the pivots: what needs none, of all lanes.
    template <int kLanes, typename State>
    static __device__ __forceinline__ State known(State total)
    {
        if constexpr (Known::kCount > 0) {
#pragma unroll
            for (int lane_mask = kLanes / 2; lane_mask >= 1; lane_mask /= 2)
                total = combine(total, Known::of_lane(total, lane_mask));
        }
        return total;
    }

    // Then the sums of one level, about the same pivots in every lane.
    template <int kLevel, int kLanes, typename State>
    static __device__ __forceinline__ void sums(State& total)
    {
        all_add_up<kLevel, kLanes, Sums...>(total);
    }

    template <int kLevel, int kLanes, typename These, typename... Later, typename State>
    static __device__ __forceinline__ void all_add_up(State& total)
    {
        if constexpr (kLevel > 1) {
            all_add_up<kLevel - 1, kLanes, Later...>(total);
        } else {
#pragma unroll
            for (int lane_mask = kLanes / 2; lane_mask >= 1; lane_mask /= 2) total = These::with_lane(total, lane_mask);
        }
    }

    template <int kLevel, int kLanes, int kApart, typename These, typename... Later, typename State,
              typename... Held>
    static __device__ __forceinline__ void add_up(const State& mine, State& total, Held... held)
    {
        if constexpr (sizeof...(Sums) == 1)
            total = rebase(mine, total, held...);
        else
            total = rebase(mine, total, Level<kLevel>{}, held...);
#pragma unroll
        for (int lane_mask = kLanes * kApart / 2; lane_mask >= kApart; lane_mask /= 2)
            total = These::with_lane(total, lane_mask);
        if constexpr (sizeof...(Later) > 0) add_up<kLevel + 1, kLanes, kApart, Later...>(mine, total, held...);
    }
};

// Lower lanes stand on the left, and neighbours merge first: a state whose ⊕ may keep the order of a row.
template <auto... kMembers>
struct SideBySide {
    template <int kLanes, int kApart, typename State, typename... Held>
    static __device__ __forceinline__ State reduce(State mine, Held... held)
    {
#pragma unroll
        for (int lane_mask = kApart; lane_mask < kLanes * kApart; lane_mask *= 2) {
            const State other = Members<kMembers...>::of_lane(mine, lane_mask);
            mine = threadIdx.x & lane_mask ? merge(other, mine, held...) : merge(mine, other, held...);
        }
        return mine;
    }
};

// Columns become the least that any of kLanes lanes has of each.
template <int kLanes, typename... T>
__device__ __forceinline__ void lanes_least(T&... mine)
{
    if constexpr (kLanes == 32 && (... && (sizeof(T) == 4))) {
        ((mine = static_cast<T>(least_of_warp(static_cast<unsigned>(mine)))), ...);
        return;
    }
#pragma unroll
    for (int lane_mask = kLanes / 2; lane_mask >= 1; lane_mask /= 2)
        ((mine = min(mine, of_lane(mine, lane_mask))), ...);
}

// The total of kLanes lanes that are kApart apart, in every one of them.
template <int kLanes, int kApart = 1, typename State, typename... Held>
__device__ __forceinline__ State lanes_reduce(const State& mine, Held... held)
{
    return State::Exchange::template reduce<kLanes, kApart>(mine, held...);
}

// The total of the first `there` states, of kMost at most, in every lane of a warp.
template <int kMost, typename State, typename... Held>
__device__ __forceinline__ State states_reduce(const State* states, int there, Held... held)
{
    constexpr int kLanes = kMost > 16 ? 32 : kMost > 8 ? 16 : kMost > 4 ? 8 : kMost > 2 ? 4 : kMost;
    const int mine = threadIdx.x % kLanes;
    return lanes_reduce<kLanes>(mine < there ? states[mine] : State::identity(), held...);
}

}  // namespace fusegen
