"""Rows over vectors of 16 bits by mma.sync, on the emulator, against the texts in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import nvrtc
from support import vector_cases as vc
from support.emulated import EMULATED
from support.tile_cases import CASES, close, drawn
from support.tiles import emulate, prepared

import fusegen as fg

pytestmark = EMULATED
compiled = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

BFLOAT16, TOLERANCE = ml_dtypes.bfloat16, 2e-2
"""Vectors, and what weights and results lose of their bits."""


def of_16_bits(array: Any, dtype: Any = BFLOAT16) -> Any:
    return array.astype(dtype) if array.dtype == np.float32 else array


def vectors(rows: int, columns: int, d: int, width: int) -> tuple[Any, ...]:
    return tuple(map(of_16_bits, (
        drawn(rows, d), drawn(columns, d, seed=1), drawn(columns, width, seed=2))))


def run(text: Any, *arrays: Any, **named: Any) -> Any:
    """The results, by the engine of a GPU that has no other for tensor cores."""
    _, work = prepared(text, *arrays, arch="sm_80",
                       **{n: v for n, v in named.items() if n != "multiprocessors"})
    assert work.schedule.engine == "mma", work.schedule.describe()
    return emulate(text, *arrays, arch="sm_80", **named)


def agrees(text: Any, *arrays: Any, multiprocessors: int = 2, **constants: Any) -> None:
    found = run(text, *arrays, multiprocessors=multiprocessors, **constants)
    close(found, text.reference(*arrays, **constants), TOLERANCE)


@pytest.mark.long
@pytest.mark.parametrize(("name", "rows"), [
    ("bias", 21), ("bias", 5), ("causal", 21), ("linear_cross_entropy", 5), ("attended", 21),
    ("head", 21), ("head", 5), ("ragged", 5), ("ragged", 21), ("sink", 5), ("exactly", 21)])
def test_texts(name: str, rows: int) -> None:
    """21 rows are of warps' own, 5 of all warps."""
    text, arrays, constants = CASES[name]
    agrees(text, *(of_16_bits(a[:rows] if len(a) == 21 else a) for a in arrays), **constants)


@pytest.mark.long
@pytest.mark.parametrize(("rows", "columns", "d", "width"), [
    (1, 1, 7, 3), (40, 70, 300, 300), (4, 70, 512, 200), (70, 130, 128, 24)])
def test_lengths(rows: int, columns: int, d: int, width: int) -> None:
    """Vectors that come whole and in chunks, sums that several blocks have parts of."""
    agrees(vc.attention, *vectors(rows, columns, d, width), scale=0.05)


@pytest.mark.long
def test_long_vectors_of_a_head() -> None:
    h, w, _ = vectors(40, 70, 1100, 2)
    agrees(vc.linear_cross_entropy, h / BFLOAT16(8), w, np.arange(40))


@pytest.mark.long
def test_batches() -> None:
    """Neighbouring rows share columns' vectors; rows in fours, as grouped queries."""
    q, k, v = drawn(2, 3, 4, 32), drawn(2, 1, 50, 32, seed=1), drawn(2, 3, 50, 32, seed=2)
    agrees(vc.attention, *map(of_16_bits, (q, k, v)))


