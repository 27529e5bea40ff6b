"""Top-K lists of rows that a block or a warp collects, executed on the CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.cuda_cases import Case, assert_close, library_case
from support.emulated import emulated
from test_cuda_topk import ROWS, TIES, best, best_columns, check, every
from test_cuda_topk_lanes import all_short, several, short_schedules

import fusegen as fg
from fusegen.backend.cuda.schedule.band_entries import waiting_lists
from fusegen.backend.cuda.schedule.collected import few_lanes, parts_of, room_of, together_of
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Once, Registers
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Lanes
from fusegen.ir.dtypes import dtype_of


def of_ways(found: list[CudaSchedule], *ways: str) -> list[CudaSchedule]:
    """One of each kind, several rows of a warp, a row of a warp or of a block."""
    kinds = {(s.lists, s.in_warp, s.threads, s.home.kind): s for s in found if s.lists in ways}
    return list(kinds.values())


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "k", "dtype", "shift"), [
    (595, 166, "bfloat16", 1),  # keys of all items are made
    (1739, 60, "float16", 0),  # columns of a few are noted
    (455, 144, "float32", 3),
    (1025, 7, "float32", 0),
    (300, 290, "bfloat16", 2),  # nearly all of a row
    (13, 2, "float16", 3),  # some rows have no whole vector
    (40, 7, "float32", 0),  # there is room for all
    (700, 16, "bfloat16", 2),  # lanes' greatest items set the bar
    (1200, 1, "float16", 1),
    (2051, 40, "float32", 1),  # of several warps, the last of which has fewer vectors
])
def test_hard_rows_are_collected(n: int, k: int, dtype: str, shift: int) -> None:
    """Whatever the values: more reach a bar than there is room for, or all are equal, or NaN."""
    x = every(ROWS, dtype, n)
    found = of_ways(short_schedules(Case(best, {"x": x}, *x.shape, {"k": k}), shift), "collected")
    assert found
    for seed, schedule in enumerate(found[-2:]):
        check(x, k, seed=seed, shift=shift, schedule=schedule)


def in_slices(found: list[CudaSchedule], n: int, blocks: int) -> CudaSchedule:
    """Such a schedule, of blocks all over the grid."""
    one = next(s for s in found if s.lists == "collected" and not s.in_warp and s.width > 1)
    vectors = -(-(-(-n // one.width) // blocks) // 64)
    return one.having(team=Grid(blocks), threads=64, home=Once(), vectors=vectors)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "k", "dtype", "shift", "blocks"), [
    (2605, 33, "float32", 1, 5),  # first entries are some of a list
    (1739, 5, "float16", 0, 3),  # and all of it
    (1204, 300, "float32", 3, 2),  # the last slice has fewer than K, or about as many
    (1203, 290, "bfloat16", 2, 3),
    (1025, 7, "float32", 0, 40),  # of many lists each has a share below one
    (260, 3, "float32", 1, 60),  # the last slices are empty
])
def test_hard_rows_are_collected_in_slices(
    n: int, k: int, dtype: str, shift: int, blocks: int
) -> None:
    """Also where one slice has all of the best, or all slices have some alike."""
    x = every(ROWS, dtype, n)
    found = short_schedules(Case(best, {"x": x}, *x.shape, {"k": k}), shift)
    check(x, k, seed=n, shift=shift, schedule=in_slices(found, n, blocks))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_slices_that_have_more_of_the_best_than_are_looked_at_first(dtype: str) -> None:
    """One of eight slices has `good` of them, dozens of which are equal, and so in one bin: behind
    the first 128 entries of a list of 200 these are in no order, but for the last entry's. Or each
    has about its share, all equal: the 32nd entries of lists make the bar."""
    n, k, blocks = 4096, 200, 8
    rng = np.random.default_rng(3)
    rows = []
    for good in (31, 32, 33, 126, 128, 129, 148, 199, 200, 201, 260):
        row = rng.random(n)
        first = n // blocks * rng.integers(0, blocks)
        row[first + rng.permutation(n // blocks)[:good]] = 2 + np.arange(good) // 40 / 8
        rows.append(row)
    for each in (31, 33, 50, *[32] * 12):
        row = rng.random(n)
        for first in range(0, n, n // blocks):
            row[first + rng.permutation(n // blocks)[:each]] = 2
        rows.append(row)
    x = np.stack(rows).astype(dtype_of(dtype).numpy)
    found = short_schedules(Case(best, {"x": x}, *x.shape, {"k": k}))
    check(x, k, seed=n, schedule=in_slices(found, n, blocks))


def in_cluster(found: list[CudaSchedule], n: int, blocks: int) -> CudaSchedule:
    """Such a schedule, of the blocks of a cluster."""
    one = next(s for s in found if s.lists == "collected" and not s.in_warp and s.width > 1)
    vectors = -(-(-(-n // one.width) // blocks) // 64)
    return one.having(team=Cluster(blocks), threads=64, home=Registers(), vectors=vectors)


@emulated
@pytest.mark.parametrize(("n", "k", "dtype", "shift", "blocks"), [
    (2605, 33, "float32", 1, 4),  # columns of a few are noted
    (1739, 5, "float16", 0, 2),  # lanes' greatest items set the bar
    (1204, 300, "float32", 3, 2),  # keys of all items are made
    (1203, 290, "bfloat16", 2, 4),
    (1025, 7, "float32", 0, 16),  # a share of each warp is below one
    (260, 3, "float32", 1, 16),  # the last blocks have nothing
    (700, 700, "float32", 2, 4),  # all of a row
])
def test_hard_rows_are_collected_in_clusters(
    n: int, k: int, dtype: str, shift: int, blocks: int
) -> None:
    """Also where one block has all of the best, or more are alike than there is room for."""
    x = every(ROWS, dtype, n)
    found = short_schedules(Case(best, {"x": x}, *x.shape, {"k": k}), shift)
    check(x, k, seed=n, shift=shift, schedule=in_cluster(found, n, blocks))


@emulated
@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_whole_numbers(dtype: str) -> None:
    x = every(TIES, dtype, 300)
    found = short_schedules(Case(best, {"x": x}, *x.shape, {"k": 50}))
    for schedule in of_ways(found, "collected"):
        check(x, 50, schedule=schedule)


@emulated
@pytest.mark.parametrize(("n", "k", "dtype"), [(35, 3, "float32"), (91, 20, "bfloat16")])
def test_lists_of_rows_in_bands(n: int, k: int, dtype: str) -> None:
    """Bands of several passes, the last of which lacks rows."""
    x = np.concatenate([np.asarray(every(ROWS, dtype, n, seed)) for seed in range(6)])
    found = short_schedules(Case(best, {"x": x}, *x.shape, {"k": k}), 1)
    banded = [s for s in found if s.home.band_rows]
    assert {s.lists for s in banded} >= {"sorted", "collected"}
    for schedule in {s.lists: s for s in banded}.values():
        home = replace(schedule.home, rows=2 * schedule.rows_per_block)
        check(x, k, shift=1, schedule=schedule.having(home=home))


@emulated
@pytest.mark.parametrize(("n", "k", "dtype"), [(12, 12, "float32"), (21, 9, "bfloat16"),
                                               (40, 6, "float32")])
def test_entries_wait_for_those_of_neighbouring_rows(n: int, k: int, dtype: str) -> None:
    """Three blocks' rows, the last of which lacks some; columns in the type that is asked for."""

    @fg.pipeline
    def listed(x, *, k):
        values, columns = fg.topk(x, k, index_dtype="int16")
        return fg.sum(x), values * 2.0, columns, fg.take(x, columns)

    rng = np.random.default_rng(n)
    x = rng.integers(-9, 9, (300, n)).astype(dtype_of(dtype).numpy)
    case = Case(listed, {"x": x}, *x.shape, {"k": k})
    (kernel,) = case.work().result("lower").kernels
    few = [s for s in all_short(case) if waiting_lists(kernel, s)]
    assert {s.lanes for s in few} == ({1, 2} if k > 8 else {1})
    want = best_columns(x, k)
    due = np.take_along_axis(x, want, axis=1)
    for schedule in few:
        sums, doubled, columns, taken = case.emulate(schedule=schedule)
        np.testing.assert_array_equal(columns, want.astype(np.int16), schedule.describe())
        np.testing.assert_array_equal(doubled.astype(float), 2 * due.astype(float))
        np.testing.assert_array_equal(taken.astype(float), due.astype(float))
        assert_close((sums,), (x.astype(float).sum(1),), 2e-2)


