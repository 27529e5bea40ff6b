"""Kernels of tensor cores and asynchronous copies against float64, and what faults are called."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simt import SimtError, available
from simt.attention_kernel import ATTENTION, attention, run_attention
from simt.pair_kernels import (
    WARPGROUPS,
    WARPS,
    logsumexp,
    run_warpgroups,
    run_warps,
    vectors,
)
from simt.testing import SEEDS, Array, numbers_of

pytestmark = pytest.mark.skipif(available() is not None, reason=str(available()))

SHORT = {"bfloat16": (64, 40), "float16": (64, 8), "tfloat32": (32, 12)}
"""Vectors of a whole chunk, and shorter ones, which boxes fill with zeros."""


@pytest.mark.parametrize("seed", SEEDS)
def test_warps(seed: int) -> None:
    q, y = vectors(50, 32, "bfloat16"), vectors(101, 32, "bfloat16", 1)
    expected = logsumexp(*(numbers_of(x, "bfloat16") for x in (q, y)))
    np.testing.assert_allclose(run_warps(q, y, seed=seed), expected, rtol=2e-6)


@pytest.mark.parametrize("operand", SHORT)
def test_warpgroups(operand: str) -> None:
    for seed, d in zip(SEEDS, SHORT[operand], strict=False):
        q, y = vectors(70, d, operand), vectors(101, d, operand, 1)
        expected = logsumexp(*(numbers_of(x, operand) for x in (q, y)))
        found = run_warpgroups(q, y, operand, seed=seed)
        np.testing.assert_allclose(found, expected, rtol=2e-6)


def heads(n: int, m: int) -> tuple[Array, Array, Array]:
    shapes = ((n, 64), (m, 64), (m, 128))
    q, k, v = (vectors(2 * rows, d, "bfloat16", d + rows) for rows, d in shapes)
    return q.reshape(2, n, 64), k.reshape(2, m, 64), v.reshape(2, m, 128)


@pytest.mark.parametrize("seed", SEEDS)
def test_attention(seed: int) -> None:
    q, k, v = heads(70, 150)
    expected = attention(*(numbers_of(x, "bfloat16") for x in (q, k, v)))
    error = abs(run_attention(q, k, v, seed=seed) - expected).max()
    assert error <= 2**-8 * abs(numbers_of(v, "bfloat16")).max()


def changed(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("copies_wait<1>();", "", "copies asynchronously since line"),
        ("copies_wait<1>();", "copies_wait<2>();", "copies asynchronously since line"),
        ("__syncthreads();  // landed", "", "shared-memory race|copies async|uninitialised"),
        ("__syncthreads();  // read", "", "shared-memory race: write|copies async"),
        ("fetch(tile + 1);", "fetch(tile + 2);", "copies async|race|uninitialised"),
        ("(j < m ? j : 0) * kInner + part * 8, j < m);", "j * kInner + part * 8);",
         "out-of-bounds global read: 16 bytes"),
        ("copies_wait<0>();", "fetch(0);", "exits without waiting for its asynchronous copy"),
        ("part * 16);", "part * 8);", "misaligned access: ldmatrix"),
    ],
)
def test_faults_of_warps(old: str, new: str, pattern: str) -> None:
    q, y = vectors(50, 32, "bfloat16"), vectors(101, 32, "bfloat16", 1)
    for seed in SEEDS:
        with pytest.raises(SimtError, match=pattern):
            run_warps(q, y, changed(WARPS, old, new), seed)


UNSEEN = "copies async|uninitialised shared|has not seen the mbarrier"
UNDER_WAY = "touches a register of a wgmma under way: "
READ = "race: write of dynamic shared .* does not know that the wgmma which reads it is done"
STUCK = "endless wait: .*"


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("wgmma_wait<0>();", "", UNDER_WAY + "it has not waited for its group"),
        ("wgmma_wait<0>();", "wgmma_wait<1>();", UNDER_WAY + "it has not waited"),
        ("wgmma_commit();", "", UNDER_WAY + "its group has not been committed"),
        ("wgmma_wait<0>();", "sums[3] = 0.f;", UNDER_WAY),
        ("wgmma_fence();", "", "wgmma: no wgmma.fence stands before it"),
        ("wgmma_fence();", "if (tile == 0) wgmma_fence();", r"touched sums\[\d+\] since the"),
        ("wgmma_fence();", "wgmma_fence(); sums[5] = 0.f;", r"touched sums\[5\] since the last"),
        ("barrier_wait(full + 8 * s, parity);  // filled", "", UNSEEN),
        ("barrier_wait(rows_full, 0);  // rows", "", UNSEEN),
        ("parity);  // filled", "parity ^ 1);  // filled", UNSEEN),
        ("if (threadIdx.x == 128) barrier_arrive(empty + 8 * s);", "",
         STUCK + r"0 to 0 wait for parity \d of the mbarrier .* lacks 1 of 1 arrivals"),
        ("if (threadIdx.x == 128) barrier", "barrier", "1 completes, and nobody has waited for"),
        ("barrier_wait(empty + 8 * s, parity ^ 1);", "", f"{READ}|copies async|more arrivals"),
        ("(empty + 8 * s, parity ^ 1)", "(empty + 8 * s, parity)", STUCK + "lacks 1 of 1 arrivals"),
        ("barrier_expect(full + 8 * s, kStage);", "barrier_expect(full + 8 * s, kStage + 16);",
         STUCK + "lacks 0 of 1 arrivals and 16 bytes that it expects"),
        ("barrier_expect(full + 8 * s, kStage);", "barrier_expect(full + 8 * s, kStage - 32);",
         STUCK + "and has 32 bytes more than it expects"),
        ("barriers_ready();", "", "0 has initialised the mbarrier without a fence.mbarrier_init"),
        ("__syncthreads();  // initialised", "", "no mbarrier|uninitialised shared|race"),
        ("kRows;\n", "kRows + 128;\n", "misaligned access: wgmma: the matrix descriptor of b"),
        ("(base, &q", "(base + 64, &q", "cp.async.bulk.tensor .* an alignment of 128 bytes"),
        ("copy_tile_2d(base, &q, rows_full, 0, first)",
         "copy_tile_3d(base, &q, rows_full, 0, first, 0)", "3 coordinates for a tensor of 2"),
        ("k > 0)", "k > 0 || threadIdx.x >= 224)", "the warps of a warpgroup give different"),
        ("further(a, 32 * k)", "further(a, 32 * (threadIdx.x % 2))", "lanes 0 and 1 give differ"),
        ("wgmma_fence();", "if (threadIdx.x >= 224) named_barrier_sync(1, 64);\nwgmma_fence();",
         STUCK + "128 to 223 wait for wgmma group 1, which not all warps of the warpgroup have comm"
         ".*224 to 255 wait for named barrier 1: 32 of 64 threads are there"),
        ("wgmma_fence();", "if (threadIdx.x != 130) wgmma_fence();", "divergent warp|no wgmma"),
        ("registers_up<256>()", "registers_up<260>()", "260 registers are not 24, 32 ... 256"),
    ],
)
def test_faults_of_warpgroups(old: str, new: str, pattern: str) -> None:
    q, y = vectors(70, 64, "bfloat16"), vectors(101, 64, "bfloat16", 1)
    text = changed(WARPGROUPS, old, new)
    for seed in SEEDS:
        with pytest.raises(SimtError, match=re.compile(pattern, re.DOTALL)):
            run_warpgroups(q, y, text=text, seed=seed)


def moved(text: str, line: str, before: str) -> str:
    """The line stands before another."""
    return changed(changed(text, line, ""), before, f"{line}\n{before}")


def test_released_before_the_wait() -> None:
    """A stage that a consumer gives back while its products read it, and that is filled again."""
    q, y = vectors(70, 64, "bfloat16"), vectors(101, 64, "bfloat16", 1)
    release = "if (threadIdx.x == 128) barrier_arrive(empty + 8 * s);"
    for seed in SEEDS:
        with pytest.raises(SimtError, match=READ):
            run_warpgroups(q, y, text=moved(WARPGROUPS, release, "wgmma_wait<0>();"), seed=seed)
    q, k, v = heads(70, 330)
    release = "if (leader) barrier_arrive(values_empty + (tile - 1) % 2 * 8);"
    with pytest.raises(SimtError, match=READ):
        run_attention(q, k, v, moved(ATTENTION, release, "wgmma_wait<0>();  // of values"))


@pytest.mark.parametrize(
    ("old", "new", "pattern"),
    [
        ("wgmma_wait<0>();  // of values", "wgmma_wait<1>();", UNDER_WAY),
        ("wgmma_wait<0>();  // of values", "pack(); wgmma_wait<0>();", UNDER_WAY),
        ("wgmma_wait<1>();  // of scores", "wgmma_wait<2>();", UNDER_WAY),
        ("wgmma_wait<0>();  // of the last values", "", UNDER_WAY),
        ("wgmma_fence();  // weights", "", r"has touched (sums|a)\[\d+\] since the last"),
        ("wgmma_fence();  // scores", "", r"no wgmma.fence|has touched sums\[\d+\] since the last"),
        ("tile / 2 % 2);  // values", "tile / 2 % 2 ^ 1);", UNSEEN),
        ("kColumns * 128), 2048 * i", "64), 2048 * i", "chunks of b are 64 bytes apart"),
        ("registers_down<40>();", "registers_down<56>();",
         STUCK + "wait for setmaxnreg: 232 registers a thread"),
        ("registers_down<40>();", "registers_up<232>();",
         STUCK + "wait for setmaxnreg: 232 registers a thread"),
        ("registers_down<40>();", "registers_up<40>();", "setmaxnreg.inc: to 40 registers from 16"),
    ],
)
def test_faults_of_attention(old: str, new: str, pattern: str) -> None:
    q, k, v = heads(70, 330)
    text = changed(ATTENTION, old, new)
    for seed in SEEDS[:2]:
        with pytest.raises(SimtError, match=re.compile(pattern, re.DOTALL)):
            run_attention(q[:1], k[:1], v[:1], text, seed)
