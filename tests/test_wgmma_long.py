"""The wgmma engine over long vectors on the emulator, against float64: chunks of both sides pass
through shared memory, a tile's scores stay in registers over all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import nvrtc
from support import vector_cases as vc
from support.cases import leaves
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.cuda.emit.tiles import wgmma_long as printed
from fusegen.backend.cuda.schedule.tiles.wgmma_long import long_splits
from fusegen.compile.passes import Work

compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))
cross_entropy = fg.library.linear_cross_entropy


def drawn(*shape: int, seed: int = 0, dtype: str = "bfloat16") -> Any:
    numbers = np.random.default_rng((seed, *shape)).standard_normal(shape) / 4
    return numbers.astype(getattr(ml_dtypes, dtype, dtype))


@fg.pipeline
def statistics(h: fg.RowVector, w: fg.ColumnVector, b: fg.PerColumn, t: fg.PerRow):
    s = fg.dot(h, w) * t + b
    return fg.argmax(s), fg.max(s), fg.logsumexp(s), fg.min(fg.abs(s))


@fg.pipeline
def both_ends(h: fg.RowVector, w: fg.ColumnVector):
    s = fg.dot(h, w)
    return fg.topk(s, 3), fg.topk(s, 3, largest=False)


def close(found: Any, want: Any, tolerance: float = 1e-2) -> None:
    for f, w in zip(leaves(found), leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(f, "f8"), np.asarray(w, "f8"), rtol=tolerance,
                                   atol=tolerance)


def check(text: Any, *arrays: Any, **more: Any) -> None:
    """The engine's results are the text's in float64."""
    _, work = prepared(text, *arrays, form="online")
    assert work.schedule.chunked
    wide = [a.astype("f8") if a.dtype.itemsize == 2 else a for a in arrays]
    close(emulate(text, *arrays, form="online", **more), text.reference(*wide))


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "m", "d", "dtype"), [
    (1, 1, 264, "bfloat16"), (5, 300, 264, "float16"), (64, 128, 320, "bfloat16"),
    (65, 257, 272, "bfloat16"), (130, 520, 328, "bfloat16"),
])
def test_shapes_that_fill_no_tile(n: int, m: int, d: int, dtype: str) -> None:
    bias, factor = drawn(m, dtype="float32"), drawn(n, dtype="float32")
    check(statistics, drawn(n, d, dtype=dtype), drawn(m, d, seed=1, dtype=dtype), bias, factor,
          multiprocessors=3)


@pytest.mark.long
@emulated
@pytest.mark.parametrize(("n", "m"), [(3, 1000), (140, 1100)])
def test_blocks_that_share_rows(n: int, m: int) -> None:
    """Labels are the last block's to look up, by four lanes a row; those out of range give NaN."""
    label = np.random.default_rng(0).integers(0, m, n)
    label[:2] = -1, m
    check(cross_entropy, drawn(n, 264), drawn(m, 264, seed=1), label, multiprocessors=5, seed=1)


@pytest.mark.long
@emulated
@pytest.mark.usefixtures("altered_sources")
def test_items_are_all_done_once_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """More tiles of rows than go together, in several batches."""
    monkeypatch.setattr(printed, "GROUPED", 2)
    h, w = drawn(2, 600, 264), drawn(2, 270, 264, seed=1)
    label = np.random.default_rng(0).integers(0, 270, (2, 600))
    check(cross_entropy, h, w, label, seed=2, multiprocessors=3)


@emulated
def test_rows_of_a_batch_share_its_columns() -> None:
    h, w = drawn(2, 3, 70, 264), drawn(2, 1, 150, 264, seed=1)
    label = np.random.default_rng(0).integers(0, 150, (2, 3, 70))
    check(cross_entropy, h, w, label, multiprocessors=3)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(bad: float) -> None:
    h, w, bias, factor = drawn(5, 264), drawn(300, 264, seed=1), drawn(300), drawn(5)
    h[2, 100], w[290, 263] = bad, bad
    with np.errstate(invalid="ignore"):
        check(statistics, h, w, bias.astype("f4"), factor.astype("f4"), multiprocessors=3)


@emulated
def test_one_tree_for_any_number_of_rows() -> None:
    h, w = drawn(150, 264), drawn(700, 264, seed=1)
    label = np.random.default_rng(0).integers(0, 700, 150)
    _, work = prepared(cross_entropy, h, w, label, form="online")
    asked = Work(work.typed, work.target, replace(work.problem, any_rows=True)).schedule
    many = emulate(cross_entropy, h, w, label, schedule=asked)
    assert Work(work.typed, work.target, replace(work.problem, any_rows=True, n_rows=1,
                                                 batch_rows=1)).schedule == asked
    for rows in (slice(0, 1), slice(70, 73), slice(149, 150)):
        few = emulate(cross_entropy, h[rows].copy(), w, label[rows], schedule=asked)
        np.testing.assert_array_equal(few, many[rows])


def test_what_the_engine_leaves_to_others() -> None:
    h, w, label = drawn(5, 264), drawn(1030, 264, seed=1), np.zeros(5, "i8")
    works = {  # each asks for a form: nothing is stored
        "long": prepared(cross_entropy, h, w, label, form="online"),
        "short": prepared(cross_entropy, h[:, :256].copy(), w[:, :256].copy(), label),
        "float32": prepared(cross_entropy, h.astype("f4"), w.astype("f4"), label, form="online"),
        "two types": prepared(cross_entropy, h, w.astype("f2"), label, form="online"),
        "rows that begin anywhere": prepared(cross_entropy, h[:, :263], w[:, :263], label,
                                            form="online"),
        "an older GPU": prepared(cross_entropy, h, w, label, arch="sm_80"),
        "sums of vectors": prepared(vc.attention, h, w, w),
        "a list": prepared(fg.library.head_topk, h, w, form="online"),
        "two lists": prepared(both_ends, h, w, form="online"),
        "a list that is long": prepared(fg.library.head_topk, h, w, k=513, form="online"),
        "masks": prepared(vc.causal, h, w, w),
        "differences": prepared(fg.library.kmeans_assign, h, w),
    }
    assert [n for n, (_, w) in works.items() if w.schedule.chunked] == ["long", "a list"]


def test_the_last_items_end_together() -> None:
    for row_tiles, column_tiles in ((1, 1002), (1, 501), (8, 501), (64, 501), (1000, 4)):
        splits = long_splits(row_tiles, column_tiles, 132)
        rounds = -(-row_tiles * splits // 132) * -(-column_tiles // splits)
        assert rounds <= 1.07 * row_tiles * column_tiles / 132 + 1
    assert long_splits(1, 0, 132) == long_splits(0, 0, 132) == 1


@pytest.mark.long
@compiled
@pytest.mark.parametrize("rows", [1, 4096])
@pytest.mark.parametrize("text", [cross_entropy, statistics], ids=lambda p: p.name)
def test_products_run_beside_threads(text: Any, rows: int) -> None:
    """Not one of them waits for the one before, and registers are enough; of many numbers of a
    state some lie elsewhere while a tile is folded, once in all its chunks."""
    kinds = {"labels": "int64", "b": "float32", "t": "float32"}
    names = [a for a in text.signature.arrays if a not in text.signature.optional]
    work = text.work(target="sm_90", n_rows=rows, n_cols=4096, form="online",
                     dtype={a: kinds.get(a, "bfloat16[4096]") for a in names})
    assert work.schedule.chunked
    found = nvrtc.compile_for(work.source, work.schedule.arch)
    assert not found.serialised
    (report,) = found.reports
    assert report.spill_bytes <= (0 if text is cross_entropy or rows == 1 else 2048)
