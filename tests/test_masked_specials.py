"""NaN and infinities of pairs that a mask leaves out, rows seen from columns and columns from rows.

What a text chooses by `where` contributes 0 where the condition does not hold, whatever stands
there: results and gradients of rows and columns that meet no bad vector are as if there were none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegen as fg

ROWS, COLUMNS, BAD_ROW, BAD_COLUMN = 21, 40, 13, 17
_DRAWN = np.random.default_rng(0)
LENGTHS = _DRAWN.integers(0, COLUMNS + 1, ROWS)
LENGTHS[[2, BAD_ROW]] = 0, 15
AT = _DRAWN.integers(0, COLUMNS, ROWS)
KEPT = _DRAWN.random(COLUMNS) < 0.6
KEPT[BAD_COLUMN] = False
ALLOWED = _DRAWN.random((ROWS, COLUMNS)) < 0.4
ROW, COLUMN = np.arange(ROWS)[:, None], np.arange(COLUMNS)


def softmax_of(s: Any, v: Any) -> Any:
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def padded(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, kept: fg.PerColumn):
    s = fg.dot(q, k)
    return softmax_of(fg.where(kept > 0, s, -math.inf), v)


@fg.pipeline
def chosen(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, allowed):
    s = fg.dot(q, k)
    return softmax_of(fg.where(allowed > 0, s, -math.inf), v)


@fg.pipeline
def two_runs(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    s = fg.dot(q, k)
    column, row = fg.index(s), fg.row(s)
    return softmax_of(fg.where((column < 3) | ((column > row) & (column < row + 9)), s, -math.inf),
                      v)


@fg.pipeline
def near(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, lengths: fg.PerRow):
    """Gradients are no products of tables."""
    s = fg.exp(-fg.sqdist(q, k))
    return fg.sum(fg.where(fg.index(s) < lengths, s, 0) * v)


def attention(seen: Any, named: dict[str, Any], **constants: Any) -> tuple[Any, ...]:
    return fg.library.attention, named, {"scale": 1.0, **constants}, seen


CASES: dict[str, tuple[Any, dict[str, Any], dict[str, Any], Any]] = {
    "lengths": attention(COLUMN < LENGTHS[:, None], {"lengths": LENGTHS}),
    "causal": attention(COLUMN <= ROW, {}, causal=True),
    "positions": attention((COLUMN <= AT[:, None]) & (COLUMN > AT[:, None] - 9),
                           {"positions": AT}, causal=True, window=9),
    "both": attention((COLUMN <= ROW) & (COLUMN < LENGTHS[:, None]), {"lengths": LENGTHS},
                      causal=True),
    "padding": (padded, {"kept": KEPT.astype("i4")}, {}, KEPT & (ROW >= 0)),
    "elements": (chosen, {"allowed": ALLOWED.astype("i4")}, {}, ALLOWED),
    "runs": (two_runs, {}, {}, (COLUMN < 3) | ((COLUMN > ROW) & (COLUMN < ROW + 9))),
    "distances": (near, {"lengths": LENGTHS}, {}, COLUMN < LENGTHS[:, None]),
}


def of_pairs(seen: Any, *factors: Any) -> Any:
    """The product of factors (rows, columns, …), 0 where nothing is seen."""
    with np.errstate(all="ignore"):
        found = math.prod(factors[1:], start=factors[0])
    return np.where(seen.reshape(seen.shape + (1,) * (found.ndim - 2)), found, 0)


def exact(distances: bool, seen: Any, do: Any, q: Any, k: Any, v: Any) -> tuple[Any, ...]:
    """Result, dq, dk, dv, pair by pair in float64."""
    q, do, k, v = q[:, None], do[:, None], k[None], v[None]
    with np.errstate(all="ignore"):
        if distances:
            p = of_pairs(seen, np.exp(-((q - k) ** 2).sum(-1)))
            ds = of_pairs(seen, p, (do * v).sum(-1))
            o, apart = of_pairs(seen, p[..., None], v).sum(1), -2 * (q - k)
            slopes = apart, -apart
        else:
            s = np.where(seen, (q * k).sum(-1), -math.inf)
            p = of_pairs(seen, np.exp(s - s.max(1, keepdims=True)))
            p = of_pairs(seen, p, 1 / p.sum(1, keepdims=True))
            o = of_pairs(seen, p[..., None], v).sum(1)
            ds = of_pairs(seen, p, (do * v).sum(-1) - (do[:, 0] * o).sum(-1)[:, None])
            slopes = k, q
        o = np.where(seen.any(1)[:, None] | distances, o, math.nan)
        return (o, of_pairs(seen, ds[..., None], slopes[0]).sum(1),
                of_pairs(seen, ds[..., None], slopes[1]).sum(0),
                of_pairs(seen, p[..., None], do).sum(0))


def spoiled(where: str, bad: float) -> dict[str, Any]:
    """The vectors, in float64, with one bad number in a row's or a column's."""
    drawn = np.random.default_rng(1)
    found = {n: drawn.normal(size=(ROWS if n in ("do", "q") else COLUMNS, 8)) / 2
             for n in ("do", "q", "k", "v")}
    if where:
        found[where][BAD_ROW if where in ("do", "q") else BAD_COLUMN, 3] = bad
    return found


Forward = Callable[..., Any]


def check(name: str, forward: Forward, backward: Forward, dtype: str, tolerance: float) -> None:
    pipeline, named, constants, seen = CASES[name]
    for where, bad in (("", 0.0), *((w, b) for w in ("do", "q", "k", "v")
                                    for b in (math.nan, math.inf))):
        given = {n: a.astype(dtype) for n, a in spoiled(where, bad).items()}
        want = exact(pipeline is near, seen, *(a.astype("f8") for a in given.values()))
        do, *others = given.values()
        found = (forward(*others, **named, **constants),
                 *backward(do, *others, **named, **constants))
        for what, one, right in zip(("o", "dq", "dk", "dv"), found, want, strict=True):
            one, fine = np.asarray(one, "f8"), np.isfinite(right)
            message = f"{name}: {what}, {bad} in {where}"
            assert np.array_equal(np.isfinite(one), fine), message
            np.testing.assert_allclose(one[fine], right[fine], tolerance, tolerance, message)


@pytest.mark.parametrize("name", CASES)
def test_on_cpus(name: str) -> None:
    pipeline, _, constants, _ = CASES[name]
    backward = fg.grad(pipeline, wrt=("q", "k", "v"), **constants)
    check(name, pipeline, backward, "float64", 1e-11)
