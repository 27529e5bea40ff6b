"""Barriers in shared memory, and the bulk copies that complete on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import SimtError, available, compile_module
from simt.testing import SEEDS, aligned_floats, iota, kernel, nans

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

PRELUDE = r"""
__device__ __forceinline__ unsigned at(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
__device__ __forceinline__ void init(void* bar, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void expect(void* bar, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at(bar)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(void* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
__device__ __forceinline__ void wait(void* bar, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred done;\n"
        "AGAIN:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra DONE;\n"
        "bra AGAIN;\n"
        "DONE:\n"
        "}" :: "r"(at(bar)), "r"(parity) : "memory");
}
__device__ __forceinline__ void copy(void* to, const void* from, unsigned bytes, void* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}"""

# One thread fills two stages by bulk copies; the others, which read in another order, free them.
PIPELINE = """
    __shared__ __align__(128) float stage[2][256];
    __shared__ __align__(8) unsigned long long full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0) for (int s = 0; s < 2; ++s) { init(&full[s], 1); init(&empty[s], 2); }
    __syncthreads();  // initialised
    float sum = 0.f;
    for (int tile = 0; tile < tiles; ++tile) {
        const int s = tile % 2, parity = tile / 2 % 2;
        if (t == 64) {
            wait(&empty[s], parity ^ 1);  // free
            expect(&full[s], 1024);
            copy(stage[s], x + 256 * tile, 1024, &full[s]);
        }
        if (t < 64) {
            wait(&full[s], parity);  // filled
            for (int i = 0; i < 4; ++i) sum += stage[s][i * 64 + (63 - t)];
            __syncwarp();  // read
            if (t % 32 == 0) arrive(&empty[s]);
        }
    }
    if (t < 64) y[63 - t] = sum;"""


def launch(body: str, tiles: int = 7, seed: int = 0, *, check: bool = True) -> tuple[Any, Any]:
    x, y = aligned_floats(tiles * 256), nans(64)
    x[:] = iota(x.size)
    parameters = "const float* x, float* y, int tiles"
    module = compile_module(kernel(body, parameters, PRELUDE), check=check)
    module.launch("k", (1,), (96,), [x, y, tiles], outputs={1}, seed=seed)
    return x, y


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_pipeline(tiles: int, seed: int, check: bool) -> None:
    x, y = launch(PIPELINE, tiles, seed, check=check)
    np.testing.assert_array_equal(y, x.reshape(tiles, 4, 64).sum(axis=(0, 1)))


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("wait(&full[s], parity);  // filled", "", "uninitialised shared|copies async|race"),
        ("wait(&empty[s], parity ^ 1);  // free", "", "copies async|race|more arrivals in"),
        ("__syncwarp();  // read", "", "shared-memory race: write"),
        ("__syncthreads();  // initialised", "", "uninitialised shared|race|no mbarrier"),
        ("expect(&full[s], 1024)", "arrive(&full[s])", "copies async"),
        ("expect(&full[s], 1024)", "expect(&full[s], 1040)", "endless wait"),
        ("expect(&full[s], 1024);", "", "endless wait"),
        ("if (t % 32 == 0) arrive", "arrive", r"phase \d completes, and nobody has waited"),
        ("if (t % 32 == 0) arrive", "if (t == 0) arrive", "endless wait"),
        ("x + 256 * tile", "x + 256 * tile + 4", "out-of-bounds global read: 1024 bytes"),
        ("x + 256 * tile", "x + 256 * tile + 1", "misaligned access: cp.async.bulk"),
        ("stage[s], x", "stage[s] + 4, x",
         "write of static|race|uninitialised|out-of-bounds|copies async"),
        ("1024, &full[s]", "1020, &full[s]", "1020 bytes are no multiple of 16"),
        ("copy(stage[s], x + 256 * tile, 1024, &full[s])", "", "endless wait"),
        ("t < 64) {", "t < 0) {", "endless wait|ends without waiting for its bulk copy"),
    ],
)
def test_mutants_of_the_pipeline(old: str, new: str, pattern: str) -> None:
    assert old in PIPELINE
    for seed in SEEDS:
        with pytest.raises(SimtError, match=pattern):
            launch(PIPELINE.replace(old, new), 7, seed)


def test_a_copy_that_nobody_waits_for() -> None:
    body = PIPELINE.replace("t < 64) {", "t < 0) {")
    with pytest.raises(SimtError, match="the block ends without waiting for its bulk copy"):
        launch(body, 2)


def test_what_an_arrival_releases() -> None:
    """Who waits knows what was done before the arrivals, and passes it on; nobody else does."""
    body = """
    __shared__ __align__(8) unsigned long long bar;
    __shared__ float s[96];
    const int t = threadIdx.x;
    if (t == 0) init(&bar, 2);
    __syncthreads();
    s[t] = x[t];
    __syncwarp();
    if (t == 0 || t == 32) arrive(&bar);
    if (t == 64) wait(&bar, 0);
    __syncwarp();  // passed on
    if (t >= 64) y[t - 64] = s[t - 64] + s[t - 32];"""
    _, y = launch(body, 1)
    np.testing.assert_array_equal(y[:32], 2 * iota(32) + 32)
    for old, new in [
        ("__syncwarp();  // passed on", ""),
        ("__syncwarp();\n    if (t == 0", "\n    if (t == 0"),
        ("if (t == 64) wait", "if (t == 128) wait"),
        ("t == 32) arrive(&bar)", "t == 1) arrive(&bar)"),
        ("__syncwarp();  // passed on", "if (t == 0) s[0] = 2.f;\n__syncwarp();"),
    ]:
        assert old in body
        for seed in SEEDS:
            with pytest.raises(SimtError, match=r"uninitialised shared|shared-memory race"):
                launch(body.replace(old, new), 1, seed)


def test_arrivals_from_another_block() -> None:
    body = """
    __shared__ __align__(8) unsigned long long bar;
    __shared__ float s;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank();
    if (threadIdx.x == 0) init(&bar, 1);
    cluster.sync();
    if (threadIdx.x == 0) {
        unsigned there;
        asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(&bar)), "r"(rank ^ 1));
        *cluster.map_shared_rank(&s, rank ^ 1) = x[blockIdx.x];
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                     :: "r"(there) : "memory");
    }
    if (threadIdx.x == 0) wait(&bar, 0);
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = s;
    cluster.sync();"""
    prelude = PRELUDE + "\n#include <cooperative_groups.h>"

    def pairs(body: str, seed: int) -> Any:
        y = nans(4, 64)
        module = compile_module(kernel(body, prelude=prelude))
        module.launch("k", (4,), (64,), [iota(4), y], outputs={1}, cluster=2, seed=seed)
        return y

    for seed in SEEDS:
        expected = np.repeat([[1], [0], [3], [2]], 64, axis=1)
        np.testing.assert_array_equal(pairs(body, seed), expected)
        for missing in ("if (threadIdx.x == 0) wait(&bar, 0);", "__syncthreads();"):
            with pytest.raises(SimtError, match=r"uninitialised shared|shared-memory race"):
                pairs(body.replace(missing, ""), seed)
