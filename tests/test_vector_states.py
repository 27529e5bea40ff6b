"""States of texts over vectors: columns (keys) in any pieces, in any order, give the whole: the
attention of sharded keys and values, neighbours of a data base in parts."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from support import vector_cases as texts
from support import vector_library as library
from support.state_cases import flat, merged_anyhow, same_states
from support.vector_pieces import (
    columns_alone,
    cosines,
    drawn,
    normalised,
    pieces,
    statistics,
)

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend


def cases() -> list[library.Case]:
    """Those of the library that have states."""
    return [*library.shaped(shapes=("one_of_all", "one_row", "one_column", "heads")),
            *library.shaped("float64", ("one_row",)), *library.shaped("bfloat16", ("one_row",)),
            *library.optional(), *library.laid_out(), *library.hard()]


def again(arrays: Any) -> Any:
    """Inputs of rows, which results may need."""
    return {n: a for n, a in arrays.items() if n in ("sinks", "labels")}


@pytest.fixture(params=["cpu", "numpy"])
def roles(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What runs: the processor's own code, or NumPy, as where nothing can be compiled."""
    if request.param == "numpy":
        monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    return str(request.param)


def n_cols(arrays: Any) -> int:
    return next(int(a.shape[-2]) for n, a in arrays.items() if n in ("k", "y", "w"))


@pytest.mark.parametrize("case", cases(), ids=repr)
def test_any_split_in_any_order(case: library.Case, roles: str) -> None:
    p, rng, n = fg.Pipeline(case.pipeline.fn), np.random.default_rng(1), n_cols(case.arrays)
    for cuts in ([0, n // 2, n], sorted([0, 0, n, *map(int, rng.integers(0, n + 1, 4))])):
        parts = pieces(p, case.arrays, cuts, **case.constants)
        case.check(p.finish(merged_anyhow(p, parts, rng), **again(case.arrays)))


@pytest.mark.parametrize("text", [
    statistics, normalised, columns_alone, cosines, texts.gaussian.fn, texts.causal.fn,
    *(p.fn for p in texts.MASKED.values())], ids=lambda t: t.__name__)
def test_vectors_of_every_kind(text: Any, roles: str) -> None:
    p, rng = fg.Pipeline(text), np.random.default_rng(3)
    q, k, v = drawn(2, 200, 5), drawn(2, 570, 5, seed=1), drawn(2, 570, 3, seed=2)
    arrays = {"q": q, "k": k, "v": v, "lengths": rng.integers(1, 571, (2, 200))}
    arrays |= {"x": q, "y": k, "b": drawn(2, 570), "c": drawn(2, 570)}
    arrays["label"] = arrays["lengths"] - 1
    if text is texts.gaussian.fn:
        arrays["b"] = arrays["b"][0]
    arrays = {n: arrays[n] for n in p.signature.arrays}
    want = p.reference(**arrays)
    parts = pieces(p, arrays, [0, 256, 300, 300, 570])
    for found, exact in zip(flat(p.finish(merged_anyhow(p, parts, rng))), flat(want), strict=True):
        assert found.shape == exact.shape
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-5)


def test_numbers_of_a_row_are_held_beside_hard_vectors(roles: str) -> None:
    """Of zeros, NaN and infinities, with every piece but one without columns."""
    q, k = drawn(5, 6), drawn(40, 6, seed=1)
    q[0], q[1, 2], q[2, 3], q[3] = 0, np.nan, np.inf, q[3] * 1e15
    p, label = fg.Pipeline(cosines), np.arange(5)
    arrays = {"q": q, "k": k, "label": label}
    parts = pieces(p, arrays, [0, 0, 40, 40])
    with np.errstate(all="ignore"):
        exact = p.reference(**arrays)
    for order in (parts, parts[::-1], parts[1:2]):
        for found, want in zip(flat(p.finish(fg.merge(p, *order))), flat(exact), strict=True):
            np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5)
    none = [p.states(q, k[:0], label, at=i) for i in (0, 40)]
    with pytest.raises(fg.ShapeError, match="have seen no column"):
        p.finish(fg.merge(p, *none))


@pytest.mark.parametrize("text", [
    statistics, cosines, fg.library.attention.fn, fg.library.nearest.fn], ids=lambda t: t.__name__)
