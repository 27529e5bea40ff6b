#pragma once
// What loads leave in caches.

namespace fusegen {

enum Caching {
    kKept,      // as it comes
    kPastL1,    // nothing in L1, where nobody will want the line; vectors of fewer bytes than 16 have lines in common
    kFirstOut,  // leaves L2 first: of what does not fit there, so that what others wrote need not go to memory first
};

// A policy for what is read once: L2 gives it up first. createpolicy, sm_80.
__device__ __forceinline__ unsigned long long read_once()
{
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// One, two or four words, at a boundary of as many.
template <Caching kCaching, int kWords>
__device__ __forceinline__ void load_words(unsigned* to, const unsigned* __restrict__ from)
{
    if constexpr (kWords == 4 && kCaching == kPastL1) {
        asm("ld.global.nc.L1::no_allocate.v4.u32 { %0, %1, %2, %3 }, [%4];"
            : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
            : "l"(from));
    } else if constexpr (kWords == 4 && kCaching == kFirstOut) {
        asm("ld.global.nc.L2::cache_hint.v4.u32 { %0, %1, %2, %3 }, [%4], %5;"
            : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
            : "l"(from), "l"(read_once()));
    } else if constexpr (kWords == 4) {
        const uint4 four = *reinterpret_cast<const uint4*>(from);
        to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else if constexpr (kWords == 2 && kCaching == kFirstOut) {
        asm("ld.global.nc.L2::cache_hint.v2.u32 { %0, %1 }, [%2], %3;"
            : "=r"(to[0]), "=r"(to[1])
            : "l"(from), "l"(read_once()));
    } else if constexpr (kWords == 2) {
        const uint2 two = *reinterpret_cast<const uint2*>(from);
        to[0] = two.x, to[1] = two.y;
    } else if constexpr (kCaching == kFirstOut) {
        asm("ld.global.nc.L2::cache_hint.u32 %0, [%1], %2;" : "=r"(to[0]) : "l"(from), "l"(read_once()));
    } else {
        to[0] = *from;
    }
}

}  // namespace fusegen
