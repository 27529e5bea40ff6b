"""Rows of several lengths: only the first `lengths` columns count."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import rows
from support.everywhere import BACKENDS, results

import fusegen as fg

INF = float("inf")


@fg.pipeline
def attention(x, lengths: fg.PerRow):
    return fg.library.softmax(fg.ragged(x, lengths))


@fg.pipeline
def likeliest(x, lengths: fg.PerRow, *, k=4):
    return fg.topk(fg.library.softmax(fg.ragged(x, lengths)), k)


@fg.pipeline
def numbers(x, lengths: fg.PerRow, *, k=3):
    y = fg.ragged(x, lengths)
    total = fg.sum(fg.ragged(x, lengths, 0))
    return (
        fg.max(y), fg.argmax(y), fg.logsumexp(y), fg.topk(y, k), total,
        total / fg.cast(lengths, "float32"), fg.topk(fg.ragged(x, lengths, INF), k, largest=False),
    )


LENGTHS = np.array([0, 1, 3, 17, 100, 131, 500, -2])


def padded(n_cols=131):
    """NaN stands behind the end of every row."""
    x = rows((len(LENGTHS), n_cols), 7)
    return np.where(np.arange(n_cols) < LENGTHS[:, None], x, np.nan).astype("float32")


def textbook(row):
    """Softmax of the elements that a row has."""
    e = np.exp(row.astype("float64") - row.max())
    return e / e.sum()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_softmax(backend, dtype):
    x = padded()
    (found,) = results(backend, attention, x, LENGTHS.astype(dtype))
    for row, n, p in zip(x, LENGTHS.clip(0, 131), found, strict=True):
        if n == 0:
            assert np.isnan(p).all()
            continue
        np.testing.assert_allclose(p[:n], textbook(row[:n]), rtol=3e-6)
        assert (p[n:] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_length_of_floats_keeps_the_columns_below_it(backend):
    def kept(x, lengths: fg.PerRow):
        return fg.sum(fg.ragged(x, lengths, 0))

    lengths = np.array([0, 0.5, 1, 1.5, 9, -0.5, INF, np.nan], "float32")
    (found,) = results(backend, fg.pipeline(kept), np.ones((8, 5), "float32"), lengths)
    np.testing.assert_array_equal(found, [0, 1, 1, 2, 5, 0, 5, 0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_topk_of_softmax(backend):
    x = padded()
    values, columns = results(backend, likeliest, x, LENGTHS)
    for row, n, p, at in zip(x, LENGTHS.clip(0, 131), values, columns, strict=True):
        if n == 0:
            assert np.isnan(p).all()
            assert at.tolist() == [0, 1, 2, 3]
            continue
        wanted = np.concatenate([np.argsort(-row[:n], kind="stable"), np.arange(n, 131)])[:4]
        assert at.tolist() == wanted.tolist()
        np.testing.assert_allclose(p[:n], textbook(row[:n])[at[:n]], rtol=3e-6)
        assert (p[n:] == 0).all()
    assert likeliest.plan().sweeps == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_everything_else(backend):
    x = padded()
    m, at, lse, high, high_at, total, mean, low, low_at = results(backend, numbers, x, LENGTHS)
    for i, n in enumerate(LENGTHS.clip(0, 131)):
        row = x[i, :n].astype("float64")
        falling, rising = (np.argsort(s * row, kind="stable")[:3] for s in (-1, 1))
        assert high_at[i, :n].tolist() == falling.tolist()
        assert low_at[i, :n].tolist() == rising.tolist()
        np.testing.assert_array_equal(high[i], [*row[falling], *[-INF] * (3 - len(falling))])
        np.testing.assert_array_equal(low[i], [*row[rising], *[INF] * (3 - len(rising))])
        np.testing.assert_allclose(total.ravel()[i], row.sum(), rtol=1e-5, atol=1e-5)
        if n == 0:
            assert (m.ravel()[i], at.ravel()[i], lse.ravel()[i]) == (-INF, 0, -INF)
            assert high_at[i].tolist() == low_at[i].tolist() == [0, 1, 2]
            continue
        assert (m.ravel()[i], at.ravel()[i]) == (row.max(), row.argmax())
        np.testing.assert_allclose(lse.ravel()[i], np.log(np.exp(row).sum()), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(mean.ravel()[i], row.sum() / LENGTHS[i], rtol=1e-5, atol=1e-5)


def test_along_another_axis():
    x = padded()
    turned = likeliest(np.ascontiguousarray(x.T), LENGTHS, axis=0)
    for f, w in zip(turned, likeliest(x, LENGTHS), strict=True):
        np.testing.assert_array_equal(f, w.T)


def test_lengths_are_one_per_row():
    @fg.pipeline
    def wrong(x, lengths):
        return fg.max(fg.ragged(x, lengths))

    with pytest.raises(fg.TraceError, match="one length per row"):
        wrong(padded(), padded())


def test_sections_are_equal():
    @fg.pipeline
    def quarters(x):
        return tuple(fg.sum(fg.where(part, x, 0)) for part in fg.sections(x, 4))

    x = rows((3, 44))
    for backend in BACKENDS:
        found = np.stack([r.reshape(3) for r in results(backend, quarters, x)], axis=1)
        np.testing.assert_allclose(found, x.reshape(3, 4, 11).sum(axis=2), rtol=1e-5)
    with pytest.raises(fg.ShapeError, match="4 equal sections of rows with 45 columns"):
        quarters(rows((3, 45)))
    with pytest.raises(fg.TraceError, match="sections must be a whole number"):
        fg.pipeline(lambda x: fg.sections(x, 0)).source("cpu")


def products(x, lengths: fg.PerRow):
    """Whole numbers that are compared, stored, computed with, compared with another row value."""
    column = fg.index(x)
    third, stored, wide, beside = column * 3, column * 5, column * 7, column * 11
    far = fg.where(column > 3, 3_000_000_000, -3_000_000_000)
    kept = (third < fg.length(x)) & (wide * wide > 10) & (beside < lengths) & (far > lengths)
    return fg.sum(fg.where(kept, x, 0)), fg.max(stored)


def test_what_is_made_of_columns_alone_is_as_wide():
    """Where it is only compared: else the language's 64 bits count."""
    for dtype, n_cols in (("float32", 1000), ("bfloat16", 45)):
        work = fg.pipeline(products).work(
            dtype={"x": dtype, "lengths": "int64"}, target="sm_90", n_rows=1000, n_cols=n_cols)
        by_factor = {f: [ln for ln in work.source.splitlines() if f"column * {f};" in ln]
                     for f in (3, 5, 7, 11)}
        assert {f: {ln.split()[1] for ln in found} for f, found in by_factor.items() if found} == {
            3: {"column_t"}, 11: {"column_t"}} | {f: {"long"} for f in (5, 7) if by_factor[f]}
        assert "const long long far = " in work.source
