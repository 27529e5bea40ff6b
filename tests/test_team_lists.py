"""Lists that a team's lanes hold together: merged by shuffles, of the few items that lanes keep."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import simt
from support.cuda_cases import Case
from support.emulated import emulated
from test_cuda_topk import best, check
from test_cuda_topk_lanes import all_short

from fusegen.backend.cuda.schedule.cuda import IN_REGISTERS
from fusegen.backend.cuda.schedule.networks import made_to_straighten
from fusegen.backend.cuda.schedule.short_lists import candidates_of, entries_sought, kept_of
from fusegen.backend.cuda.schedule.team_lists import kept_by_lane, merging
from fusegen.backend.emit.source import Source
from fusegen.ir.dtypes import dtype_of

STRAIGHTEN = """
extern "C" __global__ void straighten_{n}(unsigned* keys)
{{
    unsigned mine[{n}];
    for (int i = 0; i < {n}; ++i) mine[i] = keys[threadIdx.x * {n} + i];
    straighten<{n}>(mine);
    for (int i = 0; i < {n}; ++i) keys[threadIdx.x * {n} + i] = mine[i];
}}
"""
MERGE = """
extern "C" __global__ void merge_{team}_{mine}_{best}(
    const unsigned* keys, unsigned* found, unsigned* last)
{{
    const int rank = threadIdx.x % {team};
    constexpr int kOwn = share_of({best}, {team});
    unsigned mine[{mine}], own[kOwn], more[kOwn];
    for (int i = 0; i < {mine}; ++i) mine[i] = keys[threadIdx.x * {mine} + i];
    merge_lists<{team}, {best}>(own, mine, rank);
    for (unsigned& key : more) key = 0;
    take_list<{team}>(own, more, rank);  // as if nothing had been left out
    last[threadIdx.x] = entry_of<{team}, {best} - 1>(own);
    give_out<{team}>(own, rank);
    for (int i = 0; i < kOwn; ++i) found[threadIdx.x * kOwn + i] = own[i];
}}
"""
MERGES = [(2, 1, 1), (2, 3, 5), (2, 7, 7), (4, 1, 3), (4, 3, 12), (4, 5, 6), (4, 8, 17), (8, 2, 9),
          (8, 5, 11), (8, 7, 36), (8, 8, 64), (16, 3, 33), (16, 5, 20), (32, 2, 7), (32, 3, 70)]
"""Lanes, keys of each, entries of the list."""


def of_bits(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Zeros and ones: what orders these, orders any keys (Knuth, The Art of Computer Programming 3,
    5.3.4, theorem Z); in few rows, and in as many as there may be."""
    return (rng.random(shape) < rng.random((shape[0], *[1] * (len(shape) - 1)))).astype(np.uint32)


@pytest.mark.long
@emulated
def test_keys_that_fall_and_rise_are_straightened() -> None:
    counts = [*range(1, 20), 31, 33, 48]
    module = simt.compile_module(Source(
        "".join(STRAIGHTEN.format(n=n) for n in counts),
        headers=("fusegen/topk/networks.cuh",)).text())
    for n in counts:
        falls, rises = (a.ravel() for a in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
        places = np.arange(n)
        rows = ((places < falls[:, None]) | (places >= n - rises[:, None])).astype(np.uint32)
        for first in range(0, len(rows), 1024):
            keys = rows[first : first + 1024].copy()
            module.launch(f"straighten_{n}", (1,), (len(keys),), [keys], outputs={0},
                          initialised={0})
            np.testing.assert_array_equal(keys, -np.sort(-rows[first : first + 1024].astype(int)))


@pytest.mark.long
@emulated
def test_lists_of_lanes_become_one() -> None:
    """Of zeros and ones, and of keys that all differ: each lane has its part of the list, and all
    know the last entry."""
    module = simt.compile_module(Source(
        "".join(MERGE.format(team=t, mine=m, best=b) for t, m, b in MERGES),
        headers=("fusegen/topk/team_lists.cuh",)).text())
    rng = np.random.default_rng(4)
    for team, mine, kept in MERGES:
        own, rows = -(-kept // team), 1024 // team
        shape = rows, team, mine
        apart = rng.permutation(rows * team * mine).astype(np.uint32).reshape(shape)
        for keys in (of_bits(rng, shape), apart):
            lanes = -np.sort(-keys.astype(np.int64), axis=-1)
            found = np.zeros((rows * team, own), np.uint32)
            last = np.zeros(rows * team, np.uint32)
            module.launch(f"merge_{team}_{mine}_{kept}", (1,), (1024,),
                          [lanes.astype(np.uint32).ravel(), found, last], outputs={1, 2})
            want = -np.sort(-keys.astype(np.int64).reshape(rows, -1))[:, :kept]
            want = np.pad(want, [(0, 0), (0, max(0, kept - want.shape[1]))])
            got = found.reshape(rows, team, own).swapaxes(1, 2).reshape(rows, -1)[:, :kept]
            np.testing.assert_array_equal(got, want, f"{team} lanes of {mine}, {kept}")
            np.testing.assert_array_equal(last.reshape(rows, team), want[:, -1:].repeat(team, 1))


def test_what_merging_takes() -> None:
    """Two lanes: half of a list each way, and one round between them. Powers of two straighten as
    Batcher's bitonic merge does."""
    assert [made_to_straighten(n) for n in (1, 2, 4, 8, 16)] == [0, 2, 8, 24, 64]
    both = merging(8, 8, 2)
    assert (both.made, both.settled, both.sent) == (4 + 8, 4, 4 + 4)
    assert merging(8, 8, 1) == merging(1, 1, 1)


@pytest.mark.parametrize(("k", "items", "lanes"), [
    (36, 44, 8), (18, 49, 2), (5, 36, 8), (61, 58, 2), (200, 16, 32), (40, 40, 1), (3, 9, 4)])
def test_lanes_seldom_have_more_than_they_keep(k: int, items: int, lanes: int) -> None:
    kept = kept_by_lane(k, items, lanes)
    assert kept <= min(k, items)
    assert kept * lanes >= min(k, items * lanes)
    if kept < min(k, items):
        odds = [comb(k, n) * (lanes - 1) ** (k - n) / lanes**k for n in range(k + 1)]
        assert 32 * sum(odds[kept:]) <= 0.02 < 32 * sum(odds[kept - 1 :])


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "k", "dtype", "shift"), [
    (141, 37, "float16", 1), (108, 17, "float32", 0), (275, 60, "bfloat16", 3),
    (341, 24, "float16", 1), (174, 12, "float32", 0), (512, 10, "float16", 0),
    (90, 5, "bfloat16", 1), (64, 40, "float32", 0), (200, 9, "int32", 0), (83, 31, "float32", 2)])
