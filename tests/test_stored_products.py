"""Texts over long vectors whose elements cuBLAS makes, some rows at a time: the choice, what the
plan says of it, and whole calls on an emulated machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from support.cases import leaves
from support.emulated import emulated
from support.fake_cupy import array

import fusegen as fg
from fusegen.backend.cuda.run import products as run
from fusegen.backend.cuda.schedule import products, select_vectors
from fusegen.backend.cuda.schedule.products import ProductSchedule

LENGTH = 264


def drawn(*shape: int, seed: int = 0, dtype: str = "float16") -> Any:
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


@pytest.fixture
def folding_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """And pieces are of three rows."""
    monkeypatch.setattr(select_vectors, "_RATES", {"fma": 1.0, "mma": 1.0, "wgmma": 1.0})
    monkeypatch.setattr(products, "PIECE_BYTES", 3 * 4 * 304)


@fg.pipeline
def head(h: fg.RowVector, w: fg.ColumnVector, label: fg.PerRow, b: fg.PerColumn, *, t=2.0):
    s = fg.dot(h, w) / t + b
    values, columns = fg.topk(s, 5)
    picked = fg.dot(h, fg.take(w, label)) / t + fg.take(b, label)
    return fg.logsumexp(s) - picked, values, columns, fg.argmin(s)


@fg.pipeline
def sparing(
    h: fg.RowVector, u: fg.RowVector, w: fg.ColumnVector, v: fg.ColumnVector, x, t: fg.PerRow,
    b: fg.PerColumn, z: fg.ColumnVector = None,
):
    """Reads two of its inputs, and which row it is."""
    s = fg.dot(h, w)
    return fg.logsumexp(s), fg.sum(fg.where(fg.index(s) < fg.row(s), s, 0.0)), fg.topk(s, 5)


def check(found: Any, want: Any) -> None:
    for f, w in zip(leaves(found), leaves(want), strict=True):
        np.testing.assert_allclose(f.get().astype("f8"), w.astype("f8"), rtol=4e-3, atol=4e-3)


def given(rows: int, columns: int, dtype: str = "float16") -> tuple[Any, ...]:
    h = (drawn(rows, LENGTH).astype("f4") / 8).astype(dtype)
    label = np.random.default_rng(0).integers(0, columns, rows)
    return h, drawn(columns, LENGTH, seed=1).astype(dtype), label, drawn(columns, dtype="float32")


@emulated
@pytest.mark.usefixtures("folding_is_slow")
class TestCalls:
    @pytest.mark.parametrize("dtype", ["float16", "float32"])
    def test_pieces_again_and_again(self, gpu: Any, dtype: str) -> None:
        """Three pieces, the last of one row; remembered calls with other arrays and constants."""
        for turn in range(3):
            h, w, label, b = given(7, 301, dtype)
            h, label[2], t = h + turn, [5, -1, 301][turn], 1.0 + turn
            want = head.reference(h.astype("f8"), w.astype("f8"), label, b, t=t)
            check(head(*map(array, (h, w, label, b)), t=t), want)
        assert gpu.launched

    def test_products_multiply(self, gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """By a temperature, which is another from call to call."""
        factors, multiply = set(), run._multiply
        monkeypatch.setattr(run, "_multiply", lambda *a, factor: (
            factors.add(factor), multiply(*a, factor=factor)))
        text = fg.pipeline(fg.library.head_topk.fn)
        h, w, _, _ = given(7, 301)
        scores = h.astype("f8") @ w.astype("f8").T
        for temperature in (0.5, 2.0, 8.0):
            values, columns = text(array(h), array(w), k=5, temperature=temperature)
            shares = np.exp((scores - scores.max(1, keepdims=True)) / temperature)
            shares /= shares.sum(1, keepdims=True)
            picked = np.take_along_axis(shares, columns.get(), 1)
            np.testing.assert_allclose(values.get(), picked, rtol=4e-3, atol=1e-5)
            np.testing.assert_allclose(picked, -np.sort(-shares, 1)[:, :5], rtol=4e-3)
        assert factors == {2.0, 0.5, 0.125}

    def test_elements_made_by_wgmma(self, gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of few rows."""
        monkeypatch.setattr(select_vectors, "_OWN", (1, 64))
        monkeypatch.setattr(run, "_multiply", None)
        monkeypatch.setattr(products, "PIECE_BYTES", 1 << 20)
        h, w, label, b = given(33, 301)
        want = head.reference(h.astype("f8"), w.astype("f8"), label, b)
        for _ in range(2):
            check(head(*map(array, (h, w, label, b))), want)

    @pytest.mark.parametrize("form", ["auto", "online", "unfused"])
    def test_inputs_that_nothing_reads(self, gpu: Any, form: str) -> None:
        """Of every role, in three pieces; remembered, with other arrays."""
        for turn in range(2):
            h, w, t, b = given(7, 301)
            spare = {"u": drawn(7, 3), "v": drawn(301, 1), "x": drawn(7, 301), "t": t, "b": b,
                     "z": [None, drawn(301, 5)][turn]}
            want = sparing.reference((h + turn).astype("f8"), w=w.astype("f8"), **spare)
            arrays = {n: a if a is None else array(a) for n, a in spare.items()}
            for _ in range(2):
                check(sparing(array(h + turn), w=array(w), **arrays, form=form), want)

    def test_vectors_that_are_no_matrix(self, gpu: Any) -> None:
        """Broadcast, backwards, and with others between."""
        h, w, label, b = given(8, 301)
        wide = array(np.repeat(h, 2, 0))
        pairs = [(np.broadcast_to(h[:1], h.shape), array(w)),
                 (h[::-1], array(w)[::-1]), (h, array(w))]
        views = [np.broadcast_to(array(h[:1]), h.shape), array(h)[::-1], wide[::2]]
        for view, (rows, columns) in zip(views, pairs, strict=True):
            want = head.reference(rows.astype("f8"), columns.get().astype("f8"), label, b)
            check(head(view, columns, array(label), array(b)), want)


