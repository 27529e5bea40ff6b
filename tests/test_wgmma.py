"""The wgmma engine on the emulator, against float64: what its copies, stages and products do with
shapes that fit no tile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import vector_cases as vc
from support.cases import leaves
from support.emulated import emulated
from support.tiles import emulate, prepared

import fusegen as fg
from fusegen.backend.cuda.schedule.tiles import select as select_tiles
from fusegen.backend.cuda.schedule.tiles import wgmma as sizes
from fusegen.backend.cuda.schedule.tiles.splits import splits_of
from fusegen.ir.errors import InternalError


@pytest.fixture(autouse=True)
def _also_of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select_tiles, "LITTLE", -1)


def drawn(*shape: int, seed: int = 0, dtype: str = "bfloat16") -> Any:
    numbers = np.random.default_rng((seed, *shape)).standard_normal(shape)
    return numbers.astype(getattr(ml_dtypes, dtype, dtype))


def close(found: Any, want: Any, tolerance: float = 2e-2) -> None:
    for f, w in zip(leaves(found), leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(f, "f8"), np.asarray(w, "f8"), rtol=tolerance,
                                   atol=tolerance)


def check(text: Any, *arrays: Any, tolerance: float = 2e-2, **more: Any) -> None:
    """The engine's results are the text's in float64."""
    _, work = prepared(text, *arrays)
    assert work.schedule.engine == "wgmma"
    wide = [a.astype("f8") if a.dtype.itemsize == 2 else a for a in arrays]
    close(emulate(text, *arrays, **more), text.reference(*wide), tolerance)


def of(n: int, m: int, d: int, e: int, *lead: int, dtype: str = "bfloat16") -> tuple[Any, ...]:
    return (drawn(*lead, n, d, dtype=dtype) / 4, drawn(*lead, m, d, seed=1, dtype=dtype),
            drawn(*lead, m, e, seed=2, dtype=dtype))


@emulated
@pytest.mark.parametrize(("n", "m", "d", "e"), [
    (1, 1, 8, 8), (1, 300, 16, 256), (70, 130, 24, 40), (200, 129, 64, 64), (130, 90, 104, 72),
    (65, 257, 256, 128),
])
def test_shapes_that_fill_no_tile(n: int, m: int, d: int, e: int) -> None:
    check(vc.attention, *of(n, m, d, e))


@emulated
@pytest.mark.parametrize(("text", "seed"), [(vc.causal, 1), (vc.best, 2)])
def test_items_in_any_order(text: Any, seed: int) -> None:
    """More items than blocks, of several lengths, and blocks that start when they like."""
    check(text, *of(300, 300, 40, 40, 2)[: len(text.signature.arrays)], seed=seed,
          multiprocessors=3)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("batches", [1, 5])
def test_batches_that_go_together(batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some at a time, not as many each time: the longest rows of all of them first."""
    monkeypatch.setattr(sizes, "CACHED", 2 * 300 * 2 * 2 * 24)
    q, k, v = of(300, 300, 24, 24, 2 * batches)
    q = q.reshape(batches, 2, 300, 24)
    check(vc.causal, q, k[:batches, None], v[:batches, None], seed=1, multiprocessors=3)


@emulated
@pytest.mark.parametrize("name", vc.MASKED)
def test_columns_that_masks_leave_out(name: str) -> None:
    q, k, v = of(210, 190, 16, 24)
    lengths = np.random.default_rng(0).integers(0, 190, 210)
    lengths[:70] = 0  # a warpgroup without columns
    check(vc.MASKED[name], q, k, v, lengths)


@emulated
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_left_out_has_no_effect(bad: float) -> None:
    """Not by way of 0 · NaN either, in tiles that other rows look at."""
    q, k, v = of(200, 200, 16, 24)
    wanted = emulate(vc.causal, q[:90], k[:90], v[:90])
    k[90:], v[90:] = bad, bad
    found = emulate(vc.causal, q, k, v)
    close(tuple(x[:90] for x in found), wanted)
    assert not np.isfinite(np.asarray(found[0][91:], "f4")).any()


