"""What all rows share, read in the 16-byte words around vectors that begin inside them: by every
home, of rows of any length that lie anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.cuda_cases import Case, assert_close
from support.emulated import EmulatedExecutable, emulated
from support.laid import laid, laid_at

import fusegen as fg
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import MEMORY, Chip, Home, Registers, Shared
from fusegen.backend.cuda.schedule.levels import Block, Cluster, Grid, Lanes, Team, Thread, tree
from fusegen.backend.cuda.schedule.select import candidates
from fusegen.compile.passes import Work
from fusegen.pipeline.pipeline import Pipeline


@fg.pipeline
def layer_norm(x, weight: fg.PerColumn, bias: fg.PerColumn):  # type: ignore[no-untyped-def]
    y = x - fg.mean(x)
    return y * fg.rsqrt(fg.mean(y * y) + 1e-5) * weight + bias


@fg.pipeline
def added(x, residual, weight: fg.PerColumn):  # type: ignore[no-untyped-def]
    """Two arrays that stay, two results."""
    s = x + residual
    return s, s * fg.rsqrt(fg.mean(s * s) + 1e-6) * weight


@fg.pipeline
def kept(x, weight: fg.PerColumn):  # type: ignore[no-untyped-def]
    """Exponentials that stay, and columns that the map asks for."""
    terms = fg.exp(x - fg.max(x))
    return fg.where(fg.index(x) > 5, terms / fg.sum(terms), 0.25) * weight


@fg.pipeline
def both(x, weight: fg.PerColumn, bias: fg.PerColumn):  # type: ignore[no-untyped-def]
    """One array is folded with, and mapped; one is only mapped."""
    y = x * weight
    return y * fg.rsqrt(fg.mean(y * y) + 1e-6) + bias


@fg.pipeline
def listed(x, weight: fg.PerColumn):  # type: ignore[no-untyped-def]
    return fg.topk(x, 3), x * weight


TEXTS: tuple[Pipeline, ...] = (layer_norm, added, kept, both)
MOST = 3001


def _homes(width: int) -> dict[str, tuple[Team, int, int, Home]]:
    """Team, threads, vectors of a thread, and where rows of up to MOST columns stay."""
    slices, held = -(-MOST // width), -(-MOST // width // 32)
    return {
        "block in registers": (Block(64), 64, -(-held // 2), Registers()),
        "cluster in registers": (Cluster(2), 64, -(-held // 4), Registers()),
        "warp in registers": (Lanes(32), 128, held, Registers()),
        "block in shared memory": (Block(64), 64, 4, Shared(slices)),
        "cluster in shared memory": (Cluster(2), 64, 2, Shared(-(-slices // 2))),
        "chip": (Grid(2), 64, 2, Chip(-(-slices // 2) - 128)),
        "block from memory": (Block(64), 64, 1, MEMORY),
    }


HOMES = tuple(_homes(8))


def _case(pipeline: Pipeline, n_cols: int, dtype: str) -> Case:
    rng = np.random.default_rng(n_cols)
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    inputs: dict[str, Any] = {}
    for name in pipeline.signature.arrays:
        shape = (n_cols,) if name in ("weight", "bias") else (4, n_cols)
        inputs[name] = rng.standard_normal(shape).astype(kind)
    return Case(pipeline, inputs, 4, n_cols)


def _work(case: Case, load: str, home: str) -> Work:
    work = case.work(n_rows=100_000, aligned=False, in_phase=load == "peeled")
    work = replace(work, problem=replace(work.problem, n_cols=MOST))
    width = 16 // case.inputs["x"].dtype.itemsize
    team, threads, vectors, kept = _homes(width)[home]
    schedule = CudaSchedule(target=work.schedule.target, load=load,  # type: ignore[arg-type]
                            levels=tree(Thread(vectors, width), threads, team, kept))
    return work.scheduled(schedule)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("load", ["peeled", "shifted"])
@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("pipeline", TEXTS, ids=lambda p: str(p.name))
def test_rows_of_any_length(pipeline: Pipeline, home: str, load: str) -> None:
    """No vector at all, one, some; nothing beside the arrays is read, and no thread before another
    has written."""
    for i, n_cols in enumerate((1, 7, 15, 23, 30, 31, 33, 47, 64, 129, 777, 1030, 2048, MOST)):
        dtype = ("float16", "bfloat16", "float32")[i % 3]
        case = _case(pipeline, n_cols, dtype)
        work = _work(case, load, home)
        rng = np.random.default_rng(n_cols)
        at = int(rng.integers(0, 17))
        # In phase: arrays of elements at one offset, of one pitch. Weights lie anywhere.
        alike = load == "peeled"
        arrays = {n: laid_at(v, at, at) if alike and v.ndim == 2 else laid(v, rng)
                  for n, v in case.inputs.items()}
        outputs = {p.name: laid_at(np.zeros((4, n_cols), p.dtype.numpy), at if alike else 5, at)
                   for p in work.program.outputs}
        EmulatedExecutable(work.program, work.schedule, work.source, seed=n_cols)(
            {**arrays, **outputs}, 4, n_cols)
        assert_close(tuple(outputs.values()), case.reference(), 3e-2)


def test_who_reads_words_around_vectors() -> None:
    """Sweeps that only map, few vectors at a time; not threads of half a warp, nor beside lists."""
    work = _case(listed, 1024, "bfloat16").work(n_rows=1000, aligned=False)
    for one in candidates(work.program, work.problem, work.target):
        assert "Within<" not in work.scheduled(one.schedule).source.split("fusegen;")[1]
    for pipeline, expected in ((layer_norm, {"weight", "bias"}), (both, {"bias"})):
        case = _case(pipeline, 1024, "bfloat16")
        for home in HOMES:
            source = _work(case, "peeled", home).source.split("using namespace fusegen;")[1]
            found = {n for n in ("weight", "bias") if f"> {n}_body = {{" in source
                     and f"Within<__nv_bfloat16> {n}_body" in source}
            held = "in registers" in home
            assert found == expected, home
            assert ("slot < kVectors" in source) == (held or home == "chip")
    half = replace(_work(case, "peeled", "warp in registers").schedule,
                   levels=tree(Thread(12, 8), 128, Lanes(16), Registers()))
    assert "Within<" not in _work(case, "peeled", "chip").scheduled(half).source.split(
        "using namespace fusegen;")[1]
