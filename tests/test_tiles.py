"""CUDA kernels over vectors on the emulator, against the texts in float64."""

from __future__ import annotations

import numpy as np
import pytest
from support import vector_cases as vc
from support.emulated import EMULATED
from support.tile_cases import CASES, K, Q, V, close, drawn
from support.tiles import emulate, prepared

import fusegen as fg

pytestmark = EMULATED


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_in_one_sweep(name: str) -> None:
    text, arrays, constants = CASES[name]
    close(emulate(text, *arrays, **constants), text.reference(*arrays, **constants))


@pytest.mark.parametrize("name", ["attention", "statistics", "head", "long vectors"])
def test_reduction_by_reduction(name: str) -> None:
    text, arrays, constants = CASES[name]
    close(emulate(text, *arrays, form="unfused", **constants), text.reference(*arrays, **constants))


@pytest.mark.parametrize("name", ["attention", "nearest", "causal"])
def test_blocks_that_share_rows(name: str) -> None:
    """Few rows of many columns: the last block merges what all have found."""
    text = CASES[name][0]
    arrays = (drawn(5, 9), drawn(2000, 9, seed=1), drawn(2000, 12, seed=2))[: 2 + (
        name != "nearest")]
    close(emulate(text, *arrays, multiprocessors=3), text.reference(*arrays))


@fg.pipeline
def moments(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """Several vectors over one number, of which a later sweep needs one; and a best."""
    s = fg.dot(q, k) * 0.5
    p = fg.exp(s - fg.max(s))
    z = fg.sum(p)
    o = fg.sum(p * v) / z
    return o, fg.sum(p * (v - o) ** 2) / z, fg.argmax(s)


@pytest.mark.parametrize("form", ["auto", "unfused"])
def test_vectors_in_later_sweeps(form: str) -> None:
    arrays = [drawn(30, 5).astype("f4"), drawn(300, 5, seed=1).astype("f4"),
              drawn(300, 3, seed=2).astype("f4")]
    close(emulate(moments, *arrays, form=form), moments.reference(*arrays), 3e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16"])
def test_other_types(dtype: str) -> None:
    numpy = fg.ir.dtypes.dtype_of(dtype).numpy
    arrays = tuple(a.astype(numpy) for a in (Q, K, V))
    tolerance = {"float64": 1e-12, "bfloat16": 2e-2, "float16": 3e-3}[dtype]
    close(emulate(vc.attention, *arrays, scale=0.3), vc.attention.reference(*arrays, scale=0.3),
          tolerance)


def test_masked_vectors_that_are_not_finite() -> None:
    keys, values = K.copy(), V.copy()
    values[30:] = np.inf
    keys[40:] = np.nan
    found = emulate(vc.causal, Q, keys, values)
    close(found, vc.causal.reference(Q, K[:21], V[:21]))


@fg.pipeline
def charges(x: fg.RowVector, y: fg.ColumnVector, b: fg.PerColumn, c: fg.PerColumn):
    return fg.sum(fg.exp(-fg.sqdist(x, y)) * b + c)


@pytest.mark.parametrize(("d", "beside"), [(1, 2), (3, 1), (4, 0)])
def test_numbers_that_lie_beside_short_vectors(d: int, beside: int) -> None:
    """As many as a vector has fewer than four; of two batches, over runs of tiles."""
    arrays = [a.astype("f4") for a in (
        drawn(2, 70, d), drawn(2, 1111, d, seed=1), drawn(2, 1111, seed=2), drawn(1111, seed=3))]
    _, work = prepared(charges, *arrays)
    assert work.source.count("bring_beside<kThreads, 1024") == beside
    close(emulate(charges, *arrays, seed=1), charges.reference(*arrays), 3e-5)


def test_sums_that_registers_do_not_hold() -> None:
    """A slower tile is better than none."""
    q, k, v = (drawn(n, 150, seed=n).astype("f8") for n in (5, 40, 41))
    found = emulate(vc.attention, q, k, v[:40], scale=0.1)
    close(found, vc.attention.reference(q, k, v[:40], scale=0.1), 1e-12)
