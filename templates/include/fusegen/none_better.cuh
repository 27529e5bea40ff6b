#pragma once
// Which lanes look for a warp's best value: those that have it.

namespace fusegen {

// Is no value better that a lane of this one's warp and team has? The greatest, or the least, NaN above all.
template <typename Team, bool kLeast, typename Value>
__device__ __forceinline__ bool none_better(Value mine)
{
    constexpr int kLanes = Team::kThreads > 0 && Team::kThreads < 32 ? Team::kThreads : 32;
    Value best = mine;
#pragma unroll
    for (int lane_mask = kLanes / 2; lane_mask >= 1; lane_mask /= 2) {
        if (lane_mask >= Team::threads()) continue;  // of a block that is no whole warp
        const Value other = __shfl_xor_sync(0xffffffffu, best, lane_mask);
        if ((kLeast ? other < best : best < other) || other != other) best = other;
    }
    return !(kLeast ? best < mine : mine < best);
}

}  // namespace fusegen
