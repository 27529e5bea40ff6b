"""Whether a user names the parts of a text, or writes them into one another, changes no kernel."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scans.everyday import OURS
from support.cuda_cases import Case
from support.emulated import EMULATED

import fusegen as fg
from fusegen.backend.cuda.emit.kept import with_kept_terms
from fusegen.backend.problem import Problem
from fusegen.backend.target import CUDA_TARGETS
from fusegen.compile.passes import Work, trace_pipeline
from fusegen.compile.typed import Typed
from fusegen.ir.dtypes import dtype_of

pytestmark = EMULATED


def kernels_of(name: str, dtype: str, named: bool) -> tuple[str, dict[int, tuple[bool, bool]]]:
    """The choice for a text, and which of its sweeps keep a term or a value."""
    text = OURS[name]
    inputs = {n: dtype_of(dtype) for n in inspect.signature(text.fn).parameters}
    traced = trace_pipeline(text, frozenset(inputs), {})
    graph = replace(traced.graph, named=frozenset(traced.graph.nodes if named else ()))
    typed = Typed(replace(traced, graph=graph, digest=f"{traced.digest} {named}"), inputs, "auto")
    problem = Problem(dtypes=inputs, n_rows=20_000, n_cols=1000, aligned=True)
    work = Work(typed, CUDA_TARGETS["sm_90"], problem, None)
    makers = with_kept_terms(work.program, work.schedule)[1]
    return work.schedule.describe(), {
        number: (bool(keeps.relative), bool(keeps.value)) for number, keeps in makers.items()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", OURS)
def test_names_change_nothing(name: str, dtype: str) -> None:
    assert kernels_of(name, dtype, named=True) == kernels_of(name, dtype, named=False)


@pytest.mark.parametrize("name", ["softmax, capped", "rms norm of silu", "layer norm of gelu"])
def test_values_of_helpers_are_kept(name: str) -> None:
    """A helper's argument has no name in the text."""
    assert kernels_of(name, "bfloat16", named=False)[1] == {1: (False, True)}


@fg.pipeline
def in_parts(x):  # type: ignore[no-untyped-def]
    greatest = fg.max(x)
    below = x - greatest
    e = fg.exp(below)
    return e / fg.sum(e)


@fg.pipeline
def in_parts_and_stored(x):  # type: ignore[no-untyped-def]
    below = x - fg.max(x)
    e = fg.exp(below)
    return e / fg.sum(e), below


@pytest.mark.parametrize("text", [in_parts, in_parts_and_stored], ids=lambda p: p.name)
@pytest.mark.parametrize("n_cols", [100, 1000])
def test_exponentials_of_named_parts_are_kept(text: Any, n_cols: int) -> None:
    x = 3 * np.random.default_rng(n_cols).standard_normal((5, n_cols)).astype(np.float32)
    case = Case(text, {"x": x}, 5, n_cols)
    work = case.work(n_rows=20_000, aligned=True)
    assert with_kept_terms(work.program, work.schedule)[1], work.schedule.describe()
    below = x.astype(np.float64) - x.max(1, keepdims=True)
    e = np.exp(below)
    for found, expected in zip(case.emulate(n_rows=20_000), (e / e.sum(1, keepdims=True), below),
                               strict=False):
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7)
