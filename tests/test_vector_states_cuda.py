"""States of texts over vectors on GPUs, emulated: pieces of columns on any of them, or on hosts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support import fake_cupy
from support import vector_cases as texts
from support.emulated import emulated
from support.state_cases import flat, host, merged_anyhow, same_states
from support.vector_pieces import (
    columns_alone,
    cosines,
    drawn,
    normalised,
    pieces,
    statistics,
)

import fusegen as fg


def with_list(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector):
    """A list beside a sum of vectors, and what follows from both."""
    s = fg.dot(q, k)
    p = fg.exp(s - fg.max(s))
    values, at = fg.topk(p / fg.sum(p), 3)
    return values, at, fg.sum(p * v) / fg.sum(p), fg.sum(values)


def sunk(q: fg.RowVector, k: fg.ColumnVector, v: fg.ColumnVector, sinks: fg.PerRow):
    """What a result takes of its row is given again."""
    s = fg.dot(q, k)
    m = fg.max(s)
    p = fg.exp(s - m)
    return fg.sum(p * v) / (fg.sum(p) + fg.exp(sinks - m))


TEXTS = {"statistics": statistics, "normalised": normalised, "columns_alone": columns_alone,
         "cosines": cosines,
         "gaussian": texts.gaussian.fn, "with_list": with_list, "causal": texts.causal.fn,
         "nearest": texts.nearest.fn,
         "loss": fg.library.linear_cross_entropy.fn, "sunk": sunk,
         **{name: p.fn for name, p in texts.MASKED.items()}}


def on_gpu(array: Any) -> Any:
    return fake_cupy.array(np.ascontiguousarray(array))


def moved(states: fg.States, place: Any) -> fg.States:
    """The same bytes elsewhere."""
    return replace(states, array=place(host(states.array)))


def arrays_of(p: fg.Pipeline, rows: int, columns: int) -> dict[str, Any]:
    q, k, v = drawn(2, rows, 5), drawn(2, columns, 5, seed=1), drawn(2, columns, 3, seed=2)
    lengths = np.random.default_rng(3).integers(1, columns + 1, (2, rows))
    given = {"q": q, "k": k, "v": v, "lengths": lengths, "x": q, "y": k, "b": drawn(columns),
             "c": drawn(2, columns), "h": q, "w": k, "bias": drawn(columns), "sinks": lengths / 90,
             "labels": lengths - 1, "label": lengths - 1}
    return {n: given[n] for n in p.signature.arrays}


def close(found: Any, want: Any, tolerance: float = 2e-5) -> None:
    for a, b in zip(flat(found), flat(want), strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype("f8"), b.astype("f8"), rtol=tolerance, atol=tolerance)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("name", TEXTS)
def test_gpus_make_the_states_that_hosts_make(name: str, gpu: Any) -> None:
    """Pieces of any length, also none and fewer columns than a list has entries."""
    p, rng = fg.Pipeline(TEXTS[name]), np.random.default_rng(3)
    arrays, cuts = arrays_of(p, 70, 200), [0, 2, 130, 130, 200]
    theirs = pieces(p, arrays, cuts)
    ours = pieces(p, {n: on_gpu(a) for n, a in arrays.items()}, cuts)
    for a, b in zip(ours, theirs, strict=True):
        assert isinstance(a.array, fake_cupy.Array)
        same_states(a, b)
    want = p.reference(**arrays)
    whole = fg.merge(p, *ours)
    same_states(whole, fg.merge(p, *theirs))
    again = {n: on_gpu(arrays[n]) for n in ("sinks",) if n in arrays}
    close(p.finish(whole, **again), want)
    close(p.finish(merged_anyhow(p, ours, rng), **again), want)
    back = fg.merge(p, moved(ours[0], np.asarray), *theirs[1:])  # from one to the other
    close(p.finish(moved(back, on_gpu), **again), want)


@pytest.mark.long
@emulated
@pytest.mark.parametrize("rows", [70, 4], ids=["many rows", "few rows"])
@pytest.mark.parametrize("name", ["attention", "causal", "cosines"])
def test_vectors_of_16_bits(name: str, rows: int, gpu: Any) -> None:
    """By tensor cores; fields are float32."""
    p = fg.Pipeline({"attention": texts.attention.fn, "causal": texts.causal.fn,
                     "cosines": cosines}[name])
    arrays = {"q": drawn(rows, 16), "k": drawn(300, 16, seed=1), "v": drawn(300, 24, seed=2)}
    arrays = {n: a.astype(ml_dtypes.bfloat16) for n, a in arrays.items()} | {
        "label": np.arange(rows) * 4 % 300}
    arrays = {n: arrays[n] for n in p.signature.arrays if n in arrays}
    parts = pieces(p, {n: on_gpu(a) for n, a in arrays.items()}, [0, 64, 65, 300])
    close(p.finish(fg.merge(p, *reversed(parts))), p.reference(**arrays), 2e-2)
    for a, b in zip(parts, pieces(p, arrays, [0, 64, 65, 300]), strict=True):
        same_states(a, b, 2e-2)


@emulated
@pytest.mark.parametrize("count", [1, 3, 40])
def test_any_number_of_states_merge_at_once(count: int, gpu: Any) -> None:
    p = fg.Pipeline(statistics)
    arrays = arrays_of(p, 5, 2 * count)
    parts = pieces(p, arrays, [*range(0, 2 * count + 1, 2)])
    before = len(gpu.launched)
    whole = fg.merge(p, *(moved(s, on_gpu) for s in parts))
    assert [n["symbol"] for n in gpu.launched[before:]] == ["statistics_merge_kernel"]
    same_states(whole, fg.merge(p, *parts))
    close(p.finish(whole), p.reference(**arrays))


@pytest.mark.long
@emulated
def test_lists_found_among_rounded_scores(gpu: Any) -> None:
    """In pieces that have many columns; their numbers are the whole's."""
    p, x, y = fg.Pipeline(texts.nearest.fn), drawn(3, 8), drawn(9000, 8, seed=1)
    parts = pieces(p, {"x": on_gpu(x), "y": on_gpu(y)}, [0, 300, 9000])
    assert "round" in " ".join(n["symbol"] for n in gpu.launched)
    distances, columns = p.finish(fg.merge(p, *reversed(parts)))
    want = p.reference(x, y)
    np.testing.assert_array_equal(host(columns), want[1])
    np.testing.assert_allclose(host(distances), want[0], rtol=1e-5)
