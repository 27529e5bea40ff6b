"""Top-K lists on GPUs, executed on the CPU: every K, type and layout, and rows made to be hard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.cases import best
from support.cuda_cases import Case
from support.emulated import EMULATED
from support.pairs import pairwise

import fusegen as fg
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import MEMORY, Ring
from fusegen.backend.cuda.schedule.launch import launches
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Team
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.ir.dtypes import dtype_of

pytestmark = EMULATED

N = 9000  # more than two tiles of a block


def _mixed(n: int, rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal(n)
    x[rng.integers(0, n, 60)] = np.nan
    x[rng.integers(0, n, 60)] = np.inf
    x[rng.integers(0, n, 60)] = -np.inf
    return x


ROWS = {
    "random": lambda n, rng: rng.standard_normal(n),
    "ascending": lambda n, rng: np.arange(n) / 8,
    "descending": lambda n, rng: -np.arange(n) / 8,
    "equal": lambda n, rng: np.full(n, 1.5),
    "few values": lambda n, rng: rng.integers(0, 5, n) / 4,
    "zeros of both signs": lambda n, rng: np.where(rng.random(n) < 0.5, 0.0, -0.0),
    "outlier": lambda n, rng: np.where(np.arange(n) == n // 2, 3e4, 1.5),
    "huge outlier": lambda n, rng: np.where(np.arange(n) == n - 7, np.inf, rng.standard_normal(n)),
    "NaN and infinities": _mixed,
    "NaN in every vector": lambda n, rng: np.where(np.arange(n) % 2, rng.random(n), np.nan),
    "all NaN": lambda n, rng: np.full(n, np.nan),
    "mostly -inf": lambda n, rng: np.where(rng.random(n) < 0.999, -np.inf, rng.standard_normal(n)),
    "-inf, then values": lambda n, rng: np.where(np.arange(n) < n // 2, -np.inf, rng.random(n)),
    "stairs": lambda n, rng: np.arange(n) // 1000 + 0.0,
}


def best_columns(x: np.ndarray, k: int) -> np.ndarray:
    """NaN first, then greater values, then lower columns, by a stable sort."""
    if x.dtype.kind not in "fV":
        return np.argsort(-x.astype(object), axis=1, kind="stable")[:, :k]
    wide = x.astype(np.float64)
    nan = np.isnan(wide)
    return np.lexsort((-np.where(nan, 0, wide), ~nan), axis=1)[:, :k]


def check(x: np.ndarray, k: int, seed: int = 0, shift: int = 0, **choices: Any) -> Case:
    """Values bit for bit, columns exactly; `x` names its rows where it is made of ROWS or TIES."""
    case = Case(best, {"x": np.asarray(x)}, *x.shape, {"k": k})
    _, values, columns = case.emulate(seed=seed, shift=shift, **choices)
    want = best_columns(np.asarray(x), k)
    taken = np.take_along_axis(np.asarray(x), want, axis=1)
    got, due = values.astype(np.float64), taken.astype(np.float64)
    same = (columns == want) & ((got == due) | np.isnan(got) & np.isnan(due))
    if x.dtype.kind == "f":
        same &= (taken != 0) | (np.signbit(values) == np.signbit(taken))
    names = x.names if isinstance(x, Named) else tuple(map(str, range(len(x))))
    wrong = {name: {"columns": columns[i], "due": want[i]}
             for i, name in enumerate(names) if not same[i].all()}
    assert wrong == {}, f"k={k}, {x.dtype}, {x.shape[1]} columns, seed {seed}, shift {shift}"
    return case


class Named(np.ndarray):
    """Rows with a name each."""

    names: tuple[str, ...]


def every(rows: Mapping[str, Any], dtype: str, n: int = N, seed: int = 7) -> Named:
    """Every row of ROWS or TIES, and each reversed."""
    rng = np.random.default_rng(seed)
    made = [(name, row) for name, make in rows.items()
            for row in (make(n, rng), make(n, rng)[::-1])]
    with np.errstate(invalid="ignore"):
        found = np.stack([row for _, row in made]).astype(dtype_of(dtype).numpy).view(Named)
    found.names = tuple(name for name, _ in made)
    return found


def rows_of(name: str, dtype: str, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(7)
    with np.errstate(invalid="ignore"):
        rows = np.stack([ROWS[name](n, rng), ROWS[name](n, rng)[::-1]])
        return rows.astype(dtype_of(dtype).numpy)


@pytest.mark.long
@pytest.mark.parametrize("k", [1, 5, 256, 1024, N])
def test_hard_rows(k: int) -> None:
    check(every(ROWS, "float32"), k, seed=k % 3)


TYPES = ("float16", "bfloat16", "float64", "int8", "int32", "uint32", "int64")


@pytest.mark.long
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [5, 300])
def test_types(dtype: str, k: int) -> None:
    kind = dtype_of(dtype).numpy
    rng = np.random.default_rng(k)
    if dtype_of(dtype).kind == "float":
        for row in ("NaN and infinities", "zeros of both signs", "ascending"):
            check(rows_of(row, dtype, 5000), k)
        return
    info = np.iinfo(kind)
    x = rng.integers(info.min, info.max, (2, 5000), dtype=kind, endpoint=True)
    x[:, 4000:] = info.max
    x[:, :2000] = info.min
    check(x, k)
    check(np.full((1, 5000), info.min, kind), k)


TIES = {
    "equal": lambda n, rng: np.full(n, 3),
    "few values": lambda n, rng: rng.integers(0, 5, n),
    "one value ahead": lambda n, rng: np.where(rng.random(n) < 0.02, 9, 3),
    "equal at the end": lambda n, rng: np.where(np.arange(n) < n - 300, 1, 3),
    "small": lambda n, rng: rng.integers(-60, 60, n),
}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "int32", "int64"])
def test_ties_of_the_first_tile(dtype: str) -> None:
    """The first columns are taken, wherever a warp finds them."""
    x = every(TIES, dtype, 2050, seed=5)
    for k in (5, 40, 200, 1500):
        check(x, k, n_rows=100_000)


@pytest.mark.long
@pytest.mark.parametrize("k", [3, 100])
def test_values_that_differ_in_late_bits_alone(k: int) -> None:
    """Edges are the first bits of a value's order: of doubles, far more than one shares them."""
    rng = np.random.default_rng(1)
    check(1 + rng.random((2, 3000)) * 1e-12, k, n_rows=100_000)
    check(2**40 + rng.integers(0, 9, (2, 3000), dtype=np.int64), k, n_rows=100_000)


