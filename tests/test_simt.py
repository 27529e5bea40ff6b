"""The executor reports each kind of bug in a kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simt import SimtError, available, compile_module
from simt.testing import (
    BITONIC_SORT,
    CLUSTER_SUM,
    SEEDS,
    aligned_floats,
    iota,
    kernel,
    nans,
    run,
)

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))


def failure(body: str, pattern: str, **options: Any) -> SimtError:
    """Run a kernel that must be caught with the same kind of message whatever the seed."""
    for seed in SEEDS:
        with pytest.raises(SimtError, match=pattern) as caught:
            run(body, seed=seed, **options)
    return caught.value


# ---- Barriers and collectives --------------------------------------------------------------------


def test_barrier_that_some_threads_skip() -> None:
    error = failure("if (threadIdx.x < 32) __syncthreads();", "divergent barrier: .*exit")
    assert error.line == 3
    assert error.block == (0, 0, 0)
    assert error.thread is not None


def test_barriers_on_different_lines() -> None:
    body = "if (threadIdx.x & 1) __syncthreads();\nelse __syncthreads();"
    failure(body, "divergent barrier: .*wait at the __syncthreads of line")


def test_shuffle_that_part_of_the_warp_skips() -> None:
    body = "if (threadIdx.x % 32 < 9) y[threadIdx.x] = __shfl_sync(0xffffffffu, 1.f, 0);"
    assert failure(body, "divergent warp collective: .*exit").line == 3


def test_different_collectives_of_one_warp() -> None:
    body = "if (threadIdx.x & 1) __syncwarp();\nelse __ballot_sync(0xffffffffu, 1);"
    failure(body, "divergent warp collective: lane .* calls .*, but lanes .* wait in")


def test_deadlock_between_a_barrier_and_a_shuffle() -> None:
    body = "if (threadIdx.x & 1) __syncthreads();\nelse __syncwarp();\n__syncthreads();"
    error = failure(body, "deadlock: 32 threads wait at __syncthreads, 32 in warp collectives")
    assert error.line == 4


@pytest.mark.long
def test_threads_that_meet_for_ever() -> None:
    """As where a loop waits for more keys than there are."""
    code = ("import test_simt, pytest\n"
            "with pytest.raises(test_simt.SimtError, match='endless'):\n"
            "    test_simt.run('for (int n = 0; n < 9; n = 0) __syncthreads();', threads=64)")
    soon = {**os.environ, "SIMT_SECONDS": "0.1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, env=soon,
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_loop_that_waits_for_another_thread() -> None:
    body = """
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncwarp();
    if (threadIdx.x == 0) while (flag == 0) {}"""
    with pytest.raises(SimtError, match="livelock"):
        run(body, threads=32)


def test_lane_that_calls_with_a_mask_without_itself() -> None:
    failure("__syncwarp(0x0000ffffu);", "divergent warp collective: lane .* outside its mask")


def test_shuffle_from_a_lane_outside_the_mask() -> None:
    body = "if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.f, 16);"
    failure(body, "lane outside mask: lane .* shuffles from lane .*, the mask is 0000ffff")


def test_missing_cluster_barrier() -> None:
    source = CLUSTER_SUM.replace("cluster.sync();  // 1", "")
    for seed in SEEDS:
        with pytest.raises(SimtError, match=r"uninitialised shared memory|shared-memory race"):
            compile_module(source).launch(
                "k", (12,), (64,), [iota(12), nans(3)], outputs={1}, cluster=4, seed=seed
            )


# ---- Memory --------------------------------------------------------------------------------------


def test_global_read_out_of_bounds() -> None:
    error = failure("y[threadIdx.x] = x[threadIdx.x + 1];", "out-of-bounds global read: 4 bytes")
    assert error.thread == (63, 0, 0)
    assert error.line == 3
    assert "3 | y[threadIdx.x] = x[threadIdx.x + 1];" in str(error)


def test_global_write_out_of_bounds() -> None:
    error = failure("y[(int)threadIdx.x - 1] = 0.f;", "global write: .*offset -4 of argument 1")
    assert error.thread == (0, 0, 0)


def test_line_of_an_access_inside_a_shim_function() -> None:
    error = failure("const int i = threadIdx.x;\ny[i] = __ldg(x + i + 1);", "global read")
    assert error.line == 4


def test_wild_and_null_pointers() -> None:
    failure("y[threadIdx.x] = x[1 << 28];", "belongs to no buffer")
    failure("const float* p = nullptr;\ny[0] = *p;", "belongs to no buffer|null pointer")


def test_write_to_read_only_input() -> None:
    failure("const_cast<float*>(x)[threadIdx.x] = 0.f;", "write to read-only input: argument 0")


def test_read_of_uninitialised_output() -> None:
    failure("y[threadIdx.x] += 1.f;", "read of uninitialised output: argument 1")


def test_read_of_uninitialised_shared_memory() -> None:
    body = """
    __shared__ float s[64];
    if (threadIdx.x != 7) s[threadIdx.x] = 1.f;
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];"""
    error = failure(body, "read of uninitialised shared memory: static .* byte 28")
    assert error.thread == (7, 0, 0)


def test_shared_memory_of_an_earlier_block_is_not_initialised() -> None:
    body = """
    __shared__ float s;
    if (blockIdx.x == 0) s = 1.f;
    y[blockIdx.x] = s;"""
    module = compile_module(kernel(body))
    with pytest.raises(SimtError, match="uninitialised shared memory"):
        module.launch("k", (2,), (1,), [iota(2), nans(2)], outputs={1})


@pytest.mark.parametrize("missing", [1, 2])
def test_race_without_a_block_barrier(missing: int) -> None:
    body = """
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();  // 1
    float v = s[63 - threadIdx.x];
    __syncthreads();  // 2
    s[threadIdx.x] = v;
    y[threadIdx.x] = s[threadIdx.x];"""
    np.testing.assert_array_equal(run(body), iota(64)[::-1])
    broken = body.replace(f"__syncthreads();  // {missing}", "")
    kinds = {1: "shared-memory race|uninitialised shared", 2: "shared-memory race"}
    failure(broken, kinds[missing])


def test_race_without_a_warp_barrier() -> None:
    body = """
    __shared__ float s[64];
    s[threadIdx.x] = 0.f;
    __syncwarp();
    const float v = s[threadIdx.x ^ 1];
    __syncwarp();  // orders the read before the neighbour's write
    s[threadIdx.x] = v + 1.f;
    y[threadIdx.x] = s[threadIdx.x];"""
    assert (run(body) == 1).all()
    without = body.replace("__syncwarp();  // orders", "// orders")
    failure(without, "shared-memory race")


def test_write_after_read_race_between_warps() -> None:
    body = """
    __shared__ float s;
    if (threadIdx.x == 0) s = 1.f;
    __syncthreads();
    if (threadIdx.x < 63) y[threadIdx.x] = s;
    __syncwarp();
    if (threadIdx.x == 63) s = 2.f;
    __syncthreads();
    y[63] = s;"""
    failure(body, "race: write .* after the read by thread|race: read .* after the write by thread")


def test_collective_orders_only_the_lanes_of_its_mask() -> None:
    body = """
    __shared__ float s;
    const unsigned pair = 3u << (threadIdx.x & 30);
    if (threadIdx.x == 0) s = 1.f;
    __syncwarp(pair);
    if (threadIdx.x == READER) y[0] = s;"""
    assert run(body.replace("READER", "1"), threads=32)[0] == 1
    failure(body.replace("READER", "2"), "shared-memory race|uninitialised shared", threads=32)


def test_two_threads_write_one_place() -> None:
    body = "__shared__ int s;\ns = threadIdx.x;\n__syncthreads();\ny[threadIdx.x] = s;"
    assert failure(body, "race: write .* after the write by thread").line == 4


def test_atomic_and_plain_access_race() -> None:
    body = """
    __shared__ int s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    if (threadIdx.x) atomicAdd(&s, 1); else y[0] = s;"""
    failure(body, "shared-memory race")


def test_neighbouring_bytes_do_not_race() -> None:
    body = """
    __shared__ unsigned char s[64];
    s[threadIdx.x] = threadIdx.x;
    y[threadIdx.x] = s[threadIdx.x];"""
    np.testing.assert_array_equal(run(body, seed=1), iota(64))


def test_static_array_index_out_of_bounds() -> None:
    body = "__shared__ float a[32], b[32];\na[threadIdx.x] = 0.f;\nb[threadIdx.x & 31] = 0.f;"
    failure(body, "out-of-bounds array index: .* in an array of type 'float *\\[32\\]'")


def test_dynamic_shared_memory_out_of_bounds() -> None:
    with pytest.raises(SimtError, match=r"out-of-bounds shared write: .* which has 1020 bytes"):
        compile_module(BITONIC_SORT).launch(
            "k", (1,), (256,), [iota(256), nans(256)], outputs={1}, shared_bytes=1020
        )


@pytest.mark.parametrize(
    "access",
    ["*(const float4*)(x + 1)", "__ldg((const float4*)(x + 1))", "__ldcs((const float4*)(x + 1))"],
)
def test_misaligned_vector_read(access: str) -> None:
    source = kernel(f"const float4 q = {access}; y[0] = q.x + q.y + q.z + q.w;")
    x = aligned_floats(8)
    with pytest.raises(SimtError, match=r"misaligned access: .* alignment of 16") as caught:
        compile_module(source).launch("k", (1,), (1,), [x, nans(1)], outputs={1})
    assert caught.value.line == 3


def test_misaligned_vector_write() -> None:
    failure("*(float2*)(y + 1) = make_float2(0.f, 0.f);", "misaligned access")
    failure("__stcs((float2*)(y + 1), make_float2(0.f, 0.f));", "misaligned access: __stcs")


@pytest.mark.parametrize(
    ("body", "pattern"),
    [
        ("int n = threadIdx.x; y[n] = 0x7fffffff + n;", "signed integer overflow"),
        ("int n = threadIdx.x; y[n] = 5 / n;", "integer division by zero"),
        ("int n = threadIdx.x; y[n] = 5 >> (n + 32);", "shift"),
        ("__builtin_assume(threadIdx.x < 9);", "__builtin_assume.* fails"),
        ("if (threadIdx.x == 3) __trap();", "__trap"),
    ],
)
def test_undefined_arithmetic(body: str, pattern: str) -> None:
    failure(body, pattern)


def test_a_function_that_is_nowhere_defined() -> None:
    with pytest.raises(SimtError, match=r"does not link: .*nowhere"):
        compile_module(kernel("y[0] = nowhere(x[0]);", prelude="__device__ float nowhere(float);"))


def test_stack_overflow() -> None:
    prelude = """
