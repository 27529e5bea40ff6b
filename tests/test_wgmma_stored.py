"""Stored elements beside scores of the wgmma engine: brought to shared memory with tiles' columns
where their rows begin on boundaries, read where they lie elsewhere."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import vector_cases as vc
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select as select_tiles


@pytest.fixture(autouse=True)
def _also_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LITTLE", -1)


@fg.pipeline
def of_earlier(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, bias):
    """Tiles of which some rows have no column, and some have not all."""
    s = fg.where(fg.index(bias) <= fg.row(bias), fg.dot(q, k) + bias, -math.inf)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p)


@fg.pipeline
def of_two(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, factor, mask):
    """Elements of different widths, and sums about no reference."""
    s = fg.where(mask, fg.dot(q, k) * factor, 0.0)
    return fg.sum(s * v), fg.max(s)


def vectors(n: int, m: int, *lead: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng((n, m))
    q, k, v = (random.standard_normal((*lead, r, 24)) / 2 for r in (n, m, m))
    return tuple(x.astype(ml_dtypes.bfloat16) for x in (q, k, v))


def elements(n: int, m: int, pitch: int, *lead: int, dtype: str = "bfloat16") -> Any:
    """Rows `pitch` elements apart, NaN between them: no row's."""
    made = np.full((*lead, n, pitch), np.nan)
    made[..., :m] = np.random.default_rng((1, n, m)).standard_normal((*lead, n, m))
    return made.astype(getattr(ml_dtypes, dtype, dtype))[..., :m]


def check(text: Any, *arrays: Any, brings: bool = True, **more: Any) -> None:
    """Results of tiles that bring elements, or do not, against float64."""
    _, work = prepared(text, *arrays)
    assert (work.schedule.engine, work.schedule.brings) == ("wgmma", brings)
    wide = [a if a.dtype == bool else a.astype("f8") for a in arrays]
    found, want = emulate(text, *arrays, **more), text.reference(*wide)
    for f, w in zip(found if isinstance(found, tuple) else (found,),
                    want if isinstance(want, tuple) else (want,), strict=True):
        scale = np.abs(w).max()
        np.testing.assert_allclose(np.asarray(f, "f8"), w, rtol=2e-2, atol=2e-2 * scale)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "m", "pitch", "dtype"), [
    (300, 203, 208, "bfloat16"),  # the last columns end within 16 bytes
    (70, 140, 140, "float32"),
])
def test_rows_that_begin_on_boundaries(n: int, m: int, pitch: int, dtype: str) -> None:
    q, k, v = vectors(n, m, 2)
    bias = elements(n, m, pitch, 2, dtype=dtype)
    check(vc.about_stored, q, k, v, bias, multiprocessors=3, seed=1)


@emulated
def test_rows_that_begin_anywhere() -> None:
    q, k, v = vectors(70, 203)
    check(vc.about_stored, q, k, v, elements(70, 203, 203), brings=False)
    check(vc.about_stored, q, k, v, elements(70, 204, 208)[:, 1:], brings=False)


@pytest.mark.long
@emulated
def test_tiles_that_are_passed() -> None:
    q, k, v = vectors(300, 300, 2)
    check(of_earlier, q, k, v, elements(300, 300, 304, 2), multiprocessors=3, seed=2)


@emulated
def test_blocks_that_share_rows() -> None:
    q, k, v = vectors(5, 1500)
    check(vc.about_stored, q, k, v, elements(5, 1500, 1504), multiprocessors=5, seed=1)


@emulated
def test_several_elements() -> None:
    n, m = 70, 300
    mask = np.random.default_rng(2).random((n, 304)) < 0.5
    check(of_two, *vectors(n, m), elements(n, m, 304, dtype="float32"), mask[:, :m])


@emulated
@pytest.mark.parametrize("size", [math.inf, -math.inf, 1e30])
def test_elements_of_any_size(size: float) -> None:
    """Rows whose reference is lost are made once more, of elements where they lie."""
    q, k, v = vectors(70, 203)
    bias = elements(70, 203, 208)
    bias[3, 100], bias[65, 7:9] = size, size
    _, work = prepared(vc.about_stored, q, k, v, bias)
    assert work.schedule.brings
    with np.errstate(invalid="ignore"):
        want = vc.about_stored.reference(*(a.astype("f8") for a in (q, k, v, bias)))
    np.testing.assert_allclose(np.asarray(emulate(vc.about_stored, q, k, v, bias), "f8"), want,
                               rtol=2e-2, atol=2e-2)
