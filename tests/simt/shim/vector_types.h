// CUDA's built-in vector types with their alignments, dim3, and the make_* functions.
#pragma once

// Types of three elements have the alignment of one element, and nothing is aligned beyond 16.
#define SIMT_VECTOR_TYPE(scalar, name)                                                            \
    struct name##1 {                                                                              \
        scalar x;                                                                                 \
    };                                                                                            \
    struct __attribute__((aligned(2 * sizeof(scalar)))) name##2 {                                 \
        scalar x, y;                                                                              \
    };                                                                                            \
    struct name##3 {                                                                              \
        scalar x, y, z;                                                                           \
    };                                                                                            \
    struct __attribute__((aligned(sizeof(scalar) < 8 ? 4 * sizeof(scalar) : 16))) name##4 {       \
        scalar x, y, z, w;                                                                        \
    };                                                                                            \
    static inline name##1 make_##name##1(scalar x) { return {x}; }                                \
    static inline name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                   \
    static inline name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }      \
    static inline name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) {                \
        return {x, y, z, w};                                                                      \
    }

SIMT_VECTOR_TYPE(signed char, char)
SIMT_VECTOR_TYPE(unsigned char, uchar)
SIMT_VECTOR_TYPE(short, short)
SIMT_VECTOR_TYPE(unsigned short, ushort)
SIMT_VECTOR_TYPE(int, int)
SIMT_VECTOR_TYPE(unsigned, uint)
SIMT_VECTOR_TYPE(long, long)
SIMT_VECTOR_TYPE(unsigned long, ulong)
SIMT_VECTOR_TYPE(long long, longlong)
SIMT_VECTOR_TYPE(unsigned long long, ulonglong)
SIMT_VECTOR_TYPE(float, float)
SIMT_VECTOR_TYPE(double, double)
#undef SIMT_VECTOR_TYPE

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};