def test_every_maker_of_states_makes_the_same_bytes(
    text: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In C++ and in NumPy: each may take over from the other."""
    p, other = fg.Pipeline(text), fg.Pipeline(text)
    rows, columns = drawn(2, 30, 6), drawn(2, 90, 6, seed=1)
    arrays = {"q": rows, "k": columns, "v": drawn(2, 90, 3, seed=2), "x": rows, "y": columns,
              "lengths": np.random.default_rng(0).integers(0, 91, (2, 30)),
              "label": np.arange(60).reshape(2, 30)}
    arrays = {n: arrays[n] for n in p.signature.arrays if n in arrays}
    constants = {"scale": 0.3} if "scale" in p.signature.constants else {}
    ours = pieces(p, arrays, [0, 2, 2, 50, 90], **constants)
    whole = fg.merge(p, *ours)
    monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    theirs = pieces(other, arrays, [0, 2, 2, 50, 90], **constants)
    for a, b in zip(ours, theirs, strict=True):
        same_states(a, b)
    mixed = fg.merge(other, ours[0], theirs[1], ours[2], theirs[3])
    same_states(whole, mixed)
    for a, b in zip(flat(p.finish(mixed)), flat(other.finish(whole)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_what_is_masked_has_no_effect_in_a_piece(roles: str) -> None:
    """NaN behind a row's end, whichever piece has it."""
    q, k, v = drawn(40, 5), drawn(300, 5, seed=1), drawn(300, 3, seed=2)
    lengths = np.full(40, 200)
    lengths[0] = 0
    clean = fg.library.attention(q, k, v, lengths=lengths, scale=0.5)
    v[200:] = np.nan
    k[250:] = np.inf
    p = fg.Pipeline(fg.library.attention.fn)
    arrays = {"q": q, "k": k, "v": v, "lengths": lengths}
    found = p.finish(fg.merge(p, *pieces(p, arrays, [0, 130, 220, 300], scale=0.5)))
    np.testing.assert_allclose(found, clean, rtol=1e-5, atol=1e-6)
    assert np.isnan(found[0]).all()


def test_the_layout_has_vectors() -> None:
    q, k, v = drawn(4, 8), drawn(60, 8, seed=1), drawn(60, 5, seed=2)
    states = fg.library.attention.states(q, k, v, scale=0.5)
    found = [(f.name, f.dtype.name, f.count, f.offset) for f in states.layout.fields]
    assert found == [("m", "float32", 1, 0), ("sum_mul", "float32", 5, 4),
                     ("sum_exp", "float32", 1, 24)]
    table = states.array.view(states.layout.numpy)[:, 0]
    s = 0.5 * q.astype("f8") @ k.T
    p = np.exp(s - s.max(-1, keepdims=True))
    np.testing.assert_allclose(table["m"][:, 0], s.max(-1), rtol=1e-5)
    np.testing.assert_allclose(table["sum_mul"], p @ v, rtol=1e-4, atol=1e-5)
    again = pickle.loads(pickle.dumps(states))
    np.testing.assert_array_equal(fg.library.attention.finish(again),
                                  fg.library.attention.finish(states))


def test_states_of_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    q, k, v = (torch.from_numpy(drawn(2, n, 8, seed=n)) for n in (30, 400, 401))
    p = fg.library.attention
    parts = [p.states(q, k[:, i : i + 100], v[:, i : i + 100], at=i, scale=0.3, causal=True)
             for i in range(0, 400, 100)]
    assert isinstance(parts[0].array, torch.Tensor)
    want = torch.nn.functional.scaled_dot_product_attention(
        q, k, v[:, :400], scale=0.3, is_causal=True)
    torch.testing.assert_close(p.finish(fg.merge(p, *parts)), want, rtol=2e-5, atol=5e-6)


# ---- what has no states ----


def needs_its_row(q: fg.RowVector, k: fg.ColumnVector):
    return q + fg.sum(k)


def needs_a_number_beside_a_mask(q: fg.RowVector, k: fg.ColumnVector, n: fg.PerRow):
    return fg.max(fg.ragged(fg.dot(q, k), n)) / fg.inner(q * q)  # of no column, no number


def needs_a_label(q: fg.RowVector, k: fg.ColumnVector, label: fg.PerRow):
    return fg.logsumexp(fg.dot(q, k)) - fg.sqdist(q, fg.take(k, label))  # no item of the sweep


def needs_another_column(q: fg.RowVector, k: fg.ColumnVector):
    return fg.sum(fg.abs(fg.dot(q, k) - fg.dot(q, fg.take(k, 3))))


def needs_the_best(q: fg.RowVector, k: fg.ColumnVector):
    return fg.take(k, fg.argmax(fg.dot(q, k)))


def needs_the_end(q: fg.RowVector, k: fg.ColumnVector, label: fg.PerRow):
    s = fg.dot(q, k)
    return fg.logsumexp(fg.where(fg.index(s) >= fg.length(s) - label, s, -np.inf))


def stores_scores(q: fg.RowVector, k: fg.ColumnVector):
    return fg.dot(q, k) - fg.max(fg.dot(q, k))


@pytest.mark.parametrize(("text", "words"), [
    (needs_its_row, "takes q of each row"), (needs_a_number_beside_a_mask, "takes q of each row"),
    (needs_a_label, "takes "), (needs_another_column, "reads elements"),
    (needs_the_best, "reads elements"), (needs_the_end, "computed from the number of columns"),
    (stores_scores, "a value for every element"),
], ids=lambda t: getattr(t, "__name__", ""))
def test_what_has_no_states_says_why(text: Any, words: str) -> None:
    p = fg.Pipeline(text)
    label = (np.array([1, 2, 3]),) if len(p.signature.arrays) == 3 else ()
    with pytest.raises(fg.PipelineError, match=words):
        p.states(drawn(3, 4), drawn(5, 4), *label)
    with pytest.raises(fg.PipelineError, match=words):
        p.source("cpu", role="merge")


def test_states_of_other_lengths_do_not_merge() -> None:
    p = fg.library.attention
    q, k, v = drawn(4, 8), drawn(60, 8, seed=1), drawn(60, 5, seed=2)
    one = p.states(q, k, v, scale=0.5)
    with pytest.raises(fg.ArgumentError, match="do not belong together"):
        fg.merge(p, one, p.states(q, k, v[:, :4], scale=0.5))
    with pytest.raises(fg.ArgumentError, match="do not belong together"):
        fg.merge(p, one, p.states(q, k, v, scale=0.25))
    with pytest.raises(fg.ShapeError, match="cannot be merged"):
        fg.merge(p, one, p.states(q[:3], k, v, scale=0.5))
