"""Asynchronous copies: what is copied when, and what is reported when nobody waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import SimtError, available, compile_module
from simt.testing import SEEDS, aligned_floats, iota, kernel, nans, tensor_text

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

PRELUDE = """
__device__ __forceinline__ void copy16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ __forceinline__ void wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}"""

# Three tiles in flight, each read by another thread than the one that copies it.
PIPELINE = """
    extern __shared__ __align__(16) unsigned char bytes[];
    float4* stage = reinterpret_cast<float4*>(bytes);
    const float4* from = reinterpret_cast<const float4*>(x);
    const int t = threadIdx.x, size = blockDim.x;
    for (int tile = 0; tile < 2; ++tile) {
        if (tile < tiles) copy16(stage + tile * size + t, from + tile * size + t);
        commit();
    }
    float sum = 0.f;
    for (int tile = 0; tile < tiles; ++tile) {
        const int next = tile + 2;
        if (next < tiles) copy16(stage + next % 3 * size + t, from + next * size + t);
        commit();
        wait<2>();
        __syncthreads();  // landed
        const float4 v = stage[tile % 3 * size + (t ^ 33)];
        sum += v.x + v.y + v.z + v.w;
        __syncthreads();  // read
    }
    wait<0>();
    y[t ^ 33] = sum;"""
PARAMETERS = "const float* x, float* y, int tiles"


def launch(body: str, tiles: int, seed: int, check: bool = True) -> tuple[Any, Any]:
    x, y = aligned_floats(tiles * 256), nans(64)
    x[:] = iota(x.size)
    module = compile_module(kernel(body, PARAMETERS, PRELUDE), check=check)
    shared_bytes = 3 * 64 * 16
    module.launch(
        "k", (1,), (64,), [x, y, tiles], outputs={1}, shared_bytes=shared_bytes, seed=seed
    )
    return x, y


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_pipeline(tiles: int, seed: int, check: bool) -> None:
    x, y = launch(PIPELINE, tiles, seed, check)
    np.testing.assert_array_equal(y, x.reshape(tiles, 64, 4).sum(axis=(0, 2)))


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("wait<2>();", "", "copies asynchronously since line 3"),
        ("wait<2>();", "wait<3>();", "copies asynchronously since line 3"),
        ("        commit();\n        wait", "        wait", "copies asynchronously since line 3"),
        ("__syncthreads();  // landed", "", "copies async|shared-memory race|uninitialised shared"),
        ("__syncthreads();  // read", "", "copies asynchronously|shared-memory race"),
        ("wait<2>();\n", "", "copies asynchronously|without waiting"),
    ],
)
def test_mutants_of_the_pipeline(old: str, new: str, pattern: str) -> None:
    assert old in PIPELINE
    for seed in SEEDS:
        with pytest.raises(SimtError, match=pattern):
            launch(PIPELINE.replace(old, new), 7, seed)


# Half a block copies, and has a barrier count its copies; the other half reads them.
COUNTED = """
    __shared__ __align__(16) float s[128];
    __shared__ __align__(8) unsigned long long bar;
    const int t = threadIdx.x;
    if (t == 0) barrier_init(shared_address(&bar), 32);
    __syncthreads();
    if (t < 32) {
        copy_async_some(shared_address(s + 4 * t), x + 4 * t, 12);
        barrier_arrive_copied(shared_address(&bar));
    } else {
        barrier_wait(shared_address(&bar), 0);
        y[t] = s[4 * (t % 32) + 2] + s[4 * (t % 32) + 3];
    }"""


def counted(old: str, new: str, seed: int) -> Any:
    assert old in COUNTED
    x, y = aligned_floats(128), nans(64)
    x[:] = iota(128)
    module = compile_module(tensor_text(kernel(COUNTED.replace(old, new))))
    module.launch("k", (1,), (64,), [x, y], outputs={1}, seed=seed)
    return y[32:]


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_that_a_barrier_counts(seed: int) -> None:
    np.testing.assert_array_equal(counted("", "", seed), 4 * np.arange(32) + 2)


@pytest.mark.parametrize(("old", "new", "pattern"), [
    ("barrier_wait(shared_address(&bar), 0);", "", "race|copies asynchronously|uninitialised"),
    ("barrier_arrive_copied", "barrier_arrive", "copies asynchronously|without waiting"),
    ("(&bar), 32)", "(&bar), 31)", "more arrivals|race"),
    ("(&bar), 32)", "(&bar), 33)", "wait"),
])
def test_mutants_of_counted_copies(old: str, new: str, pattern: str) -> None:
    for seed in SEEDS:
        with pytest.raises(SimtError, match=pattern):
            counted(old, new, seed)


def single(statements: str) -> Any:
    body = f"""
    __shared__ __align__(16) float s[68];
    {statements}"""
    x, y = aligned_floats(64), nans(32)
    x[:] = iota(64)
    module = compile_module(kernel(body, prelude=PRELUDE))
    module.launch("k", (1,), (32,), [x, y], outputs={1})
    return y


def test_wait_all_and_narrow_copies() -> None:
    y = single("""
    const unsigned to = (unsigned)__cvta_generic_to_shared(s + 2 * threadIdx.x);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(to), "l"(x + 2 * threadIdx.x));
    if (threadIdx.x == 0)
        asm volatile("cp.async.ca.shared.global.L2::128B [%0+256],[%1],4;" :: "r"(to), "l"(x + 5));
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    y[threadIdx.x] = s[63 - threadIdx.x] + (threadIdx.x == 0 ? s[64] : 0);""")
    expected = iota(64)[::-1][:32].copy()
    expected[0] += 5
    np.testing.assert_array_equal(y, expected)


def test_bytes_that_are_not_read_become_zero() -> None:
    y = single("""
    if (threadIdx.x == 0) {
        const unsigned to = (unsigned)__cvta_generic_to_shared(s);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(to), "l"(x + 60), "r"(8));
        asm volatile("cp.async.wait_all;");
    }
    __syncwarp();
    y[threadIdx.x] = s[threadIdx.x % 4];""")
    np.testing.assert_array_equal(y, np.tile([60, 61, 0, 0], 8))


@pytest.mark.parametrize(
    ("statements", "pattern"),
    [
        ("copy16(s, x + 64);", "out-of-bounds global read: 16 bytes"),
        ("copy16(s, x + 2);", "misaligned access: cp.async"),
        ("copy16(s + 1, x);", "misaligned access: cp.async"),
        ("copy16(s, y);", "read of uninitialised output"),
        ("copy16(s, x); copy16(s, x);", "write of static shared memory, byte 0, into which"),
        ("copy16(s, x); s[3] = 0.f;", "write of static shared memory, byte 12, into which"),
        ("copy16(s, x); y[0] = s[0];", "read of static shared memory, byte 0, into which"),
        ("copy16(s, x);", "exits without waiting for its asynchronous copy"),
        ("copy16(s, x); wait<0>(); y[0] = s[0];", "copies asynchronously"),  # not committed
    ],
)
def test_misuse(statements: str, pattern: str) -> None:
    with pytest.raises(SimtError, match=pattern) as caught:
        single(f"if (threadIdx.x == 0) {{ {statements} }}")
    assert caught.value.thread == (0, 0, 0)


@pytest.mark.parametrize(("cache", "size"), [("cg", 8), ("ca", 2), ("ca", 32)])
def test_a_size_that_does_not_exist(cache: str, size: int) -> None:
    to = '"r"((unsigned)__cvta_generic_to_shared(s))'
    copy = f"cp.async.{cache}.shared.global [%0], [%1], %2;"
    with pytest.raises(SimtError, match=rf"line 13: cp.async.{cache} cannot copy {size} bytes"):
        single(f'asm volatile("{copy}" :: {to}, "l"(x), "n"({size}));')


def test_a_copy_under_a_predicate() -> None:
    y = single("""
    asm volatile("{.reg .pred p; setp.lt.u32 p, %0, 16;\\n"
                 "@p cp.async.cg.shared.global.L2::128B [%1], [%2], %3; }"
                 :: "r"(threadIdx.x),
                    "r"((unsigned)__cvta_generic_to_shared(s + 4 * (threadIdx.x % 16))),
                    "l"(x + 4 * (threadIdx.x % 16)), "n"(16));
    commit(); wait<0>();
    __syncwarp();
    y[threadIdx.x] = s[2 * threadIdx.x];""")
    np.testing.assert_array_equal(y, 2 * iota(32))
