"""The oracle itself, against NumPy written by hand."""

from __future__ import annotations

import numpy as np
import pytest
from support.cases import rows

import fusegen as fg
from fusegen.oracle.rows import top_columns


def test_floats_are_float64_and_integers_int64():
    x = rows(dtype="float16")
    assert fg.library.softmax.reference(x).dtype == np.float64
    values, indices = fg.library.topk.reference(x, k=2)
    assert (values.dtype, indices.dtype) == (np.float64, np.int64)
    assert fg.library.topk.reference(x.astype("int8"), k=2)[0].dtype == np.int64


@pytest.mark.parametrize("k", [1, 2, 5, 8])
@pytest.mark.parametrize("seed", range(8))
def test_topk_puts_nan_first_and_ties_to_the_lowest_column(k, seed):
    rng = np.random.default_rng(seed)
    x = rng.choice([np.nan, -np.inf, np.inf, 0.0, -0.0, 1.0, 2.0], (6, 8))
    for row, found in zip(x, top_columns(x, k), strict=True):
        order = sorted(
            range(8), key=lambda c: (row[c] == row[c], -row[c] if row[c] == row[c] else 0, c)
        )
        assert found.tolist() == order[:k]


def test_integer_topk_orders_by_value_then_column():
    x = np.array([[3, 7, 7, -5, 3]])
    assert top_columns(x, 4).tolist() == [[1, 2, 0, 4]]


def test_argmax_and_argmin_take_the_first_nan():
    @fg.pipeline
    def both(x):
        return fg.argmax(x), fg.argmin(x)

    high, low = both.reference(np.array([[1, np.nan, 5, np.nan], [4, 4, 1, 1.0]]))
    assert high.tolist() == [1, 0]
    assert low.tolist() == [1, 2]


def test_take_is_nan_out_of_range():
    @fg.pipeline
    def pick(x, at: fg.PerRow):
        return fg.take(x, at)

    x = np.array([[1.0, 2, 3]] * 4)
    found = pick.reference(x, np.array([0, 2, 3, -1]))
    np.testing.assert_array_equal(found, [1, 3, np.nan, np.nan])


def test_casts_saturate_and_take_nan_to_zero():
    @fg.pipeline
    def to_int8(x):
        return fg.cast(x, "int8")

    found = to_int8.reference(np.array([[-1e9, -1.9, 1.9, 300, np.nan, np.inf]]))
    assert found.tolist() == [[-128, -1, 1, 127, 0, 127]]


def test_rows_are_worked_off_in_blocks():
    x = rows((3000, 700))
    np.testing.assert_allclose(
        fg.library.var_mean.reference(x)[0], x.astype(float).var(axis=1), rtol=1e-12
    )


@pytest.mark.parametrize("correction", [1, 2.5, -1])
def test_a_variance_is_corrected_as_torchs(correction):
    """Of rows, of lists, of single columns; in one sweep."""
    def corrected(x):
        listed = fg.topk(x, 4).values
        return fg.var(x, correction=correction), fg.var(listed, correction=correction)

    x = (1e4 + np.random.default_rng(3).standard_normal((3, 100))).astype(np.float32)
    pipeline, wide = fg.pipeline(corrected), x.astype(np.float64)
    lists = -np.sort(-wide, axis=1)[:, :4]
    for found in (pipeline(x), pipeline.reference(x)):
        for got, these in zip(found, (wide, lists), strict=True):
            np.testing.assert_allclose(got, these.var(axis=1, ddof=correction), rtol=2e-4)
    assert pipeline.plan().sweeps == 1


def test_rows_of_one_column_have_no_corrected_variance():
    @fg.pipeline
    def corrected(x):
        return fg.var(x, correction=1)

    assert np.isnan(corrected(np.ones((2, 1), np.float32))).all()