@emulated
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_blocks_have_several_lists_and_fold_entries(dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((4, 700)).astype(dtype) for _ in "xy")
    case = Case(several, {"x": x, "y": y}, 4, 700)
    gates = library_case("moe_gate", 4, 700, dtype, k=8)
    for one in (case, gates):
        found = [s for s in short_schedules(one) if s.lists == "collected" and not s.in_warp]
        assert found
        assert_close(one.emulate(schedule=found[0]), one.reference(), 2e-3)


@pytest.mark.parametrize(("k", "threads", "vectors"), [
    (17, 512, 8), (53, 512, 8), (137, 512, 8), (300, 512, 8), (40, 256, 7), (100, 256, 8),
    (781, 256, 6), (297, 128, 7), (20, 128, 7), (45, 64, 4), (499, 64, 3), (198, 512, 2),
    (51, 128, 8), (25, 64, 8), (1, 64, 6), (20, 32, 4), (18, 32, 8), (9, 32, 2), (64, 32, 6),
])
def test_candidates_of_a_row_in_any_order_find_room(k: int, threads: int, vectors: int) -> None:
    """One row without room is searched in memory, and the device waits for it: room is 5 standard
    deviations above the mean of 500 rows at least."""
    one = fg.library.topk.compile(fg.Spec((9, 4096), "float16"), k=3, target="sm_90").schedule
    assert isinstance(one, CudaSchedule)
    warps = threads // 32
    one = one.having(team=Block(threads) if warps > 1 else Lanes(), threads=threads,
                     vectors=vectors)
    each = one.width * together_of(k, one, pairs=True) // parts_of(k, one, pairs=True)
    share = k // warps + (warps > 1)
    most = share + share // 16 + (2 if share > 4 else 0)  # peaks that reach a warp's bar
    rng = np.random.default_rng(k)
    rows = rng.random((500, warps, 32, vectors * one.width), dtype=np.float32)
    if k // warps <= few_lanes(warps):
        peaks, most = rows.max(-1), share  # of lanes
    else:
        peaks = np.maximum.reduceat(rows, range(0, vectors * one.width, each), axis=-1)
        peaks = peaks.reshape(500, warps, -1)
    bar = np.sort(peaks, axis=-1)[..., -most].min(-1)
    found = (rows >= bar[:, None, None, None]).sum((1, 2, 3))
    assert found.min() >= k
    assert found.mean() + 5 * found.std() <= room_of(k, one)


