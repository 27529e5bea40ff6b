"""Gradients over long vectors as products of tables, on an emulated machine with a GPU, against
those of CPUs in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.emulated import emulated
from support.fake_cupy import array

import fusegen as fg
from fusegen.backend.problem import Problem
from fusegen.backend.target import CUDA_TARGETS
from fusegen.library.gradient.vectors import products as vector_products
from fusegen.library.gradient.vectors.products import Products, elements_of
from fusegen.pipeline.variants import Choices

LENGTH = 264


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape) / 8


@fg.pipeline
def biased(h: fg.RowVector, w: fg.ColumnVector, label: fg.PerRow, b: fg.PerColumn, *, t=2.0):
    """Elements by way of a map; a label's vector by itself."""
    s = 3.0 * fg.tanh(fg.dot(h, w) / t) + b
    return fg.logsumexp(s), fg.sum(fg.where(fg.index(s) == label, s, 0.0))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What goes by products; in small pieces of rows and columns."""
    found: list[Any] = []
    gradients = Products.gradients
    monkeypatch.setattr(Products, "gradients",
                        lambda self, wanted: found.append(self) or gradients(self, wanted))
    monkeypatch.setattr(vector_products, "PIECE_BYTES", 6 * 128 * 8)
    monkeypatch.setattr(vector_products, "MOST_ROWS", 8)
    return found


def given(dtype: str) -> tuple[Any, ...]:
    label = np.random.default_rng(0).integers(0, 300, 11)
    return drawn(11, LENGTH).astype(dtype), drawn(300, LENGTH, seed=1).astype(dtype), label


def close(found: Any, want: Any, dtype: str) -> None:
    scale = 1e-5 if dtype == "float32" else 4e-3
    for f, w in zip(found, want, strict=True):
        size = np.abs(w).max()
        np.testing.assert_allclose(f.get().astype("f8"), w, rtol=scale, atol=scale * size)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_linear_cross_entropy(gpu: Any, made: list[Any], dtype: str) -> None:
    h, w, label = given(dtype)
    gradient = fg.grad(fg.library.linear_cross_entropy, wrt=("h", "w"))
    cotangent = drawn(11, seed=5).astype("f4")
    want = gradient(cotangent.astype("f8"), h.astype("f8"), w.astype("f8"), label)
    close(gradient(*map(array, (cotangent, h, w, label))), want, dtype)
    (products,) = made
    assert products.made.counts


@pytest.mark.long
@emulated
def test_elements_by_way_of_maps_and_numbers_of_columns(gpu: Any, made: list[Any]) -> None:
    h, w, label = given("float16")
    bias = drawn(300, seed=7).astype("f4")
    gradient = fg.grad(biased, wrt=("w", "b", "h"))
    cotangents = [drawn(11, seed=n).astype("f4") for n in (5, 6)]
    want = gradient(*(c.astype("f8") for c in cotangents), h.astype("f8"), w.astype("f8"), label,
                    bias.astype("f8"), t=1.5)
    close(gradient(*map(array, (*cotangents, h, w, label, bias)), t=1.5), want, "float16")
    assert len(made) == 1


@fg.pipeline
def normal(h: fg.RowVector, w: fg.ColumnVector):
    return fg.logsumexp(fg.dot(h, w) * fg.rsqrt(fg.inner(h * h)))


@fg.pipeline
def apart(h: fg.RowVector, w: fg.ColumnVector):
    return fg.logsumexp(-fg.sqdist(h, w))


@fg.pipeline
def plain(h: fg.RowVector, w: fg.ColumnVector):
    return fg.logsumexp(fg.dot(h, w))


@pytest.mark.parametrize(("text", "length", "served"), [
    (plain, 264, True), (plain, 256, False), (normal, 264, False), (apart, 264, False)])
def test_what_is_no_product_of_elements_is_made_otherwise(
    text: Any, length: int, served: bool
) -> None:
    gradient = fg.grad(text, wrt=("h", "w"))
    dtype = fg.ir.dtypes.BFLOAT16.vector(length)
    _, _, stages = gradient.remembered.prepared({"h": dtype, "w": dtype}, {})
    assert (elements_of(stages) is not None) == served


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("length", [264, 300])
@pytest.mark.parametrize("n_cols", [30, 500, 5000])
def test_every_stage_has_a_schedule(n_cols: int, length: int, kept: bool) -> None:
    """Also the one that reads neither vectors nor elements: what a forward call keeps is there."""
    gradient = fg.grad(fg.library.linear_cross_entropy, wrt=("h", "w"))
    dtype = fg.ir.dtypes.dtype_of("float16")
    types = {"h": dtype.vector(length), "w": dtype.vector(length), "grad": dtype,
             "labels": fg.ir.dtypes.INT64}
    text, _, stages = gradient.remembered.prepared(types, gradient.signature.bind_constants({}))
    every = [*stages.numbers(stages.terms, kept=kept),
             *stages.rows(dict.fromkeys(text.rows, "float16"), kept=kept)]
    for stage in every:
        pipeline = stage.pipeline
        given = dict(zip(pipeline.signature.arrays, map(stages.type_of, stage.takes), strict=True))
        problem = Problem(dtypes=given, n_rows=40, batch_rows=40, n_cols=n_cols, may_store=True)
        typed = pipeline.of_types(given, pipeline.signature.bind_constants({}), Choices())
        assert typed.work(CUDA_TARGETS["sm_90"], problem).source
