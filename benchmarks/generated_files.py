"""Generated CUDA files for compilers: the library, lists, schedules, random pipelines.

A file is named by what it is of; the same number gives the same file.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from fusegen import library
from fusegen.backend.problem import Problem
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.passes import Work, trace_pipeline
from fusegen.compile.typed import Traced, Typed
from fusegen.ir import graph as g
from fusegen.ir.digest import digest
from fusegen.ir.dtypes import INT64, DType, dtype_of
from fusegen.pipeline.pipeline import Pipeline

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the generator of random pipelines
from tests.fuzz.generator import random_case

ARCHS = ("sm_80", "sm_90", "sm_100")
DTYPES = ("float32", "bfloat16", "float16", "float64")
COLUMNS = (7, 128, 1000, 4096, 25_000, 129_024, 1_000_003)
ROWS = (1, 64, 4000, 100_000)
LISTS = (1, 2, 5, 8, 32, 64, 256, 1024)
FORMS = ("online", "online", "safe", "unfused")
LAYOUTS: tuple[Mapping[str, Any], ...] = (
    {}, {"aligned": False}, {"aligned": False, "in_phase": False}, {"any_rows": True},
    {"inner": 64}, {"inner": 63, "aligned": False},
)
PIPELINES = {n: p for n, p in vars(library).items() if isinstance(p, Pipeline)}
OF_LISTS = ("topk", "softmax_topk", "moe_gate")


@dataclass(frozen=True)
class File:
    """One translation unit, made when it is asked for."""

    name: str
    arch: str
    traced: Traced
    dtype: str
    form: str = "online"
    shape: Mapping[str, Any] = field(default_factory=dict)

    def source(self) -> str:
        dtypes = {i.name: self._type_of(i) for i in self.traced.graph.inputs}
        problem = Problem(dtypes=dtypes, **self.shape)
        target = CUDA_TARGETS[self.arch]
        typed = Typed(self.traced, dtypes, self.form)  # type: ignore[arg-type]
        return Work(typed, target, problem).source

    def _type_of(self, found: g.Input) -> DType:
        return INT64 if found.name == "labels" else dtype_of(self.dtype)


def files(count: int, seed: int = 0) -> list[File]:
    """`count` files: a third of the library, a third with lists, a third of random pipelines."""
    rng = random.Random(seed)
    kinds = cycle((_of_library(rng), _of_lists(rng), _random(rng, seed)))
    return [next(kind) for kind in islice(kinds, count)]


def _of_library(rng: random.Random) -> Iterator[File]:
    for name, arch in cycle([(n, a) for n in PIPELINES if n not in OF_LISTS for a in ARCHS]):
        pipeline = PIPELINES[name]
        optional = tuple(n for n in pipeline.signature.optional if rng.random() < 0.5)
        yield _file(name, arch, _traced(pipeline, optional), rng, rng.choice(LAYOUTS))


def _of_lists(rng: random.Random) -> Iterator[File]:
    for k, arch, name in cycle([(k, a, n) for k in LISTS for a in ARCHS for n in OF_LISTS]):
        constants: dict[str, Any] = {"k": min(k, 32) if name == "moe_gate" else k}
        if name == "topk":
            constants["largest"] = rng.random() < 0.5
        if name == "moe_gate" and rng.random() < 0.5:
            constants |= {"groups": 8, "groups_kept": 4, "group_score": "top2"}
        said = " ".join(f"{n}={v}" for n, v in constants.items())
        traced = _traced(PIPELINES[name], (), **constants)
        columns = [c for c in COLUMNS if c >= max(constants["k"], 64) and c % 8 == 0]
        yield _file(f"{name} {said}", arch, traced, rng, rng.choice(LAYOUTS[:4]), columns)


def _random(rng: random.Random, first: int) -> Iterator[File]:
    for seed, arch in enumerate(cycle(ARCHS), first):
        graph = random_case(seed).graph()
        yield _file(f"random {seed}", arch, Traced(graph, digest(graph)), rng, rng.choice(LAYOUTS))


def _traced(pipeline: Pipeline, optional: tuple[str, ...], **constants: Any) -> Traced:
    names = pipeline.signature.arrays
    present = frozenset(n for n in names if n not in pipeline.signature.optional or n in optional)
    return trace_pipeline(pipeline, present, pipeline.signature.bind_constants(constants))


def _file(
    said: str, arch: str, traced: Traced, rng: random.Random, layout: Mapping[str, Any],
    columns: list[int] | tuple[int, ...] = COLUMNS,
) -> File:
    """The rest is drawn: type, form and sizes."""
    dtype, form = rng.choice(DTYPES), rng.choice(FORMS)
    if any(isinstance(n, g.TopK | g.Take | g.Own) for n in traced.graph.nodes):
        layout = {n: v for n, v in layout.items() if n != "inner"}  # rows side by side have none
    shape = {"n_rows": rng.choice(ROWS), "n_cols": rng.choice(columns), **layout}
    drawn = " ".join(f"{n}={v}" for n, v in shape.items())
    return File(f"{said} {dtype} {form} {drawn}", arch, traced, dtype, form, shape)