@pytest.mark.parametrize("rows", [21, 5])
def test_blocks_that_share_rows(rows: int) -> None:
    agrees(vc.causal, *vectors(rows, 2000, 9, 12), multiprocessors=3)


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize("width", [3, 24, 40, 72, 80, 100, 112, 120, 136, 152, 200])
def test_warps_that_share_sums(width: int, warps: int) -> None:
    """Few rows' warps finish some numbers each, of what several blocks found: of most lengths the
    last one has fewer, or none."""
    arrays = vectors(5, 300, 8, width)
    _, work = prepared(vc.causal, *arrays)
    assert work.schedule.together
    schedule = replace(work.schedule, warps=warps, columns=128 // warps)
    found = emulate(vc.causal, *arrays, schedule=schedule, multiprocessors=132)
    close(found, vc.causal.reference(*arrays), TOLERANCE)


@pytest.mark.parametrize("rows", [5, 70])
@pytest.mark.parametrize(("length", "width"), [(64, 136), (128, 256), (200, 32)])
def test_blocks_that_share_the_longer_of_two_sums(length: int, width: int, rows: int) -> None:
    """The second part of a vector has no numbers of the shorter one, and writes none."""
    @fg.pipeline
    def both(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
        p = fg.sigmoid(fg.dot(q, k)) / 16
        return fg.sum(p * v), fg.sum(p * k)

    agrees(both, *vectors(rows, 70, length, width))


@pytest.mark.long
@pytest.mark.parametrize(("length", "width"), [(112, 40), (24, 100), (80, 80)])
def test_warps_that_share_two_sums(length: int, width: int) -> None:
    """Of several lengths, about a pivot and not."""
    @fg.pipeline
    def both(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
        s = fg.dot(q, k)
        p = fg.exp(s - fg.max(s))
        return fg.sum(p * v) / fg.sum(p), fg.sum(s * k) / 1000

    agrees(both, *vectors(5, 300, length, width), multiprocessors=132)


def test_any_strides() -> None:
    """Copies of 16 bytes, whole and in part, and loads where vectors begin elsewhere."""
    q, k, v = drawn(20, 200)[:, 3:151:2], drawn(70, 80, seed=1)[:, :74], drawn(70, 41, seed=2)
    agrees(vc.attention, *(a.astype(BFLOAT16) for a in (q, k)), v.astype(BFLOAT16)[:, 1:34],
           scale=0.1)
    q, k, v = (np.ascontiguousarray(a).astype(BFLOAT16) for a in (q, drawn(70, 80), v))
    agrees(vc.attention, q, k[:, :74], v, scale=0.1)


@pytest.mark.parametrize(("mask", "rows"), [("ragged", 12), ("sink", 300)])
def test_what_is_masked_has_no_effect(mask: str, rows: int) -> None:
    """NaN in columns that a row leaves out, though others of its tile do not."""
    q, k, v = vectors(rows, 350, 5, 3)
    lengths = np.random.default_rng(0).integers(1, 300, rows)
    seen = vc.MASKS[mask](np.arange(350), np.arange(rows)[:, None], lengths[:, None])
    want = run(vc.MASKED[mask], q, k, v, lengths)[0].astype("f4")
    bad = np.isin(np.arange(350), [0, 260, 299, 320] if mask == "ragged" else [260, 299, 320])
    v[bad], k[320] = np.nan, np.inf
    found = run(vc.MASKED[mask], q, k, v, lengths)[0].astype("f4")
    clean = ~(seen & bad).any(-1)
    np.testing.assert_allclose(found[clean], want[clean], rtol=TOLERANCE, atol=TOLERANCE)
    assert np.isnan(found[~clean]).all()


def test_weights_that_overflow_16_bits() -> None:
    """Rounded to float16 they were infinite."""
    @fg.pipeline
    def linear(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
        return fg.sum(fg.dot(q, k) * v)

    q, k, v = (of_16_bits(a, np.float16) for a in (
        100 * drawn(20, 16), 100 * drawn(70, 16, seed=1), drawn(70, 16, seed=2) / 1000))
    close(run(linear, q, k, v), linear.reference(q, k, v), 5e-3)


@pytest.mark.parametrize("rows", [21, 5])
@pytest.mark.parametrize("size", [9.0, 1e5], ids=["growing", "beyond references"])
def test_sums_about_references(rows: int, size: float) -> None:
    """Greater and greater scores: sums stay about a reference for a while, then move; and scores so
    great that references are lost, and rows made once more."""
    q, k, v = vectors(rows, 400, 24, 24)
    k = (k.astype("f4") * np.linspace(-size, size, 400, dtype="f4")[:, None]).astype(BFLOAT16)
    q = (q.astype("f4") * max(1.0, size / 100)).astype(BFLOAT16)
    agrees(vc.causal, q, k, v)
    agrees(vc.attention, q, k, v, scale=0.3)


def test_rows_without_columns_and_not_finite_scores() -> None:
    q, k, v = vectors(40, 200, 16, 8)
    q[3], k[7, 0] = np.nan, np.inf
    lengths = np.arange(40) % 7
    with np.errstate(all="ignore"):
        agrees(vc.MASKED["ragged"], q, k, v, lengths)
        agrees(vc.attention, q, k, v, scale=0.3)


def test_stages_and_tiles_of_any_size() -> None:
    arrays = vectors(40, 300, 48, 40)
    _, work = prepared(vc.attention, *arrays, arch="sm_80", scale=0.3)
    for sizes in ({"stages": 3}, {"row_tiles": 2, "columns": 32}, {"warps": 8, "columns": 16},
                  {"together": True, "row_tiles": 1, "columns": 32, "stages": 4}):
        schedule = replace(work.schedule, **sizes)
        found = emulate(vc.attention, *arrays, arch="sm_80", scale=0.3, schedule=schedule)
        close(found, vc.attention.reference(*arrays, scale=0.3), TOLERANCE)


def test_who_is_served() -> None:
    """Dots of vectors of one type of 16 bits, from sm_80 on."""
    q, k, v = vectors(20, 70, 16, 16)
    engines = {
        arch: prepared(vc.attention, q, k, v, arch=arch)[1].schedule.engine
        for arch in ("sm_75", "sm_80", "sm_100")}
    assert engines == {"sm_75": "fma", "sm_80": "mma", "sm_100": "mma"}
    assert prepared(vc.attention, *vectors(20, 70, 16, 16))[1].schedule.engine == "wgmma"
    assert prepared(vc.attention, *vectors(16, 70, 16, 16))[1].schedule.together  # little to read
    for other in ((q.astype("f4"), k.astype("f4"), v.astype("f4")),
                  (q, k, v.astype(np.float16)), (q.astype(np.float16), k, v)):
        assert prepared(vc.attention, *other, arch="sm_80")[1].schedule.engine == "fma"
    assert prepared(vc.assigned, q, k, arch="sm_80")[1].schedule.engine == "fma"


@compiled
@pytest.mark.parametrize(("name", "rows", "length"), [
    ("attention", 128, 64), ("causal", 128, 128),
    ("linear_cross_entropy", 128, 128), ("attention", 4, 128)])
def test_registers_are_enough(name: str, rows: int, length: int) -> None:
    text, arrays, _ = CASES[name]
    given = vectors(rows, 4096, length, length)[: 2 + (len(arrays) > 2 and arrays[2].ndim > 1)]
    more = [np.zeros(rows, int)] if name == "linear_cross_entropy" else []
    _, work = prepared(text, *given, *more, arch="sm_80")
    assert work.schedule.engine == "mma"
    (report, *_) = nvrtc.compile_for(work.source, "sm_80").reports
    assert report.spill_bytes <= 512, "of a few words, outside of products"