@pytest.mark.parametrize(("row", "shift", "k"), pairwise(
    ["random", "equal", "ascending", "NaN and infinities"], [1, 3], [5, 100]))
def test_rows_off_alignment(row: str, shift: int, k: int) -> None:
    """Elements at the edges come last, and win ties against later columns."""
    check(rows_of(row, "float32", 4999), k, shift=shift)


@pytest.mark.parametrize("row", ["random", "equal", "mostly -inf", "NaN and infinities"])
@pytest.mark.parametrize("k", [1, 64, 1000])
def test_rows_split_over_blocks(row: str, k: int) -> None:
    case = check(rows_of(row, "float32", 40_001), k, n_rows=2)
    assert case.work(n_rows=2).schedule.blocks > 1


@pytest.mark.long
@pytest.mark.parametrize("k", [1, 8, 32])
def test_short_rows(k: int) -> None:
    check(every(ROWS, "float32", 1000), k)
    check(every(ROWS, "float32", 45), k)


@pytest.mark.parametrize("k", [5, 64, 1000])
@pytest.mark.parametrize("stages", [0, 3])
def test_slices_of_rows(k: int, stages: int) -> None:
    """Of few or many blocks, with lists that fit where they are gathered, or do not."""
    x = rows_of("random", "float32", 20_000)
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    for blocks in (3, 7):
        schedule = ringed(case.work(n_rows=2).schedule, stages, Grid(blocks))
        check(x, k, n_rows=2, schedule=schedule)