@emulated
def test_weights_that_overflow_16_bits() -> None:
    """Rounded to float16 they were infinite."""
    q, k, v = of(70, 150, 16, 8, dtype="float16")
    q[3] *= 100
    k[5] = 1000
    check(vc.averaged, q, k, v / np.float16(1e4), tolerance=0.5)


@emulated
@pytest.mark.parametrize("text", [vc.attention, vc.best, vc.averaged], ids=lambda p: p.name)
def test_blocks_that_share_rows(text: Any) -> None:
    """Few rows of many columns: the last warp merges what all have found."""
    arrays = of(5, 1500, 16, 24)[: len(text.signature.arrays) - (text is vc.attention)]
    cancels = text is vc.averaged  # weights of both signs, each rounded to 8 digits
    check(text, *arrays, multiprocessors=5, seed=1, tolerance=0.2 if cancels else 2e-2)


@emulated
@pytest.mark.parametrize("size", [1e-3, 60.0, 400.0, 1e5])
def test_scores_of_any_size(size: float) -> None:
    """Far from 0, exponents of fused operations would be off by more than what is left of them."""
    q, k, v = of(70, 200, 16, 24)
    q, k = ((x.astype("f8") * size).astype(x.dtype) for x in (q, k))
    check(vc.attention, q, k, v)
    _, work = prepared(vc.attention, q, k, v, scale=0.3)
    assert "fmaf(dot_scores" in work.source


@fg.pipeline
def ends(q: fg.RowVector, k: fg.ColumnVector):
    s = fg.dot(q, k)
    return fg.argmax(s), fg.argmin(s)


