"""Clusters through assembly: remote shared memory, and the barrier in its two halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simt import SimtError, available, compile_module
from simt.testing import SEEDS, iota, kernel, nans

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

PRELUDE = """
__device__ __forceinline__ unsigned rank() {
    unsigned r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r;
}
__device__ __forceinline__ unsigned blocks() {
    unsigned n; asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n)); return n;
}
__device__ __forceinline__ unsigned of_rank(const void* p, unsigned r) {
    const unsigned own = (unsigned)__cvta_generic_to_shared(p);
    unsigned a;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(own), "r"(r));
    return a;
}
__device__ __forceinline__ void put(unsigned a, float v) {
    asm volatile("st.shared::cluster.f32 [%0], %1;" :: "r"(a), "f"(v) : "memory");
}
__device__ __forceinline__ float get(unsigned a) {
    float v; asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(a) : "memory");
    return v;
}
__device__ __forceinline__ void arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ __forceinline__ void arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;");
}
__device__ __forceinline__ void wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}"""

# Every block gives its sum to all others: one warp of each block writes, all threads read.
ALL_TO_ALL = """
    __shared__ float sums[8];
    __shared__ float part;
    arrive_relaxed();  // all have started
    const float mine = x[blockIdx.x];
    wait();  // started
    if (threadIdx.x < blocks()) put(of_rank(sums + rank(), threadIdx.x), mine);
    arrive();  // written
    if (threadIdx.x == 0) part = mine;
    __syncthreads();  // part
    const float own = part;
    wait();  // written
    float sum = 0.f;
    for (unsigned r = 0; r < blocks(); ++r) sum += sums[r];
    y[blockIdx.x * blockDim.x + threadIdx.x] = 100.f * own + sum;"""

# Block 0 reads from the others, which must not exit before.
GATHER = """
    __shared__ __align__(16) float parts[4];
    if (threadIdx.x < 4) parts[threadIdx.x] = x[blockIdx.x] + threadIdx.x;
    arrive();  // 1
    wait();  // 1
    if (rank() == 0) {
        const unsigned from = of_rank(parts, threadIdx.x % blocks());
        float a, b, c, d;
        asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(a), "=f"(b), "=f"(c), "=f"(d) : "r"(from));
        y[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d;
    } else y[blockIdx.x * blockDim.x + threadIdx.x] = 0.f;
    arrive();  // 2
    wait();  // 2"""


def launch(body: str, *, cluster: int = 4, seed: int = 0, together: bool = False) -> Any:
    y = nans(2 * cluster, 64)
    module = compile_module(kernel(body, prelude=PRELUDE))
    module.launch(
        "k", (2 * cluster,), (64,), [iota(2 * cluster), y],
        outputs={1}, cluster=cluster, seed=seed, together=together,
    )
    return y


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("cluster", [1, 2, 8])
def test_all_to_all(cluster: int, seed: int, together: bool) -> None:
    y = launch(ALL_TO_ALL, cluster=cluster, seed=seed, together=together)
    x = iota(2 * cluster).reshape(2, cluster)
    expected = 100 * x + x.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(y, np.repeat(expected.reshape(-1, 1), 64, axis=1))


@pytest.mark.parametrize("seed", SEEDS)
def test_gather(seed: int) -> None:
    y = launch(GATHER, seed=seed)
    expected = 4 * iota(8).reshape(2, 4) + 6
    np.testing.assert_array_equal(y.reshape(2, 4, 64)[:, 0], np.tile(expected, 16))
    assert not y.reshape(2, 4, 64)[:, 1:].any()


