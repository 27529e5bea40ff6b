#pragma once
// Copies into shared memory that run beside threads, and the barriers that count them: a function each. The
// PTX ISA's names stand above every group, with the oldest GPU that has it. Shared memory goes by 32-bit
// addresses (shared_address).

#include <fusegen/caches.cuh>

namespace fusegen {

// ---- Shared memory -------------------------------------------------------------------------------------

__device__ __forceinline__ unsigned shared_address(const void* place)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(place));
}

// ---- Copies of a thread: cp.async (Non-bulk copy), sm_80 ----------------------------------------------

// Starts the copy of 16 bytes, or of 16 zeros unless `live`; `from` must be an address in either case.
__device__ __forceinline__ void copy_async_16(unsigned to, const void* from, bool live = true)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 ::"r"(to), "l"(from), "r"(live ? 16 : 0) : "memory");
}

// Starts the copy of the first `bytes` of 16, and of zeros behind them.
__device__ __forceinline__ void copy_async_some(unsigned to, const void* from, int bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// The thread's copies since the last commit become a group, be it an empty one.
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most kGroups of the thread's groups, the youngest, are under way. What other threads
// have copied is there after they have waited, and then met this one.
template <int kGroups>
__device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

// ---- Barriers in shared memory: mbarrier, sm_90 (init and arrive: sm_80) -------------------------------
//
// Eight bytes, at a multiple of eight. A phase completes when all arrivals and all bytes that were expected
// have come; phases are numbered from 0, and barrier_wait takes the parity of a phase's number. Before
// anything has come, the phase of parity 1 counts as complete.

__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// For the thread that has initialised barriers, before it meets those that use them.
__device__ __forceinline__ void barriers_ready()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives as soon as all copies (cp.async) that the thread has started so far have come: cp.async.mbarrier.arrive.
__device__ __forceinline__ void barrier_arrive_copied(unsigned barrier)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and lets the phase expect so many bytes more of copies: before they are asked for.
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity)
{
    asm volatile("{\n.reg .pred done;\nAGAIN:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// ---- Bulk copies: cp.async.bulk, cp.async.bulk.tensor, Tensor-map, sm_90 -------------------------------
//
// One thread asks, a barrier counts the bytes. Of a tensor a box is copied, whose extents the map holds;
// coordinates are elements, the innermost dimension first. What lies outside of the tensor becomes zeros,
// and counts as bytes. In memory a box begins a multiple of 16 bytes behind a row's start: any other is an
// illegal instruction on sm_90. In shared memory boxes begin at multiples of 128 bytes; with the 128-byte
// swizzle the innermost extent is at most 128 bytes, and 16 bytes number i of the row of 128 bytes number r
// lie at i ^ (r % 8), rows counted from a multiple of 1024 bytes.

// What cuTensorMapEncodeTiled makes. A kernel's parameter: `const __grid_constant__ TensorMap map`.
struct __align__(64) TensorMap {
    unsigned char opaque[128];
};

__device__ __forceinline__ void prefetch_map(const TensorMap* map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void copy_tile_2d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, { %3, %4 }], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void copy_tile_3d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, { %3, %4, %5 }], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z) : "memory");
}

__device__ __forceinline__ void copy_tile_3d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z,
                                             unsigned long long policy)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, { %3, %4, %5 }], [%2], %6;"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy) : "memory");
}

__device__ __forceinline__ void copy_tile_4d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z,
                                             int u)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, { %3, %4, %5, %6 }], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(u) : "memory");
}

__device__ __forceinline__ void copy_tile_5d(unsigned to, const TensorMap* map, unsigned barrier, int x, int y, int z,
                                             int u, int v)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, { %3, %4, %5, %6, %7 }], [%2];"
                 ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(u), "r"(v) : "memory");
}

// `bytes` as they lie: a multiple of 16, as both addresses are.
__device__ __forceinline__ void copy_bulk(unsigned to, const void* from, unsigned bytes, unsigned barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// What the thread has written to shared memory by itself or by cp.async can be read by wgmma and by bulk
// copies of whoever meets it from here on: fence.proxy.async.
__device__ __forceinline__ void async_proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace fusegen