@emulated
@pytest.mark.parametrize("special", [0.0, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_the_first_of_equals(special: float, dtype: str) -> None:
    """Few different scores, in tiles and across them; and columns that beat all others."""
    q, k = (np.sign(drawn(n, 8, seed=n, dtype="float32")) for n in (70, 300))
    k[[150, 270], 0] = special
    q, k = (x.astype(getattr(ml_dtypes, dtype, dtype)) for x in (q, k))
    found = emulate(ends, q, k, seed=1, multiprocessors=3)
    with np.errstate(invalid="ignore"):
        s = q.astype("f8") @ k.astype("f8").T
    for got, want in zip(found, (s.argmax(1), s.argmin(1)), strict=True):
        np.testing.assert_array_equal(got, want)


@fg.pipeline
def capped(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    s = 3.0 * fg.tanh(fg.dot(q, k) / 3.0)
    p = fg.exp(s - fg.max(s))
    return fg.sum(p * v) / fg.sum(p), fg.sum(fg.tanh(fg.dot(q, k) * 1e-5) * v)


@emulated
def test_tangents() -> None:
    q, k, v = of(70, 130, 16, 8)
    k[7], q[3] = 0, q[3] * 300
    found = emulate(capped, q, k, v)
    want = capped.reference(*(x.astype("f8") for x in (q, k, v)))
    close(found[0], want[0])
    close(np.asarray(found[1], "f8") * 1e3, want[1] * 1e3, 0.1)


@pytest.mark.long
@emulated
def test_queries_share_keys() -> None:
    q, k, v = drawn(2, 3, 4, 70, 16), drawn(2, 3, 1, 150, 16, seed=1), drawn(2, 1, 1, 150, 8)
    check(vc.attention, q, k, v, multiprocessors=3)


@emulated
@pytest.mark.parametrize(("text", "rows"), [
    (vc.attention, 1), (vc.attention, 2), (vc.attention, 4), (vc.attention, 27), (vc.averaged, 3)])
def test_blocks_that_share_few_rows(text: Any, rows: int) -> None:
    """Lanes of rows that are not there read parts of others, of which there are six."""
    arrays = of(rows, 1300, 24, 40)
    assert splits_of(1, 11, 6) == 6
    assert prepared(text, *arrays)[1].schedule.warps == 4  # as many warpgroups as have rows
    check(text, *arrays, multiprocessors=6, tolerance=0.2 if text is vc.averaged else 2e-2)


@emulated
def test_float16_and_rows_apart() -> None:
    q, k, v = of(40, 150, 64, 32, dtype="float16")
    check(vc.attention, q[::2, 16:40], k[:, 16:40], v[:, 8:])


@emulated
def test_what_lies_behind_a_batch_is_no_part_of_it() -> None:
    """The last tile of a head ends in the next head's columns."""
    q, k, v = of(5, 130, 16, 8, 3)
    wanted = np.asarray(emulate(vc.attention, q, k, v), "f4")
    k[1:], v[1:] = np.nan, np.inf
    found = np.asarray(emulate(vc.attention, q, k, v), "f4")
    np.testing.assert_array_equal(found[0], wanted[0])
    assert np.isnan(found[1:]).all()


def test_what_the_engine_leaves_to_others() -> None:
    q, k, v = of(5, 130, 16, 8)
    engine = {
        "16 bits": prepared(vc.attention, q, k, v),
        "float32": prepared(vc.attention, *(a.astype("f4") for a in (q, k, v))),
        "two types": prepared(vc.attention, q, k, v.astype("f2")),
        "rows that begin anywhere": prepared(vc.attention, q[:, :7], k[:, :7], v),
        "addresses of 8 bytes": prepared(vc.attention, q[:, 4:12], k[:, 4:12], v),
        "an older GPU": prepared(vc.attention, q, k, v, arch="sm_80"),
        "a later GPU": prepared(vc.attention, q, k, v, arch="sm_100"),
        "several sums": prepared(vc.differences, q, k, k),
        "elements as results": prepared(vc.attended, q, k),
    }
    assert [n for n, (_, w) in engine.items() if w.schedule.engine == "wgmma"] == ["16 bits"]


def test_splits_give_all_multiprocessors_as_much_to_do() -> None:
    assert splits_of(40, 7813, 132) == 33
    assert splits_of(2048, 32, 132) == splits_of(132, 1000, 132) == 1
    assert splits_of(4096, 128, 132) == 1  # one part of 132 less is not worth a merge
    assert splits_of(1, 4, 132) <= 4
    assert splits_of(1, 0, 132) == splits_of(0, 0, 132) == 1


@emulated
def test_tiles_of_more_items_than_a_word_has_bits() -> None:
    """The last tile of a row has columns that are none."""
    _, work = prepared(vc.with_entropy, *of(70, 1030, 64, 64))
    assert work.schedule.columns > 128
    check(vc.with_entropy, *of(70, 1030, 64, 64))


@emulated
def test_few_columns_have_narrow_tiles_beside_a_second_statistic_too() -> None:
    _, work = prepared(vc.with_entropy, *of(70, 420, 64, 64))
    assert (work.schedule.warps, work.schedule.columns) == (16, 64)
    check(vc.with_entropy, *of(70, 420, 64, 64))


@emulated
@pytest.mark.parametrize("engine", ["wgmma", "mma"])
@pytest.mark.parametrize("columns", [16, 48, 112, 144, 208, 240])
def test_tiles_of_any_sixteens(columns: int, engine: str) -> None:
    """Of other numbers the last weights would be left out: such tiles are refused."""
    arrays = of(70, 500, 24, 40)
    _, work = prepared(vc.causal, *arrays)
    schedule = replace(work.schedule, columns=columns, engine=engine, warps=8, stages=2)
    wide = [a.astype("f8") for a in arrays]
    close(emulate(vc.causal, *arrays, schedule=schedule), vc.causal.reference(*wide))
    for other in (columns - 8, columns + 4):
        with pytest.raises(InternalError, match=f"tiles of {other} columns"):
            assert work.scheduled(replace(schedule, columns=other)).source
