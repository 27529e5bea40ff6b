"""The executor runs correct CUDA kernels correctly."""

from __future__ import annotations

import numpy as np
import pytest

from simt import available, compile_module
from simt.testing import (
    BITONIC_SORT,
    CLUSTER_SUM,
    SEEDS,
    Array,
    aligned_floats,
    iota,
    kernel,
    nans,
    run,
)

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("check", [True, False])
def test_grid_stride_copy(seed: int, check: bool) -> None:
    body = """
    long long start = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    for (long long i = start; i < n; i += (long long)gridDim.x * blockDim.x) y[i] = x[i];"""
    source = kernel(body, "const float* __restrict__ x, float* __restrict__ y, long long n")
    x, y = iota(1000), nans(1000)
    module = compile_module(source, check=check)
    module.launch("k", (3,), (96,), [x, y, 1000], outputs={1}, seed=seed)
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_block_sum(seed: int, threads: int) -> None:
    prelude = """
template <class T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}
template <class T> __device__ T block_sum(T v) {
    __shared__ T partial[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    v = warp_sum(v);
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    v = warp_sum(lane < (int)blockDim.x / 32 ? partial[lane] : T(0));
    __syncthreads();
    return v;
}"""
    body = """
    float sum = 0.f;
    for (int i = threadIdx.x; i < 5000; i += blockDim.x) sum += x[i];
    sum = block_sum<float>(sum);
    const int count = block_sum<int>(1);
    if (threadIdx.x == 0) { y[0] = sum; y[1] = count; }"""
    y = run(body, threads=threads, n=5000, prelude=prelude, seed=seed)
    assert y[0] == iota(5000).sum()
    assert y[1] == threads


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [5, 64, 131])
def test_vector_loads_with_head_and_tail(offset: int, count: int) -> None:
    body = """
    const int head = min(n, (int)(((16 - (uintptr_t)x % 16) % 16) / 4));
    const int vectors = (n - head) / 4;
    for (int i = threadIdx.x; i < head; i += blockDim.x) y[i] = -x[i];
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
        const float4 q = __ldcs((const float4*)(x + head) + i);
        const float4 negative = make_float4(-q.x, -q.y, -q.z, -q.w);
        float* to = y + head + 4 * i;
        to[0] = negative.x; to[1] = negative.y; to[2] = negative.z; to[3] = negative.w;
    }
    for (int i = head + 4 * vectors + threadIdx.x; i < n; i += blockDim.x) y[i] = -x[i];"""
    x = aligned_floats(offset + count)[offset:]
    x[:] = iota(count)
    y = nans(count)
    module = compile_module(kernel(body, "const float* x, float* y, int n"))
    module.launch("k", (1,), (32,), [x, y, count], outputs={1})
    np.testing.assert_array_equal(y, -x)


def test_an_array_keeps_its_address_modulo_16() -> None:
    module = compile_module(kernel("*y = (uintptr_t)x % 16;", "const void* x, int* y"))
    base = aligned_floats(8).view(np.uint8)
    for offset in range(16):
        seen = np.zeros(1, dtype=np.int32)
        module.launch("k", (1,), (1,), [base[offset : offset + 5], seen], outputs={1})
        assert seen[0] == offset


def special_floats() -> Array:
    """Return floats that meet every branch of a rounding: ties, subnormals, infinities, NaN."""
    rng = np.random.default_rng(0)
    random = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    ties = (halves[:-1].view(np.uint32) + 0x1000).view(np.float32)
    named = np.array([0, -0.0, np.inf, -np.inf, np.nan, 65504, 65519.9, 65520, 2**-25, 1e-8, 3e38])
    return np.concatenate([random, halves, ties, named.astype(np.float32)])


CONVERT = """
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        narrow[i] = __TO(x[i]);
        wide[i] = __FROM(narrow[i]);
    }"""


def convert(header: str, type_name: str, to: str, back: str) -> tuple[Array, Array, Array]:
    body = CONVERT.replace("__TO", to).replace("__FROM", back)
    parameters = f"const float* x, {type_name}* narrow, float* wide, int n"
    module = compile_module(kernel(body, parameters, prelude=f"#include <{header}>"), check=False)
    x = special_floats()
    narrow, wide = np.zeros(x.size, dtype=np.uint16), nans(x.size)
    module.launch("k", (4,), (64,), [x, narrow, wide, x.size], outputs={1, 2}, initialised={1})
    return x, narrow, wide


def test_half_conversions_round_to_nearest_even() -> None:
    x, narrow, wide = convert("cuda_fp16.h", "__half", "__float2half", "__half2float")
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(narrow.view(np.float16), expected)  # NaN equals NaN here
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


