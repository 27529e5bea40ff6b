// The CUDA C++ language on the CPU.  Force-included in front of an unmodified kernel source.
//
// Keywords become attributes or nothing, built-in variables read the running thread's context,
// and built-in functions call the executor (runtime.h).
#pragma once

#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS  // no Bessel functions: half of what follows is there for them

#include <math.h>  // not <cmath>: kernels use isnan and friends unqualified
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <bit>
#include <type_traits>
#include <utility>

#include "runtime.h"

#define __CUDACC__
#define __CUDA_ARCH__ 900
#define __SIMT_CPU__ 1

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
#ifdef __OPTIMIZE__
#define __forceinline__ inline __attribute__((always_inline))
#else
#define __forceinline__ inline  // compiled once, and not wherever it is called
#endif
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// The standard keyword may not stand between `thread_local` and a type; the attribute may.
#define alignas(bytes) __attribute__((aligned(bytes)))

// A block's shared memory is the module's thread-local segment: `thread_local` is the one storage
// class that is legal wherever CUDA allows `__shared__`, with `extern` and inside templates.
#define __shared__ thread_local

#define __builtin_assume(...) \
    ((__VA_ARGS__) ? (void)0 : simt::fail(__LINE__, "__builtin_assume(%s) fails", #__VA_ARGS__))

// References to parts of a static object are constant expressions: reading through them is free.
static constexpr const uint3& threadIdx = simt::context.thread_index;
static constexpr const uint3& blockIdx = simt::context.block_index;
static constexpr const dim3& blockDim = simt::context.block_dim;
static constexpr const dim3& gridDim = simt::context.grid_dim;
static constexpr int warpSize = 32;

SIMT_INLINE void __trap(SIMT_LINE) { simt::fail(line, "__trap()"); }

#include "shim/atomics.h"
#include "shim/clusters.h"
#include "shim/intrinsics.h"
#include "shim/kernel_export.h"
#include "shim/memory.h"
#include "shim/ptx.h"
#include "shim/warp.h"
