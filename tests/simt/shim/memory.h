// Loads and stores with a cache hint, which must be naturally aligned, and memory fences.
#pragma once

#define SIMT_CACHED_LOAD(name)                                      \
    template <class T>                                              \
    SIMT_INLINE T name(const T* pointer, SIMT_LINE) {               \
        simt::require_aligned(pointer, alignof(T), #name, line);    \
        return *pointer;                                            \
    }

SIMT_CACHED_LOAD(__ldg)
SIMT_CACHED_LOAD(__ldca)
SIMT_CACHED_LOAD(__ldcg)
SIMT_CACHED_LOAD(__ldcs)
SIMT_CACHED_LOAD(__ldlu)
SIMT_CACHED_LOAD(__ldcv)
#undef SIMT_CACHED_LOAD

#define SIMT_CACHED_STORE(name)                                                 \
    template <class T>                                                          \
    SIMT_INLINE void name(T* pointer, std::type_identity_t<T> value, SIMT_LINE) { \
        simt::require_aligned(pointer, alignof(T), #name, line);                \
        *pointer = value;                                                       \
    }

SIMT_CACHED_STORE(__stwb)
SIMT_CACHED_STORE(__stwt)
SIMT_CACHED_STORE(__stcg)
SIMT_CACHED_STORE(__stcs)
#undef SIMT_CACHED_STORE

SIMT_INLINE size_t __cvta_generic_to_shared(const void* pointer, SIMT_LINE) {
    return simt::shared_address(pointer, line);
}

SIMT_INLINE void* __cvta_shared_to_generic(size_t address, SIMT_LINE) {
    return simt::shared_pointer(address, line);
}

SIMT_INLINE void __nanosleep(unsigned, SIMT_LINE) { simt::yield(line); }

// All threads run on one CPU thread, in program order; fences only count for what threads know.
SIMT_INLINE void __threadfence() { simt::fence(); }
SIMT_INLINE void __threadfence_block() {}
SIMT_INLINE void __threadfence_system() { simt::fence(); }