def test_bfloat16_conversions_round_to_nearest_even() -> None:
    x, narrow, wide = convert(
        "cuda_bf16.h", "__nv_bfloat16", "__float2bfloat16", "__bfloat162float"
    )
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    is_nan = np.isnan(x)
    np.testing.assert_array_equal(narrow[~is_nan], rounded[~is_nan])
    assert (narrow[is_nan] == 0x7FFF).all()
    np.testing.assert_array_equal(wide.view(np.uint32), narrow.astype(np.uint32) << 16)


def test_half_arithmetic_rounds_each_operation() -> None:
    body = """
    const __half2 pair = *(const __half2*)x;
    y[0] = pair.x + pair.y; y[1] = __hmul(pair.x, pair.y); y[2] = pair.x < pair.y ? 1.f : 0.f;
    y[3] = __low2float(__hadd2(pair, __floats2half2_rn(1.f, 2.f)));"""
    source = kernel(body, "const __half* x, __half* y", prelude="#include <cuda_fp16.h>")
    x, y = np.array([2049, 0.1], dtype=np.float16), np.zeros(4, dtype=np.float16)
    compile_module(source).launch("k", (1,), (1,), [x, y], outputs={1})
    assert y.tolist() == [x[0] + x[1], x[0] * x[1], 0, x[0] + np.float16(1)]