def test_candidates_of_many_slices() -> None:
    """Far more than K of them, and than are put in order without a histogram."""
    for dtype in ("float32", "float64"):
        x = rows_of("random", dtype, 20_000)
        case = Case(best, {"x": x}, *x.shape, {"k": 5})
        check(x, 5, n_rows=2, schedule=ringed(case.work(n_rows=2).schedule, 0, Grid(16)))


RINGED = Block(128)


def ringed(
    schedule: CudaSchedule, stages: int = 3, team: Team = RINGED, vectors: int = 2
) -> CudaSchedule:
    """Tiles that wait in a ring of so many stages; 0 are read where they are."""
    home = Ring(stages) if stages else MEMORY
    return schedule.having(team=team, threads=128, vectors=vectors, home=home, per_sm=4, fixed=True,
                           lists="streamed")


@pytest.mark.parametrize("k", [5, 300])
def test_rows_through_a_ring(k: int) -> None:
    x = every(ROWS, "float32")
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    check(x, k, schedule=ringed(case.work(n_rows=100_000).schedule))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("shift", [0, 3])
def test_rings_of_types(dtype: str, shift: int) -> None:
    x = rows_of("NaN and infinities", dtype, 6007)
    case = Case(best, {"x": x}, *x.shape, {"k": 70})
    schedule = case.work(n_rows=100_000, aligned=False).schedule
    check(x, 70, shift=shift, aligned=False, schedule=ringed(schedule))


def clustered(
    schedule: CudaSchedule, blocks: int, threads: int, vectors: int
) -> CudaSchedule:
    return schedule.having(team=Cluster(blocks), threads=threads, vectors=vectors, home=MEMORY,
                           lists="streamed", fixed=True, per_sm=1)


# blocks, threads, vectors: slices of several tiles, slices that are a tile, many small blocks
CLUSTERS = ((4, 128, 2), (2, 256, 5), (16, 64, 4))


@pytest.mark.parametrize("k", [1, 5, 64, 300, 1024])
def test_rows_over_a_cluster(k: int) -> None:
    """What blocks find meets in the first of them, wherever it was, however much it is."""
    x = every(ROWS, "float32")
    schedule = Case(best, {"x": x}, *x.shape, {"k": k}).work(n_rows=2).schedule
    at = [1, 5, 64, 300, 1024].index(k)
    for seed in range(2):  # half of the rows, which come in pairs, with one of two shapes in turn
        half = x[seed::2]
        half.names = x.names[seed::2]
        shape = CLUSTERS[(at + seed) % len(CLUSTERS)]
        check(half, k, seed, schedule=clustered(schedule, *shape))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "int64"])
@pytest.mark.parametrize("row", ["few values", "ascending", "random"])
def test_clusters_of_types(row: str, dtype: str) -> None:
    for at, (k, n) in enumerate(((6, 5007), (200, 5007), (40, 700))):  # slices of no whole tile
        x = rows_of(row, dtype, n)
        case = Case(best, {"x": x}, *x.shape, {"k": k})
        work = case.work(n_rows=2, aligned=False)
        schedule = clustered(work.schedule, 4, 128, 2)
        check(x, k, shift=3 * ((at + len(row)) % 2), aligned=False, schedule=schedule)


@pytest.mark.long
def test_several_lists_in_a_cluster() -> None:
    @fg.pipeline
    def two(x):  # type: ignore[no-untyped-def]
        return *fg.topk(x, 70), *fg.topk(x, 3, largest=False)

    x = np.random.default_rng(0).integers(-9, 9, (2, 6000)).astype(np.float32)
    case = Case(two, {"x": x}, 2, 6000)
    got = case.emulate(schedule=clustered(case.work(n_rows=2).schedule, 4, 128, 4))
    np.testing.assert_array_equal(got[1], best_columns(x, 70))
    np.testing.assert_array_equal(got[3], best_columns(-x, 3))


