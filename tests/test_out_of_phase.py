"""Arrays that lie as they like, each at another offset from a boundary than the others, with
anything between their rows: what shifts and words around vectors bring."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import Case, assert_close, assert_close_sums
from support.emulated import EmulatedExecutable, emulated
from support.laid import laid, room
from support.schedules import kinds_of

import fusegen as fg
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import MEMORY, Chip, Registers, Shared
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Thread, tree
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.pipeline.pipeline import Pipeline

Arrays = dict[str, np.ndarray]


@fg.pipeline
def softmax(x):  # type: ignore[no-untyped-def]
    return fg.library.softmax(x)


@fg.pipeline
def gradient(y, dy):  # type: ignore[no-untyped-def]
    return y * (dy - fg.sum(y * dy))


@fg.pipeline
def sums(x, residual):  # type: ignore[no-untyped-def]
    s = x + residual
    return s, s / fg.sqrt(fg.mean(s * s) + 1e-6)


@fg.pipeline
def weighted(x, weight: fg.PerColumn, bias: fg.PerColumn):  # type: ignore[no-untyped-def]
    y = x - fg.mean(x)
    return y / fg.sqrt(fg.mean(y * y) + 1e-5) * weight + bias


@fg.pipeline
def masked(x, wanted):  # type: ignore[no-untyped-def]
    kept = fg.where(wanted, x, -float("inf"))
    return fg.exp(kept - fg.max(kept)) / fg.sum(fg.exp(kept - fg.max(kept)))


@fg.pipeline
def indexed(x):  # type: ignore[no-untyped-def]
    """The first sweep asks for columns."""
    kept = fg.where(fg.index(x) * 3 > fg.length(x), x, -1.0)
    return fg.exp(kept - fg.max(kept)) / fg.sum(fg.exp(kept - fg.max(kept)))


def weighed(x: Any, weight: fg.PerColumn, *, k: int) -> Any:
    return fg.topk(x + weight, k)


def _one(rng: np.random.Generator, shape: tuple[int, int], kind: Any) -> Arrays:
    return {"x": rng.standard_normal(shape).astype(kind)}


def _two(first: str, second: str, wide: bool = False) -> Callable[..., Arrays]:
    def made(rng: np.random.Generator, shape: tuple[int, int], kind: Any) -> Arrays:
        other = np.float32 if wide else kind
        return {first: rng.standard_normal(shape).astype(kind),
                second: rng.standard_normal(shape).astype(other)}
    return made


def _weighted(rng: np.random.Generator, shape: tuple[int, int], kind: Any) -> Arrays:
    return {"x": rng.standard_normal(shape).astype(kind),
            "weight": rng.standard_normal(shape[1]).astype(np.float32),
            "bias": rng.standard_normal(shape[1]).astype(kind)}


def _weighted_alike(rng: np.random.Generator, shape: tuple[int, int], kind: Any) -> Arrays:
    return {n: x.astype(kind) for n, x in _weighted(rng, shape, kind).items()}


def _masked(rng: np.random.Generator, shape: tuple[int, int], kind: Any) -> Arrays:
    wanted = rng.random(shape) < 0.7
    wanted[:, shape[1] // 2] = True
    return {"x": rng.standard_normal(shape).astype(kind), "wanted": wanted}


TEXTS: dict[str, tuple[Pipeline, Callable[..., Arrays]]] = {
    "one": (softmax, _one), "two": (gradient, _two("y", "dy")),
    "two of two types": (gradient, _two("y", "dy", wide=True)),
    "two results": (sums, _two("x", "residual")), "shared by rows": (weighted, _weighted),
    "shared by rows, of one type": (weighted, _weighted_alike),
    "bytes beside": (masked, _masked), "columns": (indexed, _one),
}
STEPS = {"bfloat16": 2e-2, "float16": 3e-3, "float32": 2e-5, "float64": 1e-11}


def _kind(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


@pytest.mark.long
@emulated
@pytest.mark.parametrize("n_cols", [203, 1101, 9001])
@pytest.mark.parametrize("dtype", [*STEPS])
@pytest.mark.parametrize("name", [*TEXTS])
def test_arrays_anywhere(name: str, dtype: str, n_cols: int) -> None:
    """Every kind of schedule for rows out of phase, each of arrays that lie otherwise."""
    pipeline, make = TEXTS[name]
    rng = np.random.default_rng(n_cols + len(name + dtype))
    case = Case(pipeline, make(rng, (3, n_cols), _kind(dtype)), 3, n_cols)
    lies = {"aligned": False, "in_phase": False, "written_in_phase": True}
    for schedule in _kinds(case):
        work = case.work(n_rows=100_000, **lies).scheduled(schedule)
        outputs = _outputs(work.program, n_cols, rng)
        inputs = {n: laid(v, rng) for n, v in case.inputs.items()}
        EmulatedExecutable(work.program, work.schedule, work.source, seed=n_cols)(
            {**inputs, **outputs}, 3, n_cols)
        assert_close(tuple(outputs.values()), case.reference(), STEPS[dtype])


def _outputs(program: Any, n_cols: int, rng: np.random.Generator, rows: int = 3) -> Arrays:
    """Where results go: all at the same offset, from row to row as well."""
    first, pitch = rng.integers(0, 17, 2).tolist()
    return {p.name: room((rows, n_cols), np.dtype(p.dtype.numpy), first, pitch)
            for p in program.outputs}


def _kinds(case: Case) -> list[CudaSchedule]:
    found = {**kinds_of(case, False, 100_000, in_phase=False),
             **kinds_of(case, False, 3, in_phase=False)}
    assert found
    return [*found.values()]


@pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("name", ["one", "two", "shared by rows"])
def test_nothing_is_declared_for_nothing(name: str, dtype: str) -> None:
    pipeline, make = TEXTS[name]
    case = Case(pipeline, make(np.random.default_rng(0), (3, 9001), _kind(dtype)), 3, 9001)
    for schedule in _kinds(case):
        work = case.work(n_rows=100_000, aligned=False, in_phase=False).scheduled(schedule)
        assert nvrtc.warnings_of(work.source, "sm_90") == ()


@pytest.mark.parametrize("name", ["two", "two results", "shared by rows"])
def test_all_is_asked_for_before_anything_is_waited_for(name: str) -> None:
    """What a shift waits for is on its way beside all else that a thread wants of the row."""
    pipeline, make = TEXTS[name]
    case = Case(pipeline, make(np.random.default_rng(0), (3, 60_001), np.float16), 3, 60_001)
    homes = set()
    for schedule in _kinds(case):
        if schedule.load != "shifted":
            continue
        source = case.work(n_rows=100_000, aligned=False, in_phase=False).scheduled(schedule).source
        kernel = source[source.index('extern "C"'):]
        # One letter for each time, such as aassaa: all of a sweep's arrays, then all of them.
        asked = "".join(re.findall(r"\b([as])(?:sk|hift)_items\(", kernel))
        assert "aass" in asked or not (asked or isinstance(schedule.home, Registers | Chip))
        assert name.startswith("shared by rows") or re.fullmatch("(aa|ss)*", asked)
        assert "load_shifted(" not in kernel
        homes.add(type(schedule.home))
    assert homes >= {Registers, Chip}


@emulated
@pytest.mark.parametrize("owner", [Block(64), Cluster(2)])
@pytest.mark.parametrize(("name", "dtype"), [
    ("one", "float16"), ("one", "float32"), ("shared by rows, of one type", "bfloat16"),
    ("two", "float16"), ("columns", "bfloat16")])
def test_slices_of_rows_of_any_length(name: str, dtype: str, owner: Block | Cluster) -> None:
    """In shared memory: rows of no vector at all, of one, of some; folded as they lie by the first
    sweep where it reads one array, shifted by all where it reads two, or asks for columns."""
    pipeline, make = TEXTS[name]
    for n_cols in (1, 7, 15, 23, 30, 31, 33, 47, 64, 129, 777, 1030, 2048, 3001):
        rng = np.random.default_rng(n_cols)
        case = Case(pipeline, make(rng, (4, n_cols), _kind(dtype)), 4, n_cols)
        work = case.work(n_rows=100_000, aligned=False, in_phase=False)
        work = replace(work, problem=replace(work.problem, n_cols=3001))
        width, blocks = work.schedule.width, getattr(owner, "blocks", 1)
        home = Shared(-(-3001 // width // blocks))
        levels = tree(Thread(2, width), 64, owner, home)
        schedule = replace(work.schedule, levels=levels, load="shifted", caching="kept")
        work = work.scheduled(schedule)
        assert ("first_edge" in work.source) == (name not in ("two", "columns"))
        outputs = _outputs(work.program, n_cols, rng, rows=4)
        inputs = {n: laid(v, rng) for n, v in case.inputs.items()}
        EmulatedExecutable(work.program, schedule, work.source, seed=n_cols)(
            {**inputs, **outputs}, 4, n_cols)
        assert_close(tuple(outputs.values()), case.reference(), STEPS[dtype])


@emulated
@pytest.mark.parametrize("teams", [1, 3])
@pytest.mark.parametrize(("name", "dtype", "n_cols"), [
    ("one", "bfloat16", 8199), ("two", "float16", 8203), ("two", "float32", 4101)])
def test_rows_that_come_in_at_other_offsets(
    name: str, dtype: str, n_cols: int, teams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrays of pitches of their own, so that every row lies otherwise than the one before it."""
    monkeypatch.setattr("support.emulated.RESIDENT_TEAMS", teams)
    pipeline, make = TEXTS[name]
    rng = np.random.default_rng(teams)
    case = Case(pipeline, make(rng, (5, n_cols), _kind(dtype)), 5, n_cols)
    work = case.work(n_rows=100_000, aligned=False, in_phase=False)
    width = work.schedule.width
    home = Chip(-(-n_cols // width // 2) - 128)
    levels = tree(Thread(2, width), 64, Grid(2), home)
    schedule = CudaSchedule(target=work.schedule.target, levels=levels, load="shifted")
    work = work.scheduled(schedule)
    for _ in range(3):
        outputs = _outputs(work.program, n_cols, rng, rows=5)
        inputs = {n: laid(v, rng) for n, v in case.inputs.items()}
        EmulatedExecutable(work.program, schedule, work.source, seed=teams)(
            {**inputs, **outputs}, 5, n_cols)
        assert_close_sums(tuple(outputs.values()), case.reference(), STEPS[dtype])


@emulated
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_weights_of_vectors_that_lists_look_at_again(dtype: str) -> None:
    """Rows that ascend: a tile brings more candidates than there is room for."""
    n_cols = 5001
    rng = np.random.default_rng(4)
    weight = rng.integers(0, 4, n_cols).astype(dtype)
    x = np.stack([np.arange(n_cols) // 8 + turn for turn in range(3)]).astype(dtype)
    case = Case(fg.pipeline(weighed), {"x": x, "weight": weight}, 3, n_cols, {"k": 40})
    total = x.astype(np.float64) + weight
    columns = np.argsort(-total, axis=1, kind="stable")[:, :40]
    work = case.work(n_rows=100_000, aligned=False)
    found = {s.shape: s for s in (c.schedule for c in candidates(
        work.program, work.problem, work.target)) if s.lists == "streamed"}
    base = work.schedule.having(threads=64, vectors=4, home=MEMORY, lists="streamed")
    for schedule in (*found.values(), base.having(team=Block(64))):
        got = case.emulate(schedule=schedule, seed=2, shift=1)
        np.testing.assert_array_equal(got[1], columns)
        np.testing.assert_array_equal(got[0].astype(np.float64),
                                      np.take_along_axis(total, columns, axis=1))
