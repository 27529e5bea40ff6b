"""What takes long and is wanted twice of a chunk's items, of rows side by side: made once, and room
for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support import nvrtc
from support.cuda_cases import Case, assert_close
from support.emulated import emulated
from support.strip_cases import StripCase
from test_kept_values import capped

import fusegen as fg
from fusegen.backend.cuda.schedule.kept_values import made_again
from fusegen.compile.passes import Work

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@fg.pipeline
def capped_sums(x):  # type: ignore[no-untyped-def]
    y = 30 * fg.tanh(x / 30)
    e = fg.exp(y - fg.max(y))
    return fg.sum(e), fg.sum(e * y)


@fg.pipeline
def gelu_lse(x):  # type: ignore[no-untyped-def]
    return fg.logsumexp(0.5 * x * (1 + fg.erf(x * 0.7071067811865476)))


@fg.pipeline
def two(x):  # type: ignore[no-untyped-def]
    y, z = 30 * fg.tanh(x / 30), fg.log(fg.abs(x) + 0.1)
    return fg.logsumexp(y), fg.logsumexp(z)


def _work(text: fg.Pipeline, outer: int, n_cols: int, inner: int, dtype: str) -> Work:
    work = Case(text, {"x": np.zeros((1, 1), dtype)}, outer * inner, n_cols).work()
    return replace(work, problem=replace(work.problem, inner=inner))


@emulated
def test_for_the_pivot_and_for_what_moves_with_it() -> None:
    case = StripCase(Case(capped, {"x": np.zeros((64, 512), np.float32)}, 64, 512), 1)
    text = _work(capped, 1, 512, 64, "float32").source
    fold = text[text.index("sweep1_fold(") : text.index("sweep2_map(")]
    assert fold.count("tanhf(") == 1
    got = case.emulate(pick=lambda found: next(s for s in found if s.blocks * s.threads <= 8192))
    assert_close(got, case.case.reference(), 3e-6)


@pytest.mark.parametrize(("text", "values"), [
    (capped, 1), (capped_sums, 1), (gelu_lse, 1), (two, 2), (fg.library.softmax, 0),
    (fg.library.var_mean, 0),
])
def test_what_is_made_again(text: fg.Pipeline, values: int) -> None:
    """No part of a value beside the value: arrays of them would lie beside each other."""
    work = _work(text, 1, 512, 64, "float32")
    assert max(len(made_again(s)) for s in work.typed.program().sweeps) == values
    assert len({w for w in work.source.split() if w.endswith("_made[kCount];")}) == values


@compiled
@pytest.mark.parametrize("text", [capped_sums, gelu_lse, two])
@pytest.mark.parametrize("shape", [(64, 200, 49), (1024, 17, 2)])
def test_it_stays_in_registers(text: fg.Pipeline, shape: tuple[int, int, int]) -> None:
    found = nvrtc.compile_for(_work(text, *shape, "float32").source, "sm_90")
    assert found.reports, "ptxas reported no kernel"
    for report in found.reports:
        assert report.spill_bytes <= 128, report