__device__ __noinline__ int deep(volatile int* from, int n) {
    volatile int local[256];
    local[n & 255] = *from;
    return n == 0 ? 0 : deep(local + (n & 255), n - 1) + local[n & 255];
}"""
    failure("int zero = 0;\ny[0] = deep(&zero, 1000);", "memory fault", prelude=prelude)


def test_guard_and_read_only_pages_work_without_checks() -> None:
    for body, pattern in [
        ("y[threadIdx.x + 16] = 0.f;", "memory fault"),
        ("const_cast<float*>(x)[threadIdx.x] = 0.f;", "memory fault"),
    ]:
        module = compile_module(kernel(body), check=False)
        with pytest.raises(SimtError, match=pattern) as caught:
            module.launch("k", (1,), (64,), [iota(64), nans(64)], outputs={1})
        assert caught.value.line == 3


# ---- Sources that cannot run ---------------------------------------------------------------------


def test_compiler_errors_are_reported() -> None:
    with pytest.raises(SimtError, match=re.compile(r"kernel\.cu:3.*undeclared_name", re.DOTALL)):
        compile_module(kernel("y[0] = undeclared_name;"))


def test_inline_assembly_is_refused() -> None:
    body = '// asm("in a comment")\nasm volatile("bar.red.u32 0;");'
    with pytest.raises(SimtError, match="line 4: inline assembly"):
        compile_module(kernel(body))


def test_a_source_without_kernels_is_refused() -> None:
    with pytest.raises(SimtError, match="no __global__ function"):
        compile_module("__device__ int f() { return 0; }")
