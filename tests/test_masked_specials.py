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
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select as select_tiles

ROWS, COLUMNS, BAD_ROW, BAD_COLUMN = 21, 40, 13, 17
_DRAWN = np.random.default_rng(0)
LENGTHS = _DRAWN.integers(0, COLUMNS + 1, ROWS)
LENGTHS[[2, BAD_ROW]] = 0, 15
AT = _DRAWN.integers(0, COLUMNS, ROWS)
KEPT = _DRAWN.random(COLUMNS) < 0.6
KEPT[BAD_COLUMN] = False
ALLOWED = _DRAWN.random((ROWS, COLUMNS)) < 0.4
ROW, COLUMN = np.arange(ROWS)[:, None], np.arange(COLUMNS)


@pytest.fixture(autouse=True)
def _engines_also_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LITTLE", -1)


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
def filled(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, kept: fg.PerColumn):
    """Masks of what is not seen, as torch's masked_fill has them."""
    s = fg.dot(q, k)
    s = fg.where(fg.index(s) > fg.row(s) + 9, -math.inf, s)
    return softmax_of(fg.where(~(kept > 0), -math.inf, s), v)


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
    "lengths": attention(LENGTHS[:, None] > COLUMN, {"lengths": LENGTHS}),
    "causal": attention(COLUMN <= ROW, {}, causal=True),
    "positions": attention((AT[:, None] >= COLUMN) & (AT[:, None] - 9 < COLUMN),
                           {"positions": AT}, causal=True, window=9),
    "both": attention((COLUMN <= ROW) & (LENGTHS[:, None] > COLUMN), {"lengths": LENGTHS},
                      causal=True),
    "padding": (padded, {"kept": KEPT.astype("i4")}, {}, KEPT & (ROW >= 0)),
    "filled": (filled, {"kept": KEPT.astype("i4")}, {}, KEPT & (ROW + 9 >= COLUMN)),
    "elements": (chosen, {"allowed": ALLOWED.astype("i4")}, {}, ALLOWED),
    "runs": (two_runs, {}, {}, (COLUMN < 3) | ((COLUMN > ROW) & (COLUMN < ROW + 9))),
    "distances": (near, {"lengths": LENGTHS}, {}, LENGTHS[:, None] > COLUMN),
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


def spoiled(where: str, bad: float, length: int = 8) -> dict[str, Any]:
    """The vectors, in float64, with one bad number in a row's or a column's."""
    drawn = np.random.default_rng(1)
    found = {n: drawn.normal(size=(ROWS if n in ("do", "q") else COLUMNS, length)) / 2
             for n in ("do", "q", "k", "v")}
    if where:
        found[where][BAD_ROW if where in ("do", "q") else BAD_COLUMN, 3 % length] = bad
    return found


Forward = Callable[..., Any]


def check(name: str, forward: Forward, backward: Forward, dtype: str, tolerance: float,
          length: int = 8) -> None:
    pipeline, named, constants, seen = CASES[name]
    for where, bad in (("", 0.0), *((w, b) for w in ("do", "q", "k", "v")
                                    for b in (math.nan, math.inf))):
        given = {n: a.astype(dtype) for n, a in spoiled(where, bad, length).items()}
        want = exact(pipeline is near, seen, *(a.astype("f8") for a in given.values()))
        do, *others = given.values()
        found = (forward(*others, **named, **constants),
                 *backward(do, *others, **named, **constants))
        for what, one, right in zip(("o", "dq", "dk", "dv"), found, want, strict=True):
            agree(one, right, tolerance, f"{name}: {what}, {bad} in {where}")


def agree(found: Any, want: Any, tolerance: float, message: str) -> None:
    found, fine = np.asarray(found, "f8"), np.isfinite(want)
    assert np.array_equal(np.isfinite(found), fine), message
    np.testing.assert_allclose(found[fine], want[fine], tolerance, tolerance, message)


@pytest.mark.long
@pytest.mark.parametrize(("name", "length"), [*((n, 8) for n in CASES), ("padding", 1),
                                              ("elements", 1)])
def test_on_cpus(name: str, length: int) -> None:
    pipeline, _, constants, _ = CASES[name]
    backward = fg.grad(pipeline, wrt=("q", "k", "v"), **constants)
    check(name, pipeline, backward, "float64", 1e-11, length)


# ---- GPUs ----


@fg.pipeline
def of_columns(k: fg.RowVector, v: fg.RowVector, q: fg.ColumnVector, do: fg.ColumnVector,
               m: fg.PerColumn, lengths: fg.PerColumn):
    """dk and dv of unnormalised attention, as columns have them."""
    p = fg.exp(fg.dot(k, q) - m)
    seen = fg.row(p) < lengths
    ds = fg.where(seen, p * fg.dot(v, do), 0.0)
    return fg.sum(ds * q), fg.sum(fg.where(seen, p, 0.0) * do)


