"""Blocks that communicate through global memory: one after another, and all together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import SimtError, available, compile_module
from simt.testing import SEEDS, iota, kernel, nans

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

PARAMETERS = "const float* x, float* y, float* partials, unsigned long long* flags, int n"
PRELUDE = """
__device__ __forceinline__ unsigned long long acquire(const unsigned long long* p) {
    unsigned long long v;
    asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void release_add(unsigned long long* p, unsigned long long v) {
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" :: "l"(p), "l"(v) : "memory");
}"""

# The last block to arrive merges what all blocks left.
LAST_MERGES = """
    __shared__ bool last;
    if (threadIdx.x == 0) {
        float sum = 0.f;
        for (int i = blockIdx.x; i < n; i += gridDim.x) sum += x[i];
        __stcs(partials + blockIdx.x, sum);
        __threadfence();
        last = atomicAdd(flags, 1ull) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float sum = 0.f;
        for (int b = 0; b < gridDim.x; ++b) sum += __ldcg(partials + b);
        y[0] = sum;
        flags[0] = 0;
    }"""

# Every block waits for all, and then works on; twice, through an ever growing counter.
WAIT = "while (acquire(flags) < phase * gridDim.x) __nanosleep(20);"
ALL_WAIT = f"""
    extern __shared__ float row[];
    float total = 0.f;
    for (unsigned long long phase = 1; phase <= 2; ++phase) {{
        row[threadIdx.x] = x[blockIdx.x % n] + phase;
        __syncthreads();
        if (threadIdx.x == 0) {{
            __stcg(partials + (phase - 1) * gridDim.x + blockIdx.x, row[blockDim.x - 1]);
            __threadfence();
            release_add(flags, 1ull);
            {WAIT}
        }}
        __syncthreads();
        float sum = 0.f;
        for (int b = 0; b < gridDim.x; ++b) sum += partials[(phase - 1) * gridDim.x + b];
        total += sum;
        row[threadIdx.x] += 1.f;
        __syncthreads();
    }}
    if (threadIdx.x == 0) y[blockIdx.x] = total + row[0];"""


def launch(
    body: str, blocks: int = 5, threads: int = 64, seed: int = 0, *, check: bool = True, **more: Any
) -> Any:
    y, partials, flags = nans(blocks), nans(2 * blocks), np.zeros(blocks, dtype=np.uint64)
    module = compile_module(kernel(body, PARAMETERS, PRELUDE), check=check)
    module.launch(
        "k", (blocks,), (threads,), [iota(100), y, partials, flags, 100], outputs={1, 2, 3},
        initialised={3}, shared_bytes=4 * threads, seed=seed, **more,
    )
    return y


def launch_often(body: str, together: bool) -> None:
    for seed in range(1, 8):
        launch(body, seed=seed, together=together)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_last_block_merges(seed: int, together: bool) -> None:
    y = launch(LAST_MERGES, seed=seed, together=together)
    assert y[0] == iota(100).sum()
    assert np.isnan(y[1:]).all()


@pytest.mark.parametrize("together", [False, True])
def test_no_other_block_must_merge(together: bool) -> None:
    body = LAST_MERGES.replace("== gridDim.x - 1", "== gridDim.x - 2")
    with pytest.raises(SimtError, match=r"read of uninitialised output: argument 2|memory race"):
        launch_often(body, together=together)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("cluster", "blocks"), [(1, 5), (2, 6), (4, 4)])
@pytest.mark.parametrize("seed", SEEDS)
def test_all_blocks_wait_for_all(seed: int, cluster: int, blocks: int, check: bool) -> None:
    y = launch(ALL_WAIT, blocks, seed=seed, cluster=cluster, together=True, check=check)
    sums = iota(100)[:blocks].sum()
    np.testing.assert_array_equal(y, 2 * sums + 3 * blocks + iota(blocks) + 3)


@pytest.mark.parametrize(
    "wait",
    [
        "while (*(volatile unsigned long long*)flags < phase * gridDim.x) {}",
        "while (atomicAdd(flags, 0ull) < phase * gridDim.x) {}",
        "for (unsigned long long seen = 0; seen < phase * gridDim.x;)\n"
        'asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(flags));',
    ],
)
def test_ways_to_wait(wait: str) -> None:
    """Relaxed accesses need a fence after them."""
    for seed in SEEDS:
        body = ALL_WAIT.replace(WAIT, f"{wait}\n__threadfence();")
        y = launch(body, seed=seed, together=True)
        np.testing.assert_array_equal(y, 2 * 10 + 15 + iota(5) + 3)
        with pytest.raises(SimtError, match="global-memory race: read of argument 2"):
            launch(ALL_WAIT.replace(WAIT, wait), seed=seed, together=True)


def test_blocks_that_run_one_after_another_cannot_wait_for_later_ones() -> None:
    for seed in SEEDS:
        with pytest.raises(SimtError, match="endless wait: 1 threads poll memory") as caught:
            launch(ALL_WAIT, seed=seed)
        assert caught.value.line is not None


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("phase * gridDim.x", "phase * gridDim.x + 1", "endless wait: 5 threads"),
        ("release_add(flags, 1ull);", "", "endless wait: 5 threads"),
        (WAIT, "", "read of uninitialised output: argument 2|global-memory race: read of"),
        ("release_add(flags, 1ull);", "release_add(flags, 2ull);", "uninitialised|memory race"),
        ("        __syncthreads();\n        float sum", "        float sum", "memory race|uninit"),
    ],
)
def test_mutants(old: str, new: str, pattern: str) -> None:
    assert old in ALL_WAIT
    with pytest.raises(SimtError, match=pattern):
        launch_often(ALL_WAIT.replace(old, new), together=True)


@pytest.mark.long
def test_an_endless_wait_over_several_places_is_found() -> None:
    body = "for (;;) { if (acquire(flags) == 7) break; if (acquire(flags + 1) == 7) break; }"
    with pytest.raises(SimtError, match="endless wait: 128 threads"):
        launch(body, 2, together=True)


def test_seeds_let_blocks_overtake_one_another() -> None:
    body = "if (threadIdx.x == 0) y[atomicAdd(flags, 1ull)] = blockIdx.x;"
    orders = {tuple(launch(body, 4, seed=seed, together=True)) for seed in range(20)}
    assert len(orders) > 5
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)


def test_a_chain_of_blocks() -> None:
    """Each block waits for the one before; a later one may well run first."""
    body = """
    if (threadIdx.x == 0) {
        float before = 0.f;
        if (blockIdx.x) {
            while (acquire(flags + blockIdx.x - 1) == 0) {}
            before = partials[blockIdx.x - 1];
        }
        partials[blockIdx.x] = before + x[blockIdx.x];
        release_add(flags + blockIdx.x, 1);
        y[blockIdx.x] = before + x[blockIdx.x];
    }"""
    for seed in SEEDS:
        y = launch(body, 20, 32, seed=seed, together=True)
        np.testing.assert_array_equal(y, np.cumsum(iota(20)))


def test_too_many_blocks_are_refused() -> None:
    for blocks, threads in [(65, 32), (25, 1024)]:
        with pytest.raises(ValueError, match="at most 64 blocks and 24576 threads run together"):
            launch("", blocks, threads, together=True)
    assert np.isnan(launch("", 24, 1024, together=True)).all()


def test_loops_of_blocks_run_together() -> None:
    body = """
    auto each = [&](auto&& act) { for (int i = threadIdx.x; i < n; i += blockDim.x) act(i); };
    float sum = 0.f;
    each([&](auto i) { sum += x[i]; });
    for (int m = 4; m > 0; m >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, m, 8);
    if (blockIdx.x == 0 && threadIdx.x % 8 == 0) y[threadIdx.x / 8] = sum;
    __syncwarp(0xffffffffu);"""
    y = launch(body, 8)
    expected = np.pad(iota(100), (0, 28)).reshape(2, 8, 8).sum(axis=(0, 2))
    np.testing.assert_array_equal(y, expected)


# ---- Races in global memory ----------------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sum);\n        __threadfence();", "sum);"),  # before the ticket
        ("__threadfence();\n        float sum", "float sum"),  # after it
        ("__threadfence();", "__threadfence_block();"),
        ("atomicAdd(flags, 1ull)", "flags[0]++"),
        ("partials + blockIdx.x, sum", "partials, sum"),
    ],
)
def test_what_the_last_block_must_not_leave_out(old: str, new: str, together: bool) -> None:
    assert old in LAST_MERGES
    for seed in SEEDS:
        with pytest.raises(SimtError, match=r"global-memory race|uninitialised output"):
            launch(LAST_MERGES.replace(old, new), seed=seed, together=together)


@pytest.mark.parametrize(
    "release",
    [
        'asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" :: "l"(flags) : "memory");',
        'asm volatile("red.release.cta.global.add.u64 [%0], 1;" :: "l"(flags) : "memory");',
        "atomicAdd(flags, 1ull);",
    ],
)
def test_an_arrival_that_releases_nothing(release: str) -> None:
    body = ALL_WAIT.replace("release_add(flags, 1ull);", release)
    for seed in SEEDS:
        assert not np.isnan(launch(body, seed=seed, together=True)).any()
        with pytest.raises(SimtError, match="global-memory race: read of argument 2"):
            launch(body.replace("__threadfence();", ""), seed=seed, together=True)


@pytest.mark.parametrize("sync", ["__syncthreads();", "__syncwarp();"])
def test_a_fence_may_precede_the_barrier_in_front_of_the_ticket(sync: str) -> None:
    body = f"""
    __shared__ bool last;
    if (threadIdx.x == 5) {{ partials[blockIdx.x] = x[blockIdx.x]; __threadfence(); }}
    {sync}
    if (threadIdx.x == 0) last = atomicAdd(flags, 1ull) == gridDim.x - 1;
    __syncthreads();
    if (threadIdx.x == 0 && last) {{
        __threadfence();
        for (int b = 0; b < gridDim.x; ++b) y[b] = partials[b];
    }}"""
    for together in (False, True):
        for seed in SEEDS:
            y = launch(body, seed=seed, together=together)
            np.testing.assert_array_equal(y, iota(5))
            for missing in (sync, "__threadfence(); }", "__threadfence();\n"):
                broken = body.replace(missing, "}" if "}" in missing else "", 1)
                with pytest.raises(SimtError, match="memory race"):
                    launch(broken, seed=seed, together=together)


def test_two_blocks_or_threads_write_one_place() -> None:
    with pytest.raises(SimtError, match="after the write by thread 0 of block 0"):
        launch("if (threadIdx.x == 0) y[0] = 1.f;", 2)
    with pytest.raises(SimtError, match="write of argument 1, byte 0, and nothing orders it"):
        launch("if (threadIdx.x < 2) y[0] = 1.f;", 2)


def test_barriers_order_global_memory() -> None:
    body = """
    if (threadIdx.x < 5) partials[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 5) y[threadIdx.x] = partials[4 - threadIdx.x];
    __syncwarp();
    if (threadIdx.x == 0) partials[1] = y[3];"""

    def once(text: str, seed: int) -> Any:
        y, partials = nans(5), nans(5)
        module = compile_module(kernel(text, PARAMETERS, PRELUDE))
        flags = np.zeros(1, dtype=np.uint64)
        arguments: list[Any] = [iota(1), y, partials, flags, 1]
        module.launch("k", (1,), (64,), arguments, outputs={1, 2}, seed=seed)
        return y

    for seed in SEEDS:
        np.testing.assert_array_equal(once(body, seed), iota(5)[::-1])
        for missing in ("__syncthreads();", "__syncwarp();"):
            with pytest.raises(SimtError, match=r"memory race|uninitialised output"):
                once(body.replace(missing, ""), seed)
