"""The wgmma engine's texts as NVRTC compiles them: no product waits for another, and registers are
enough."""

from __future__ import annotations

from typing import Any

import pytest
from support import nvrtc
from support import vector_cases as vc

import fusegen as fg

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))


@fg.pipeline
def biased(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, b: fg.PerColumn):
    s = fg.dot(q, k) + b
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


SERVED = {"biased": biased, "about_stored": vc.about_stored,
          **{n: t for n, t in vc.TEXTS.items() if n in ("attention", "causal")},
          "linear_cross_entropy": vc.linear_cross_entropy, "best": vc.best, "averaged": vc.averaged,
          "with_entropy": vc.with_entropy,
          **{n: vc.MASKED[n] for n in ("window", "sink")}}
LENGTHS = {"attention": (64, 128, 192, 256), "with_entropy": (128,), "about_stored": (128,),
           "causal": (128,), "best": (64, 256)}
"""Those of attention in turn; of what has more numbers than it the longest that it has, where most
registers are taken, and masks at either."""


def printed(name: str, length: int, dtype: str = "bfloat16") -> Any:
    text = SERVED[name]
    kinds = {"label": "int64", "lengths": "int64", "b": "float32", "bias": dtype}
    arrays = [a for a in text.signature.arrays if a not in text.signature.optional]
    return text.work(target="sm_90", dtype={a: kinds.get(a, f"{dtype}[{length}]") for a in arrays})


@pytest.mark.long
@compiled
@pytest.mark.parametrize(("name", "length"), [
    (n, length) for n in SERVED for length in LENGTHS.get(n, (64,))])
def test_products_run_beside_threads(name: str, length: int) -> None:
    """Not one of them waits for the one before, which the compiler only says in passing; and
    registers are enough, but where an item begins or ends."""
    work = printed(name, length)
    assert work.schedule.engine == "wgmma"
    found = nvrtc.compile_for(work.source, work.schedule.arch)
    assert not found.serialised
    (report,) = found.reports
    # Three warpgroups with masks keep what an item needs in memory; no loop over tiles does.
    most = 512 if work.schedule.warps == 12 and "leave_out" in work.source else 160
    assert report.spill_bytes <= most


def test_serialised_products_are_noticed() -> None:
    """A branch on the way from a product to its wait."""
    work = printed("best", 64)
    moved = work.source.replace("            wgmma_wait<0>();\n            hold(scores);\n", "", 1)
    assert moved != work.source
    assert nvrtc.compile_for(moved, work.schedule.arch).serialised