@pytest.mark.parametrize("row", ["random", "equal", "stairs", "ascending", "sampled"])
@pytest.mark.parametrize("stages", [0, 3])
def test_rows_that_begin_with_a_guess(row: str, stages: int) -> None:
    """A sample sets the first edge; where it misleads, the row is streamed again."""
    n, k = 20_000, 600
    if row == "sampled":
        x = np.random.default_rng(3).standard_normal((2, n)).astype(np.float32)
        apart = n // 4 // 128
        for item in range(8):
            x[:, item::4 * apart] += 10  # the greatest of all, and too few
    else:
        x = rows_of(row, "float32", n)
    case = Case(best, {"x": x}, *x.shape, {"k": k})
    schedule = ringed(case.work(n_rows=100_000).schedule, stages, vectors=4)
    schedule = replace(schedule, sampled=True)  # rows of more than two chunks of the block
    source = case.work(n_rows=100_000).scheduled(schedule).source
    assert "may_guess<TopList>(" in source
    check(x, k, schedule=schedule)


def test_lists_that_their_first_tile_says_nothing_of_begin_with_a_guess_as_well() -> None:
    for dtype in ("float64", "int64"):
        source = fg.library.topk.source("sm_90", dtype, 129_024, n_rows=4000, k=2500, include=True)
        assert "kGroups = 0" in source
        assert "if (guess && may_guess<TopList>(" in source
    x = np.stack([ROWS[name](30_000, np.random.default_rng(7)) for name in ("random", "equal")])
    case = check(x, 2500, n_rows=100_000)
    assert "if (guess && may_guess<TopList>(" in case.work(n_rows=100_000).source


@pytest.mark.long
@pytest.mark.parametrize("shift", [0, 3])
def test_tiles_of_formulas_are_read_again(shift: int) -> None:
    """Steps of products with what rows share, aligned as they are or not."""

    @fg.pipeline
    def weighed(x, w: fg.PerColumn, *, k):  # type: ignore[no-untyped-def]
        return fg.topk(x * w, k)

    n = 9000
    x = np.repeat((np.arange(n) // 2048 + 1.0)[None], 2, 0).astype("float32")
    w = np.where(np.arange(n) % 3 == 0, 2, 1).astype("float32")
    case = Case(weighed, {"x": x, "w": w}, *x.shape, {"k": 64})
    schedule = case.work(n_rows=4000, aligned=shift == 0).schedule
    assert schedule.load == ("peeled" if shift else "aligned")
    got = case.emulate(schedule=schedule, shift=shift, aligned=shift == 0)
    np.testing.assert_array_equal(got[1], best_columns(x * w, 64))


def test_several_lists_at_once() -> None:
    @fg.pipeline
    def two(x, y):  # type: ignore[no-untyped-def]
        return *fg.topk(x, 70), *fg.topk(x * y, 3)

    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, (2, 6000)).astype(np.float32) for _ in "xy")
    got = Case(two, {"x": x, "y": y}, 2, 6000).emulate()
    np.testing.assert_array_equal(got[1], best_columns(x, 70))
    np.testing.assert_array_equal(got[3], best_columns(x * y, 3))


@pytest.mark.long
def test_lists_that_exceed_shared_memory() -> None:
    x = rows_of("few values", "float32", 9000)
    case = check(np.concatenate([x, x, x]), 2500, arch="sm_80")  # without clusters, which have room
    work = case.work(n_rows=1000, arch="sm_80")
    assert any(n.scratch for n in launches(work.program, work.schedule))


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize(("n", "k"), [(160, 100), (130, 100), (330, 130), (700, 40)])
def test_tails_of_the_least_value(n: int, k: int, dtype: str) -> None:
    """Warps of the first tile that have nothing else set a bar that all reach: of wide values, the
    first word of the least one is that of no number."""
    kind = dtype_of(dtype).numpy
    least = -np.inf if kind.kind == "f" else np.iinfo(kind).min
    rng = np.random.default_rng(n)
    x = (rng.standard_normal((16, n)) * 1e6).astype(kind)
    for row in range(16):
        x[row, row * n // 16 + row :] = least
    work = Case(best, {"x": x}, *x.shape, {"k": k}).work(n_rows=100_000)
    offered = [c.schedule for c in candidates(work.program, work.problem, work.target)]
    streamed = {(s.threads, s.vectors): s for s in offered if s.lists == "streamed"}
    assert streamed
    for schedule in streamed.values():
        check(x, k, schedule=schedule)