@pytest.mark.parametrize(("k", "threads", "vectors", "blocks"), [
    (2048, 512, 8, 8), (2048, 256, 8, 16), (955, 512, 5, 4), (64, 512, 8, 8), (300, 256, 5, 4),
    (717, 512, 4, 8), (13, 256, 8, 8), (1024, 512, 8, 2), (5, 512, 6, 16),
])
def test_candidates_of_a_cluster_find_room(k: int, threads: int, vectors: int, blocks: int) -> None:
    """Likewise, of a bar that warps reach who have K elements between them."""
    one = fg.library.topk.compile(fg.Spec((9, 4096), "float32"), k=3, target="sm_90").schedule
    assert isinstance(one, CudaSchedule)
    one = one.having(team=Cluster(blocks), threads=threads, vectors=vectors)
    warps = blocks * threads // 32
    each = one.width * together_of(k, one, pairs=False) // parts_of(k, one, pairs=False)
    share = int(4 / 3 * k / warps) + 1
    lanes = (k + (k + 2) // 3) // warps <= few_lanes(threads // 32)
    most = share if lanes else share + share // 16 + (2 if share > 4 else 0)
    rng = np.random.default_rng(k)
    counts = []
    for _ in range(200):
        rows = rng.random((warps, 32, vectors * one.width), dtype=np.float32)
        peaks = np.maximum.reduceat(rows, range(0, vectors * one.width, each), axis=-1)
        peaks = rows.max(-1) if lanes else peaks.reshape(warps, -1)
        words = np.sort(np.sort(peaks, axis=-1)[:, -most])[::-1]
        counts.append(int((rows >= words[-(-k // share) - 1]).sum()))
    found = np.array(counts)
    assert found.min() >= k
    assert found.mean() + 5 * found.std() <= room_of(k, one), (found.mean(), found.std())
