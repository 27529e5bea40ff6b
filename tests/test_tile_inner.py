"""Sums over the index of vectors that rows make, on emulated GPUs: in one call, by every engine."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.emulated import EMULATED
from support.tile_cases import close, drawn
from support.tiles import emulate, prepared

import fusegen as fg

pytestmark = EMULATED
BFLOAT16 = ml_dtypes.bfloat16


@fg.pipeline
def normed(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    s = fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    o = fg.sum(p * v) / fg.sum(p)
    return o / fg.sqrt(fg.inner(o * o)), fg.inner(o * o)


@fg.pipeline
def several(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """Of two sums, and of one with the row's own vector."""
    s = fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    o = fg.sum(p * v) / fg.sum(p)
    return fg.inner(o * fg.mean(v)), fg.dot(fg.max(k), q), fg.sqdist(fg.mean(k), q)


@fg.pipeline
def labelled(q: fg.RowVector, k: fg.ColumnVector, label: fg.PerRow):
    """With the vector of one column; NaN where there is none."""
    return fg.dot(fg.mean(k), fg.take(k, label)) + 0 * fg.max(fg.dot(q, k))


@fg.pipeline
def again(q: fg.RowVector, k: fg.ColumnVector):
    """In a later sweep."""
    s = fg.dot(q, k)
    o = fg.mean(k)
    return fg.sum(fg.exp(s / fg.sqrt(1 + fg.inner(o * o)) - fg.max(s)))


@fg.pipeline
def beside_a_list(q: fg.RowVector, k: fg.ColumnVector):
    o = fg.mean(k)
    values, columns = fg.topk(fg.dot(q, k), 3)
    return values * fg.inner(o * o), columns, fg.dot(o, q) * fg.sum(values)


def vectors(rows: int, columns: int, d: int, width: int, dtype: Any = np.float32) -> list[Any]:
    return [drawn(n, w, seed=i).astype(dtype)
            for i, (n, w) in enumerate(((rows, d), (columns, d), (columns, width)))]


def agrees(text: Any, *arrays: Any, arch: str = "sm_90", tolerance: float = 2e-5) -> str:
    found = emulate(text, *arrays, arch=arch)
    close(found, text.reference(*arrays), tolerance)
    return str(prepared(text, *arrays, arch=arch)[1].schedule.engine)


@pytest.mark.long
@pytest.mark.parametrize(("rows", "width"), [(20, 5), (4, 70), (20, 200)])
def test_by_cuda_cores(rows: int, width: int) -> None:
    """Vectors of any length are a block's own, also those of more numbers than one has usually."""
    assert agrees(normed, *vectors(rows, 90, 8, width)) == "fma"


@pytest.mark.parametrize(("rows", "width", "arch", "engine"), [
    (70, 24, "sm_90", "wgmma"), (70, 24, "sm_80", "mma"), (4, 24, "sm_80", "mma"),
    (20, 300, "sm_80", "mma"), (20, 600, "sm_80", "fma")])
def test_of_16_bits(rows: int, width: int, arch: str, engine: str) -> None:
    arrays = vectors(rows, 300, 16, width, BFLOAT16)
    assert agrees(normed, *arrays, arch=arch, tolerance=2e-2) == engine


def test_of_several_vectors() -> None:
    agrees(several, *vectors(20, 90, 8, 8))


def test_with_the_vector_of_a_column() -> None:
    q, k, _ = vectors(20, 90, 8, 8)
    label = np.arange(20) - 1
    found = emulate(labelled, q, k, label)
    close(found[1:], labelled.reference(q, k, label)[1:], 2e-5)
    assert np.isnan(found[0])


def test_in_a_later_sweep_and_beside_a_list() -> None:
    q, k, _ = vectors(20, 90, 8, 8)
    agrees(again, q, k)
    agrees(beside_a_list, q, k)


@fg.pipeline
def hamming(x: fg.RowVector, y: fg.ColumnVector, v: fg.ColumnVector):
    """Elements that are whole numbers."""
    d = fg.inner(fg.where(x != y, 1, 0))
    return fg.sum(d), fg.max(d), fg.sum(fg.where(d > 2, 1.0, 0.0) * v)


@pytest.mark.parametrize("run", [emulate, lambda text, *arrays: text(*arrays)],
                         ids=["GPU", "CPU"])
def test_how_many_numbers_differ(run: Any) -> None:
    drawn_from = np.random.default_rng(0)
    x, y = (drawn_from.integers(0, 3, (n, 5)).astype("f4") for n in (20, 70))
    v = drawn_from.integers(-3, 4, (70, 6)).astype("f4")
    apart = (x[:, None] != y).sum(-1)
    total, most, sums = run(hamming, x, y, v)
    assert np.array_equal(np.ravel(total), apart.sum(1))
    assert np.array_equal(np.ravel(most), apart.max(1))
    assert np.array_equal(sums, (apart > 2) @ v)
