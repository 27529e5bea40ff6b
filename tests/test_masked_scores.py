"""What is added to scores, or stands beside them: biases of minus infinity, and sinks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_masked_specials import (
    ALLOWED,
    BAD_ROW,
    COLUMN,
    ROW,
    ROWS,
    agree,
    exact,
    of_pairs,
    spoiled,
)

import fusegen as fg


@pytest.mark.long
def test_biases_of_minus_infinity() -> None:
    """Are masks to gradients: no number says so beside them, as one does of a mask's rows."""
    given = spoiled("do", math.nan)  # as where NaN of a row of nothing is gone on with
    bias = np.where(ALLOWED, 0.25, -math.inf)
    bias[[4, BAD_ROW]] = -math.inf
    found = fg.grad(fg.library.attention, wrt=("q", "k", "v"))(*given.values(), bias, scale=1.0)
    do, q, k, v = given.values()
    want = exact(False, bias > -math.inf, do, q, k, v)[1:]
    for what, one, right in zip(("dq", "dk", "dv"), found, want, strict=True):
        agree(one, right, 1e-11, what)


@pytest.mark.long
@pytest.mark.parametrize("causal", [False, True])
def test_sinks(causal: bool) -> None:
    """Gradients beside a sink, of any size; the maximum is proved to cancel there, too."""
    given, drawn = spoiled("v", math.nan), np.random.default_rng(5)
    if not causal:
        given = spoiled("", 0.0)
    sinks = drawn.normal(size=ROWS) * 3
    sinks[:4] = -math.inf, -900.0, 900.0, 90.0
    gradient = fg.grad(fg.library.attention, wrt=("q", "k", "v", "sinks"), scale=1.0)
    assert [p.status for p in gradient.proofs(inputs=("sinks",), causal=causal)] == ["proved"]
    found = gradient(*given.values(), sinks=sinks, scale=1.0, causal=causal)
    do, q, k, v = given.values()
    seen = (COLUMN <= ROW) | (not causal)
    s = np.where(seen, q @ k.T, -math.inf)
    most = np.maximum(s.max(1), sinks)[:, None]
    p = np.exp(s - most)
    p /= p.sum(1, keepdims=True) + np.exp(sinks[:, None] - most)
    part = 1 - p.sum(1)
    o = of_pairs(seen, p[..., None], v[None]).sum(1)
    delta = (do * o).sum(1)
    ds = of_pairs(seen, p, do @ v.T - delta[:, None])
    wanted = (of_pairs(seen, ds[..., None], k[None]).sum(1),
              of_pairs(seen, ds[..., None], q[:, None]).sum(0),
              of_pairs(seen, p[..., None], do[:, None]).sum(0), -part * delta)
    for one, want in zip(found, wanted, strict=True):
        agree(one, want, 1e-10, "beside a sink")


def test_what_is_not_seen_is_not_computed() -> None:
    """However a text says which columns count."""
    @fg.pipeline
    def causal(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, *, how: int):
        s = fg.dot(q, k)
        late = fg.index(s) > fg.row(s)
        s = (fg.where(late, -math.inf, s), fg.where(~late, s, -math.inf),
             fg.where(~(fg.index(s) <= fg.row(s)), -math.inf, s),
             fg.where(~late & (fg.index(s) >= 0), s, -math.inf))[how]
        p = fg.exp(s - fg.max(s))
        return fg.sum(p * v) / fg.sum(p)

    for how in range(4):
        assert "50 % are left out" in str(causal.plan(n_rows=4096, n_cols=4096, how=how)), how


def test_columns_that_no_row_sees() -> None:
    """Zero rows: gradients of columns are zeros, whatever stands there."""
    gradient = fg.grad(fg.library.attention, wrt=("q", "k", "v"), scale=1.0)
    k, v = np.full((2, 7, 3), math.nan)
    found = gradient(np.empty((0, 3)), np.empty((0, 3)), k, v)
    for one, shape in zip(found, ((0, 3), (7, 3), (7, 3)), strict=True):
        assert one.shape == shape
        assert not one.any()