def planned(rows: int, text: Any = None, **more: Any) -> Any:
    spec = fg.Spec
    vectors = {"h": spec((rows, 4096), "bfloat16"), "w": spec((128_256, 4096), "bfloat16")}
    return (text or fg.library.head_topk).compile(**vectors, target="sm_90", k=64, **more)


def test_the_plan_says_that_elements_are_stored_and_why() -> None:
    many = planned(8192)
    assert isinstance(many.schedule, ProductSchedule)
    assert many.schedule.piece_rows * 128_256 * 4 <= products.PIECE_BYTES
    plan = str(many.plan)
    assert "h·w: made of h and w by cuBLAS, and stored, 1024 rows at a time: about" in plan
    assert "4.2 GB of h·w stored meanwhile" in plan


def test_explain_shows_both_prices() -> None:
    dtype = {"h": "bfloat16[4096]", "w": "bfloat16[4096]"}
    page = str(fg.library.head_topk.explain(target="sm_90", dtype=dtype, n_rows=64, n_cols=128_256))
    assert "stored, made by wgmma, 64 rows at a time" in page
    assert "→ folded where made, tiles of 64 rows × 128 columns, scores by wgmma" in page


def test_a_list_reads_groups_of_what_fits_memory() -> None:
    """More rows are a product's, in pieces."""
    few = planned(64)
    assert few.schedule.grouped
    assert "reads its best groups of 64" in str(few.plan)
    assert "32.8 MB of h·w stored meanwhile" in str(few.plan)
    assert isinstance(planned(2048).schedule, ProductSchedule)


@pytest.mark.parametrize("asked", [{"form": "online"}, {"deterministic": True}])
def test_who_asks_for_a_form_or_one_tree_has_chosen(asked: dict[str, Any]) -> None:
    assert not isinstance(planned(64, **asked).schedule, ProductSchedule)


@fg.pipeline
def scaled(h: fg.RowVector, w: fg.ColumnVector, *, k=64, t=2.0, u=3.0):
    s = fg.dot(h, w)
    return fg.topk(s * t, k), fg.logsumexp(s * u)


def test_what_a_product_multiplies_by() -> None:
    """One number of the call, by which all elements are multiplied."""
    head_of_many = planned(2048)
    assert head_of_many.schedule.factor == "of_temperature"
    assert "of_temperature" not in head_of_many.source
    assert products.factor_of(planned(2048, scaled).work.program) == ""
    capped = planned(2048, softcap=30.0)
    assert products.factor_of(capped.work.program) == ""


@fg.pipeline
def masked(h: fg.RowVector, w: fg.ColumnVector, *, k=64):
    s = fg.dot(h, w)
    return fg.logsumexp(fg.where(fg.index(s) <= fg.row(s), s, -math.inf)) * k


@fg.pipeline
def apart(h: fg.RowVector, w: fg.ColumnVector, *, k=64):
    return fg.topk(fg.sqdist(h, w), k)


@fg.pipeline
def normal(h: fg.RowVector, w: fg.ColumnVector, *, k=64):
    return fg.topk(fg.dot(h, w) * fg.rsqrt(fg.inner(h * h)), k)


@pytest.mark.parametrize("text", [masked, apart, normal], ids=lambda p: p.name)
def test_what_stored_dots_do_not_serve_is_folded(text: Any) -> None:
    assert not isinstance(planned(64, text).schedule, ProductSchedule)