@fg.pipeline
def of_loaded(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, kept: fg.PerColumn,
              allowed):
    """Of scores that a column's number and an element leave."""
    s = fg.dot(q, k)
    return softmax_of(fg.where((kept > 0) & (allowed > 0), s, -math.inf), v)


@fg.pipeline
def apart(q: fg.RowVector, k: fg.ColumnVector, kept: fg.PerColumn):
    """Vectors that are folded one by one."""
    s = fg.exp(-fg.sqdist(q, k))
    return fg.sum(fg.where(kept > 0, s, 0) * (q - k))


ENGINES = {"wgmma": ("bfloat16", "sm_90"), "mma": ("bfloat16", "sm_80"),
           "fma": ("float32", "sm_90")}


def emulated_by(engine: str, text: Any, *arrays: Any) -> Any:
    arch = ENGINES[engine][1]
    assert prepared(text, *arrays, arch=arch)[1].schedule.engine == engine
    return emulate(text, *arrays, arch=arch)


def vectors(engine: str, *rows: int) -> list[Any]:
    drawn = np.random.default_rng(2)
    return [(drawn.normal(size=(n, 16)) / 2).astype(ENGINES[engine][0]) for n in rows]


@emulated
@pytest.mark.parametrize("engine", ENGINES)
def test_columns_on_gpus(engine: str) -> None:
    n, m = 150, 200
    k, v, q, do = vectors(engine, n, n, m, m)
    shift = np.full(m, 0.5, "f4")
    lengths = np.random.default_rng(3).integers(0, n, m)
    lengths[30], lengths[190] = 40, 0
    q[30, 3], do[30, 5], do[190, 2], shift[190] = np.nan, np.inf, np.nan, np.nan
    found = emulated_by(engine, of_columns, k, v, q, do, shift, lengths)
    seen, (k, v, q, do) = np.arange(n)[:, None] < lengths, (a.astype("f8") for a in (k, v, q, do))
    with np.errstate(all="ignore"):
        p = of_pairs(seen, np.exp(k @ q.T - shift))
        ds = of_pairs(seen, p, v @ do.T)
    for one, (weights, of) in zip(found, ((ds, q), (p, do)), strict=True):
        agree(one, of_pairs(seen, weights[..., None], of[None]).sum(1),
              3e-2 if engine != "fma" else 3e-5, engine)


@fg.pipeline
def ahead(q: fg.RowVector, k: fg.ColumnVector):
    """A list of scores of which rows have fewer than it holds: others are −∞, the first of them."""
    s = fg.dot(q, k)
    return fg.topk(fg.where(fg.index(s) >= fg.row(s), s, -math.inf), 3)


@emulated
@pytest.mark.parametrize("engine", ["mma", "fma"])
def test_lists_of_what_is_left_on_gpus(engine: str) -> None:
    q, k = vectors(engine, 41, 41)
    values, columns = emulated_by(engine, ahead, q, k)
    s = np.where(np.tri(41, k=-1, dtype=bool), -math.inf, q.astype("f8") @ k.astype("f8").T)
    order = np.argsort(-s, axis=1, kind="stable")[:, :3]
    assert np.array_equal(columns, order)
    agree(values, np.take_along_axis(s, order, 1), 1e-2 if engine == "mma" else 1e-5, engine)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_loaded_on_gpus(engine: str) -> None:
    n, m = 150, 200
    q, k, v = vectors(engine, n, m, m)
    drawn = np.random.default_rng(4)
    kept = (drawn.random(m) < 0.8).astype("i4")
    allowed = (drawn.random((n, m)) < 0.7).astype("i4")
    kept[[7, 150]] = 0
    k[7, 3], v[150, 3], v[60, 5] = np.nan, np.inf, np.nan
    found = emulated_by(engine, of_loaded, q, k, v, kept, allowed)
    seen, (q, k, v) = (kept > 0) & (allowed > 0), (a.astype("f8") for a in (q, k, v))
    with np.errstate(all="ignore"):
        s = np.where(seen, q @ k.T, -math.inf)
        p = of_pairs(seen, np.exp(s - s.max(1, keepdims=True)))
    want = of_pairs(seen, p[..., None], v[None]).sum(1) / p.sum(1)[:, None]
    agree(found, want, 3e-2 if engine != "fma" else 3e-5, engine)


@emulated
def test_vectors_one_by_one_on_gpus() -> None:
    q, k = vectors("fma", 40, 90)
    kept = (np.arange(90) % 3 > 0).astype("i4")
    k[33, 2], k[36] = np.nan, np.inf
    found = emulated_by("fma", apart, q, k, kept)
    p = of_pairs(np.tile(kept > 0, (40, 1)), np.exp(-((q[:, None] - k) ** 2).sum(-1)))
    agree(found, of_pairs(np.tile(kept > 0, (40, 1)), p[..., None], q[:, None] - k[None]).sum(1),
          3e-5, "one by one")