@pytest.mark.parametrize(
    ("body", "old", "new", "pattern"),
    [
        (ALL_TO_ALL, "wait();  // written", "wait_later", "race|uninitialised shared"),
        (ALL_TO_ALL, "arrive();  // written", "arrive_relaxed();", "race|uninitialised shared"),
        (ALL_TO_ALL, "__syncthreads();  // part", "", "shared-memory race|uninitialised shared"),
        (ALL_TO_ALL, "wait();  // started", "", "before the first cluster barrier|again"),
        (ALL_TO_ALL, "arrive();  // written", "", "without having arrived"),
        (ALL_TO_ALL, "mine = x", "mine = (arrive_relaxed(), x)", "again without having waited"),
        (GATHER, "    arrive();  // 2\n    wait();  // 2", "", "exited|exits"),
        (GATHER, "wait();  // 2", "", "exits between arriving and waiting"),
        (GATHER, "arrive();  // 2", "if (rank()) arrive();", "without having arrived|exits"),
        (GATHER, "threadIdx.x % blocks()", "threadIdx.x % 5", "mapa: no rank 4 in the cluster"),
        (GATHER, "[%4];", "[%4 + 8];", "misaligned access: ld"),
        (GATHER, "[%4];", "[%4 + 1024];", "no shared memory at address"),
        (GATHER, "ld.shared::cluster", "ld.shared::cta", "address of another block's"),
    ],
)
def test_mutants(body: str, old: str, new: str, pattern: str) -> None:
    assert body.count(old) == 1
    broken = body.replace(old, new)
    if new == "wait_later":
        broken = body.replace(old, "") + "\nwait();"
    for seed in SEEDS:
        for together in (False, True):
            with pytest.raises(SimtError, match=pattern):
                launch(broken, seed=seed, together=together)


def test_a_write_between_arriving_and_waiting_is_not_released() -> None:
    late = "arrive();  // written\n    if (threadIdx.x == 40) sums[7] = 1.f;"
    body = ALL_TO_ALL.replace("arrive();  // written", late).replace("r < blocks()", "r < 8")
    body = body.replace("sum += sums[r];", "if (r < blocks() || r == 7) sum += sums[r];")
    body = body.replace("__syncthreads();  // part", "").replace("= part", "= mine")
    with pytest.raises(SimtError, match=r"shared-memory race|uninitialised shared"):
        launch(body)
    ordered = body.replace("wait();  // written", "__syncthreads(); wait();")
    assert launch(ordered)[0, 0] == 7


def test_one_thread_may_learn_of_the_barrier_from_another() -> None:
    body = """
    __shared__ float s;
    arrive(); wait();
    if (threadIdx.x == 0) put(of_rank(&s, rank() ^ 1), x[blockIdx.x]);
    arrive();
    if (threadIdx.x < 32) wait();
    __syncthreads();  // what the first warp knows, the second knows
    y[blockIdx.x * blockDim.x + threadIdx.x] = s;
    if (threadIdx.x >= 32) wait();"""
    assert launch(body)[3, 63] == 2
    with pytest.raises(SimtError, match=r"shared-memory race|uninitialised shared"):
        launch(body.replace("__syncthreads();", ""))


def test_remote_stores_of_every_width_and_remote_atomics() -> None:
    body = """
    __shared__ __align__(16) unsigned s[16];
    if (threadIdx.x == 0) s[12] = 5;
    arrive(); wait();
    const unsigned to = of_rank(s, rank() ^ 1);
    if (threadIdx.x == 0) {
        asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(to), "r"(1u) : "memory");
        asm volatile("st.shared::cluster.b64 [%0 + 8], %1;" :: "r"(to), "l"(3ull << 32 | 2u));
        asm volatile("st.shared::cluster.v2.u32 [%0+16], {%1, %2};" :: "r"(to), "r"(4u), "r"(5u));
        asm volatile("st.shared::cluster.v4.f32 [%0+32], {%1, %1, %2, %2};"
                     :: "r"(to), "f"(1.f), "f"(2.f));
    }
    asm volatile("red.relaxed.cluster.shared::cluster.add.u32 [%0 + 48], %1;"
                 :: "r"(to), "r"(1u) : "memory");
    arrive(); wait();
    if (threadIdx.x == 0) {
        bool good = s[0] == 1 && s[2] == 2 && s[3] == 3 && s[4] == 4 && s[5] == 5;
        good &= s[8] == 0x3f800000u && s[11] == 0x40000000u && s[12] == 5 + 64;
        y[blockIdx.x * 64] = good;
    }"""
    assert launch(body)[:, 0].all()
    with pytest.raises(SimtError, match="misaligned access: st"):
        launch(body.replace("[%0+32]", "[%0+24]"))