@pytest.mark.parametrize("seed", SEEDS)
def test_bitonic_sort_in_dynamic_shared_memory(seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((3, 256)).astype(np.float32)
    y = nans(3, 256)
    module = compile_module(BITONIC_SORT)
    module.launch("k", (3,), (256,), [x, y], outputs={1}, shared_bytes=1024, seed=seed)
    np.testing.assert_array_equal(y, np.sort(x, axis=1))


@pytest.mark.parametrize("seed", SEEDS)
def test_atomics(seed: int) -> None:
    body = """
    __shared__ unsigned count, highest, ticket;
    if (threadIdx.x == 0) count = highest = ticket = 0;
    __syncthreads();
    atomicAdd(&count, 1u);
    atomicMax(&highest, threadIdx.x);
    atomicInc(&ticket, 9u);
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(&sums[0], (float)count);
        atomicMin(&words[0], (int)blockIdx.x);
        atomicOr(&words[1], 1 << blockIdx.x);
        atomicExch(&words[2], (int)ticket);
        int old = words[3], seen;
        do {
            seen = old;
            old = atomicCAS(&words[3], seen, seen + (int)highest);
        } while (old != seen);
    }"""
    sums = np.zeros(1, dtype=np.float32)
    words = np.array([99, 0, 0, 0], dtype=np.int32)
    module = compile_module(kernel(body, "float* sums, int* words"))
    both = {0, 1}
    module.launch("k", (4,), (96,), [sums, words], outputs=both, initialised=both, seed=seed)
    assert sums[0] == 4 * 96
    assert words.tolist() == [0, 0b1111, 96 % 10, 4 * 95]


def test_three_dimensional_indices() -> None:
    body = """
    const dim3 g = gridDim, b = blockDim;
    const unsigned block = blockIdx.x + g.x * (blockIdx.y + g.y * blockIdx.z);
    const unsigned thread = threadIdx.x + b.x * (threadIdx.y + b.y * threadIdx.z);
    unsigned* place = y + 6 * (block * (b.x * b.y * b.z) + thread);
    place[0] = blockIdx.z; place[1] = blockIdx.y; place[2] = blockIdx.x;
    place[3] = threadIdx.z; place[4] = threadIdx.y; place[5] = threadIdx.x;"""
    y = np.zeros((2, 3, 4, 5, 3, 2, 6), dtype=np.uint32)
    module = compile_module(kernel(body, "unsigned* y"))
    module.launch("k", (4, 3, 2), (2, 3, 5), [y], outputs={0}, seed=1)
    np.testing.assert_array_equal(y, np.moveaxis(np.indices(y.shape[:6]), 0, -1))


@pytest.mark.parametrize("seed", SEEDS)
def test_cluster(seed: int) -> None:
    y = nans(3)
    module = compile_module(CLUSTER_SUM)
    module.launch("k", (12,), (64,), [iota(12), y], outputs={1}, cluster=4, seed=seed)
    np.testing.assert_array_equal(y, 11 * iota(12).reshape(3, 4).sum(axis=1))


def test_warp_functions() -> None:
    body = """
    const unsigned full = 0xffffffffu, lane = threadIdx.x;
    const int i = lane;
    bool good = __shfl_sync(full, i, 5) == 5 && __shfl_sync(full, i, 1, 8) == i / 8 * 8 + 1;
    good &= __shfl_up_sync(full, i, 3) == (i >= 3 ? i - 3 : i);
    good &= __shfl_down_sync(full, 1.5 * i, 3, 16) == 1.5 * (i % 16 < 13 ? i + 3 : i);
    good &= __shfl_xor_sync(full, (long long)i << 40, 9) == (long long)(i ^ 9) << 40;
    good &= __ballot_sync(full, i & 1) == 0xaaaaaaaau;
    good &= __any_sync(full, i == 7) && !__all_sync(full, i == 7) && __all_sync(full, i < 32);
    good &= __match_any_sync(full, i % 4) == 0x11111111u << i % 4;
    good &= __reduce_add_sync(full, i) == 496 && __reduce_max_sync(full, -i) == 0;
    good &= __reduce_min_sync(full, lane) == 0u && __reduce_or_sync(full, lane) == 31u;
    if (i < 16) good &= __reduce_add_sync(0xffffu, 1) == 16; else __syncwarp(0xffff0000u);
    good &= __syncthreads_count(i < 5) == 5 && __syncthreads_or(i == 3) && !__syncthreads_and(i);
    y[i] = good;"""
    assert run(body, threads=32, n=32).all()


@pytest.mark.parametrize("threads", [1, 40, 63])
def test_full_mask_in_a_partial_warp(threads: int) -> None:
    body = "y[threadIdx.x] = __popc(__ballot_sync(0xffffffffu, 1)) + __reduce_add_sync(~0u, 1);"
    y = run(body, threads=threads, n=threads, seed=1)
    warp_sizes = np.full(threads, 32)
    warp_sizes[threads // 32 * 32 :] = threads % 32
    np.testing.assert_array_equal(y, 2 * warp_sizes)


def test_ways_to_declare_shared_memory() -> None:
    prelude = """
struct Pair { float value; int index; };
namespace detail {
__device__ float* dynamic() {
    extern __shared__ __align__(16) unsigned char bytes[];
    return reinterpret_cast<float*>(bytes);
}
}"""
    body = """
    extern __shared__ float4 vectors[];
    __shared__ Pair pairs[32];
    __shared__ alignas(16) float2 aligned[32];
    static __shared__ double numbers[2][16];
    const int t = threadIdx.x;
    vectors[t] = make_float4(t, t, t, t);
    pairs[t] = {x[t], t};
    aligned[t] = make_float2(t, t);
    numbers[t / 16][t % 16] = t;
    __syncthreads();
    const int o = 31 - t;
    y[t] = detail::dynamic()[4 * o] + pairs[o].value + pairs[o].index + aligned[o].y
         + numbers[o / 16][o % 16];"""
    y = run(body, threads=32, n=32, prelude=prelude, shared_bytes=512)
    np.testing.assert_array_equal(y, 5 * iota(32)[::-1])


def test_intrinsics() -> None:
    body = """
    int i = 0;
    y[i++] = __popc(0xf0u) == 4 && __popcll(1ull << 40) == 1 && __ffs(8) == 4 && __ffsll(0) == 0;
    y[i++] = __clz(1) == 31 && __clz(0) == 32 && __clzll(1) == 63 && __brev(1u) == 0x80000000u;
    y[i++] = __float_as_int(1.f) == 0x3f800000 && __uint_as_float(0xbf800000u) == -1.f;
    y[i++] = __double_as_longlong(__longlong_as_double(12345)) == 12345;
    y[i++] = min(3, 4ll) == 3 && max(2.5f, 1) == 2.5f && max(NAN, 1.f) == 1.f;
    y[i++] = isnan(NAN) && isinf(-INFINITY) && !isfinite(INFINITY);
    y[i++] = __fdividef(1.f, 4.f) == __frcp_rn(4.f) && __expf(0.f) == 1.f && __logf(1.f) == 0.f;
    y[i++] = __fmaf_rn(2.f, 3.f, __fadd_rn(1.f, __fsub_rn(2.f, __fmul_rn(1.f, 1.f)))) == 8.f;
    y[i++] = rsqrtf(4.f) == 0.5f && rsqrt(16.0) == 0.25 && exp2f(3.f) == 8.f && log2f(8.f) == 3.f;
    y[i++] = __float2int_rn(2.5f) == 2 && __float2int_rz(-1e20f) == INT_MIN;
    y[i++] = sizeof(float3) == 12 && alignof(double2) == 16 && alignof(uchar4) == 4;
    y[i++] = table[1] == 2.f && sizeof(Pair) == 16 && warpSize == 32 && __activemask() == 1u;
    __builtin_assume(i == 12);"""
    prelude = (
        "#include <limits.h>\n#include <cuda_runtime.h>\nstruct __align__(16) Pair { float a, b; };"
        "\n__constant__ float table[2] = {1.f, 2.f};"
    )
    assert run(body, threads=1, n=12, prelude=prelude).all()