def test_lanes_that_have_more_than_they_keep(n: int, k: int, dtype: str, shift: int) -> None:
    """All of the best in one lane of so many, in some, or in the last columns; values that rounded
    keys leave open among them."""
    rng, found = np.random.default_rng(n), 0
    rows = [rng.standard_normal(n) for _ in range(9)]
    for number, step in enumerate((2, 4, 8, 16, 32)):
        rows[number][rng.integers(step) :: step] += 50
    rows[5][np.isin(np.arange(n) // 8 % 4, (1, 2))] += 50  # vectors of some lanes
    rows[6][: n // 3] += 50
    rows[7][1::8] = 60 + rng.permutation(len(rows[7][1::8])) * 2.0**-17
    rows[8][:] = -50
    x = np.stack(rows)
    x = (1000 * x if dtype == "int32" else x).astype(dtype_of(dtype).numpy)
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    for number, schedule in enumerate(all_short(case, shift)):
        sought = min(entries_sought(k, schedule), candidates_of(schedule))
        if schedule.lists in IN_REGISTERS and kept_of(k, schedule) < sought:
            check(x, k, seed=number, shift=shift, schedule=schedule)
            found += 1
    assert found >= 3


@emulated
@pytest.mark.parametrize(("n", "k", "dtype", "shift"), [
    (1144, 4, "bfloat16", 0), (1100, 3, "float16", 1), (500, 2, "bfloat16", 1),
    (1000, 1, "float16", 0), (1900, 5, "bfloat16", 3), (600, 3, "float32", 0)])
def test_lists_shorter_than_what_a_lane_has(n: int, k: int, dtype: str, shift: int) -> None:
    """Fewer entries than a lane has vectors: the vectors with the best peaks are all that is
    sorted, be they one lane's, a vector's items, or all but equal."""
    rng, found = np.random.default_rng(n), 0
    rows = rng.standard_normal((7, n))
    rows[1, 8 * rng.permutation(n // 8 - 1)[:k] + 3] += 50
    rows[2, 64:72] = 50 + rng.permutation(8)
    rows[3] = np.sort(rows[3])
    rows[4] = -50
    rows[5] = rng.integers(0, 3, n)
    x = rows.astype(dtype_of(dtype).numpy)
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    for number, schedule in enumerate(all_short(case, shift)):
        if schedule.lists == "sorted" and schedule.width > 1 and schedule.vectors > k:
            for lane in range(number % min(5, schedule.lanes), schedule.lanes, 5):
                first = schedule.width * lane
                x[6] = rows[6].astype(x.dtype)
                x[6, first :: schedule.width * schedule.lanes] += np.asarray(50, x.dtype)
                check(x, k, seed=number, shift=shift, schedule=schedule)
                found += 1
    assert found >= 1
