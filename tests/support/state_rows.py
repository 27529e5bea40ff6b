"""Pipelines whose results take arrays again: full rows, inputs of rows, elements at a column."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

import fusegen as fg
from support.state_cases import Place, flat, near

L = fg.library.PIPELINES


@fg.pipeline
def listed(x: Any) -> Any:
    """Full rows, lists and row values of one state."""
    p = fg.exp(x - fg.max(x))
    p = p / fg.sum(p)
    values, at = fg.topk(p, 3)
    return {"p": p, "values": values, "at": at, "mean": fg.sum(p * x)}


@fg.pipeline
def kept(x: Any) -> Any:
    """Elements wait for a value of a list."""
    values, _ = fg.topk(x, 3)
    least = fg.min(values)
    return fg.where(x >= least, x - fg.max(x), -1e9), least


@fg.pipeline
def numbered(x: Any) -> Any:
    """Column numbers and the number of columns in elements; one result is of no row at all."""
    return fg.index(x) * (x - fg.mean(x)) / fg.length(x), fg.argmax(x), fg.tanh(x)


@fg.pipeline
def picks(x: Any, label: fg.PerRow, z: Any) -> Any:
    """Elements at columns that rows say, some of them nobody's; in elements as well."""
    p = fg.exp(x - fg.max(x))
    p = p / fg.sum(p)
    here = fg.take(p, label)
    behind = fg.take(fg.cast(fg.index(x), "float32") + z, label + 1)
    share = fg.take(z, label)
    either = fg.take(fg.where(z > 0, x, 3.0), label)
    return here, behind, p * share, either


@fg.pipeline
def rags(x: Any, lengths: fg.PerRow) -> Any:
    x = fg.ragged(x, lengths)
    p = fg.exp(x - fg.max(x))
    return p / fg.sum(p), fg.length(x), fg.mean(x)


@fg.pipeline
def scaled(x: Any, by: fg.PerRow, *, t: float = 0.7) -> Any:
    return fg.logsumexp(x * t) * by


def _weights(x: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    return [np.linspace(0.5, 2, x.shape[-1]).astype(x.dtype), np.cos(x[0])]


def _labels(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-1, x.shape[-1] + 1, x.shape[:-1])


def _like(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 1, x.shape).astype(x.dtype)


def _row(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 1, x.shape[:-1]).astype(x.dtype)


def _inside(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, x.shape[-1], x.shape[:-1])


LIBRARY = ("softmax", "naive_softmax", "log_softmax", "cross_entropy", "layer_norm", "rms_norm",
           "absmax_quantize")
"""Those of the library whose results take arrays again."""

CASES: Mapping[str, tuple[Any, Any]] = {
    "softmax": (L["softmax"], lambda x, r: [x]),
    "naive_softmax": (L["naive_softmax"], lambda x, r: [x - x.max()]),
    "log_softmax": (L["log_softmax"], lambda x, r: [x]),
    "cross_entropy": (L["cross_entropy"], lambda x, r: [x, _labels(x, r)]),
    "layer_norm": (L["layer_norm"], lambda x, r: [x, *_weights(x, r)]),
    "rms_norm": (L["rms_norm"], lambda x, r: [x, _weights(x, r)[0]]),
    "absmax_quantize": (L["absmax_quantize"], lambda x, r: [x]),
    "softmax_grad": (fg.grad(L["softmax"]), lambda x, r: [_like(x, r), x]),
    "log_softmax_grad": (fg.grad(L["log_softmax"]), lambda x, r: [_like(x, r), x]),
    "cross_entropy_grad": (fg.grad(L["cross_entropy"]),
                           lambda x, r: [_row(x, r), x, _inside(x, r)]),
    "layer_norm_grad": (fg.grad(L["layer_norm"], wrt="x"),
                        lambda x, r: [_like(x, r), x, *_weights(x, r)]),
    "rms_norm_grad": (fg.grad(L["rms_norm"], wrt="x"),
                      lambda x, r: [_like(x, r), x, _weights(x, r)[0]]),
    "entropy_grad": (fg.grad(L["entropy"]), lambda x, r: [_row(x, r), x]),
    "listed": (listed, lambda x, r: [x]), "kept": (kept, lambda x, r: [x]),
    "numbered": (numbered, lambda x, r: [x]),
    "picks": (picks, lambda x, r: [x, _labels(x, r), _like(x, r)]),
    "rags": (rags, lambda x, r: [x, r.integers(1, x.shape[-1] + 1, x.shape[:-1])]),
    "scaled": (scaled, lambda x, r: [x, _row(x, r)]),
}


def cut(p: fg.Pipeline, given: list[np.ndarray], n: int, i: int, j: int, place: Place) -> list[Any]:
    """A piece of each of the arrays that have columns."""
    return [place(a[..., i:j] if a.shape[-1] == n else a) for a in given]


def in_pieces(
    p: fg.Pipeline, given: list[np.ndarray], cuts: list[int], place: Place = np.asarray,
    **constants: Any,
) -> tuple[fg.States, list[list[np.ndarray]]]:
    """(the whole's state, what each piece is finished to)."""
    n = cuts[-1]
    spans = [*itertools.pairwise(cuts)]
    parts = [cut(p, given, n, i, j, place) for i, j in spans]
    states = [p.states(*part, at=i, **constants) for part, (i, _) in zip(parts, spans, strict=True)]
    whole = fg.merge(p, *reversed(states))
    found = [flat(p.finish(whole, *part, at=i)) for part, (i, _) in zip(parts, spans, strict=True)]
    return whole, found


def same_as(found: list[list[np.ndarray]], want: Any, rtol: float = 3e-6) -> None:
    """Pieces of full rows side by side, and row values the same from every piece."""
    whole = []
    for parts, wanted in zip(zip(*found, strict=True), flat(want), strict=True):
        wide = wanted.ndim == 2 and sum(p.shape[-1] for p in parts) == wanted.shape[-1]
        whole.append(np.concatenate(parts, -1) if wide else parts[0])
        for other in () if wide else parts[1:]:
            np.testing.assert_array_equal(other, parts[0])
    near(tuple(whole), want, rtol)
