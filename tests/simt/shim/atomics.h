// Atomic read-modify-write functions; each returns the old value.
#pragma once

#define SIMT_ATOMIC(name, expression)                                         \
    template <class T>                                                        \
    SIMT_INLINE T name(T* address, std::type_identity_t<T> value, SIMT_LINE) { \
        simt::require_aligned(address, sizeof(T), #name, line);               \
        const simt::AtomicScope scope(address, sizeof(T), line);              \
        const T old = *address;                                               \
        *address = (expression);                                              \
        return old;                                                           \
    }

SIMT_ATOMIC(atomicAdd, old + value)
SIMT_ATOMIC(atomicSub, old - value)
SIMT_ATOMIC(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicMax, value > old ? value : old)
SIMT_ATOMIC(atomicAnd, old & value)
SIMT_ATOMIC(atomicOr, old | value)
SIMT_ATOMIC(atomicXor, old ^ value)
SIMT_ATOMIC(atomicExch, value)
SIMT_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
SIMT_ATOMIC(atomicDec, old == 0 || old > value ? value : T(old - 1))
#undef SIMT_ATOMIC

template <class T>
SIMT_INLINE T atomicCAS(T* address, std::type_identity_t<T> expected,
                        std::type_identity_t<T> desired, SIMT_LINE) {
    simt::require_aligned(address, sizeof(T), "atomicCAS", line);
    const simt::AtomicScope scope(address, sizeof(T), line);
    const T old = *address;
    *address = old == expected ? desired : old;
    return old;
}
