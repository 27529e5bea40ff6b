// Barriers of a block, and the collectives of a warp.
#pragma once

SIMT_INLINE void __syncthreads(SIMT_LINE) { simt::block_barrier(false, line); }
SIMT_INLINE int __syncthreads_count(int predicate, SIMT_LINE) {
    return simt::block_barrier(predicate != 0, line).count;
}
SIMT_INLINE int __syncthreads_and(int predicate, SIMT_LINE) {
    return simt::block_barrier(predicate != 0, line).all;
}
SIMT_INLINE int __syncthreads_or(int predicate, SIMT_LINE) {
    return simt::block_barrier(predicate != 0, line).any;
}

SIMT_INLINE void __syncwarp(unsigned mask = 0xffffffffu, SIMT_LINE) { simt::warp_sync(mask, line); }

// Threads are scheduled independently here, so a thread can promise only its own activity: the
// least that CUDA allows, and what exposes code that expects its neighbours to be active.
SIMT_INLINE unsigned __activemask() { return 1u << simt::lane_id(); }

SIMT_INLINE unsigned __ballot_sync(unsigned mask, int predicate, SIMT_LINE) {
    return simt::warp_ballot(mask, predicate != 0, line);
}
SIMT_INLINE int __any_sync(unsigned mask, int predicate, SIMT_LINE) {
    return simt::warp_ballot(mask, predicate != 0, line) != 0;
}
SIMT_INLINE int __all_sync(unsigned mask, int predicate, SIMT_LINE) {
    return simt::warp_ballot(mask, predicate == 0, line) == 0;
}

namespace simt {

template <class T>
SIMT_INLINE uint64_t to_bits(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "warp values have <= 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    return bits;
}

template <class T>
SIMT_INLINE T from_bits(uint64_t bits) {
    T value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

// The lanes of a warp fall into segments of `width`; a shuffle stays inside one.
SIMT_INLINE int segment_start(int lane, int width) { return lane & ~(width - 1); }

template <class T>
SIMT_INLINE T shuffle(unsigned mask, T value, int source_lane, int line) {
    return from_bits<T>(warp_shuffle(mask, to_bits(value), source_lane, line));
}

}  // namespace simt

template <class T>
SIMT_INLINE unsigned __match_any_sync(unsigned mask, T value, SIMT_LINE) {
    return simt::warp_match(mask, simt::to_bits(value), line);
}

template <class T>
SIMT_INLINE T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_LINE) {
    const int lane = simt::lane_id();
    return simt::shuffle(mask, value, simt::segment_start(lane, width) + (source & (width - 1)),
                         line);
}

template <class T>
SIMT_INLINE T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_LINE) {
    const int lane = simt::lane_id();
    const int source = lane ^ lane_mask;
    // CUDA lets a lane read earlier segments, but not later ones.
    const bool allowed = source < simt::segment_start(lane, width) + width;
    return simt::shuffle(mask, value, allowed ? source : lane, line);
}

template <class T>
SIMT_INLINE T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_LINE) {
    const int lane = simt::lane_id();
    const int source = lane + static_cast<int>(delta);
    const bool allowed = source < simt::segment_start(lane, width) + width;
    return simt::shuffle(mask, value, allowed ? source : lane, line);
}

template <class T>
SIMT_INLINE T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_LINE) {
    const int lane = simt::lane_id();
    const int source = lane - static_cast<int>(delta);
    const bool allowed = source >= simt::segment_start(lane, width);
    return simt::shuffle(mask, value, allowed ? source : lane, line);
}

#define SIMT_WARP_REDUCE(name, type, expression)                                    \
    SIMT_INLINE type name(unsigned mask, type value, SIMT_LINE) {                   \
        const auto combine = [](uint64_t left, uint64_t right) {                    \
            const type a = simt::from_bits<type>(left);                             \
            const type b = simt::from_bits<type>(right);                            \
            return simt::to_bits<type>(expression);                                 \
        };                                                                          \
        return simt::from_bits<type>(                                               \
            simt::warp_reduce(mask, simt::to_bits(value), combine, line));          \
    }

SIMT_WARP_REDUCE(__reduce_add_sync, unsigned, a + b)
SIMT_WARP_REDUCE(__reduce_min_sync, unsigned, a < b ? a : b)
SIMT_WARP_REDUCE(__reduce_max_sync, unsigned, a > b ? a : b)
SIMT_WARP_REDUCE(__reduce_and_sync, unsigned, a & b)
SIMT_WARP_REDUCE(__reduce_or_sync, unsigned, a | b)
SIMT_WARP_REDUCE(__reduce_xor_sync, unsigned, a ^ b)
SIMT_WARP_REDUCE(__reduce_add_sync, int, static_cast<int>(unsigned(a) + unsigned(b)))
SIMT_WARP_REDUCE(__reduce_min_sync, int, a < b ? a : b)
SIMT_WARP_REDUCE(__reduce_max_sync, int, a > b ? a : b)
#undef SIMT_WARP_REDUCE
