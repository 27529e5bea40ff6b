"""Pipelines with states, cut into pieces and merged along any tree, wherever arrays are."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import fusegen as fg

INF, NAN = np.inf, np.nan
Place = Callable[[np.ndarray], Any]

LIBRARY = ("logsumexp", "topk", "argmax", "softmax_topk", "entropy", "var_mean", "norm2",
           "moe_gate", "weighted_mean")
"""Those of the library that have states; tests/test_states.py sees that none is missing."""


def places(x: Any) -> Any:
    """Column numbers in elements, in a best, and beside the number of columns."""
    weighted = fg.sum(fg.where(x > 0, fg.index(x), 0))
    return {"last": fg.max(fg.where(x > 0, fg.index(x), -1)), "sum": weighted,
            "low": fg.argmin(x), "n": fg.length(x), "mean": fg.mean(x)}


def many(x: Any, w: fg.PerColumn, *, k: int = 3) -> Any:
    """A list, softmax weights, moments and a column's vector in one state."""
    m = fg.max(x)
    p = fg.exp(x - m)
    values, at = fg.topk(x, k)
    mean = fg.mean(x)
    return values, at, fg.sum(p * w) / fg.sum(p), fg.sum((x - mean) ** 2), fg.any(x > 2)


def tempered(x: Any, *, t: float = 0.7) -> Any:
    """Moves of the pivot depend on a number of the call."""
    m = fg.max(x)
    p = fg.exp((x - m) * t)
    return fg.topk(p / fg.sum(p), 2)


def labelled(x: Any, label: fg.PerRow) -> Any:
    """Elements meet a value of their row, which the result needs no more: a loss whose classes are
    in pieces."""
    return fg.logsumexp(x) - fg.sum(fg.where(fg.index(x) == label, x, 0))


def _later(a: Any, b: Any) -> Any:
    return {"n": a["n"] + b["n"], "first": fg.where(a["n"] > 0, a["first"], b["first"]),
            "last": fg.where(b["n"] > 0, b["last"], a["last"])}


ENDS = fg.monoid({"n": 0, "first": 0.0, "last": 0.0}, lambda v: {"n": 1, "first": v, "last": v},
                 _later, lambda s: (s["first"], s["last"]), commutative=False)


def ends(x: Any) -> Any:
    """A monoid that keeps the order of a row."""
    return fg.reduce(ENDS, x)


TEXTS: Mapping[str, Callable[..., Any]] = {
    **{n: fg.library.PIPELINES[n].fn for n in LIBRARY}, "places": places, "many": many,
    "tempered": tempered, "labelled": labelled,
}
"""All of them may merge in any order."""

HARD = {
    "infinities and NaN": [1.0, INF, -2, NAN, 3, INF, 0, -0.0],
    "all −∞": [-INF] * 8, "all NaN": [NAN] * 8,
    "both infinities": [INF, 1, 2, 3, -INF, 5, 6, 7],
    "much −∞": [-INF, 2, -INF, 5, -INF, -INF, 1, 0],
    "near the ends": [3e38, -3e38, 1, 2, 3, 4, 3e38, 0],
    "zeros of both signs": [0.0, -0.0, -0.0, 0.0, -0.0, 0.0, 0.0, -0.0],
    "subnormal": [1e-45, -1e-45, 3e-40, 0, -2e-39, 1e-44, 5e-41, 1e-38],
}
HARD_TEXTS = ("logsumexp", "topk", "argmax", "softmax_topk", "moe_gate")


def hard_rows() -> np.ndarray:
    return np.array(list(HARD.values()), np.float32)


def flat(found: Any) -> list[np.ndarray]:
    """Results as NumPy arrays, wherever they are."""
    parts = found.values() if isinstance(found, dict) else found
    if not isinstance(found, dict | tuple):
        parts = (found,)
    return [host(v) for v in parts]


def host(array: Any) -> np.ndarray:
    """A NumPy array of NumPy's, CuPy's or torch's."""
    if hasattr(array, "get"):
        return np.asarray(array.get())
    return np.asarray(array.detach().cpu() if hasattr(array, "detach") else array)


def arguments(name: str, x: np.ndarray) -> list[np.ndarray]:
    """Arrays for a pipeline, which have the columns of x or one."""
    extra = {"weighted_mean": np.cos(x), "many": np.linspace(-1, 1, x.shape[-1]).astype(x.dtype)}
    if name == "labelled":
        rows = x.shape[:-1]
        extra[name] = np.arange(math.prod(rows)).reshape(*rows, 1) * 7 % x.shape[-1]
    return [x, *([extra[name]] if name in extra else [])]


def cuts_of(n: int, rng: np.random.Generator, most: int = 6) -> list[int]:
    """Where pieces begin and end: any number of them, some without a column."""
    return sorted([0, n, *map(int, rng.integers(0, n + 1, int(rng.integers(0, most))))])


def pieces(
    p: fg.Pipeline, given: list[np.ndarray], cuts: list[int], place: Place = np.asarray,
    **constants: Any,
) -> list[fg.States]:
    """States of every piece of these arrays."""
    whole = given[0].shape[-1]
    cut = [a is given[0] or a.ndim == 1 or a.shape[-1] == whole > 1 for a in given]
    return [p.states(*[place(a[..., i:j] if c else a) for a, c in zip(given, cut, strict=True)],
                     at=i, **constants)
            for i, j in itertools.pairwise(cuts)]


def merged_anyhow(p: fg.Pipeline, parts: list[fg.States], rng: np.random.Generator) -> fg.States:
    """One state, along a random tree."""
    parts = [parts[i] for i in rng.permutation(len(parts))]
    while len(parts) > 1:
        i = int(rng.integers(len(parts) - 1))
        n = int(rng.integers(2, 4))
        parts[i : i + n] = [fg.merge(p, *parts[i : i + n])]
    return parts[0]


def near(got: Any, want: Any, rtol: float = 3e-6) -> None:
    """The same results; floats up to `rtol` of the greatest."""
    for g, w in zip(flat(got), flat(want), strict=True):
        assert g.shape == w.shape
        w64 = w.astype(np.float64)
        size = np.max(np.abs(w64[np.isfinite(w64)]), initial=1e-30)
        np.testing.assert_allclose(g.astype(np.float64), w64, rtol=rtol, atol=rtol * size)


def same_states(
    a: fg.States, b: fg.States, rtol: float = 1e-5, listed: float = 0.0
) -> None:
    """The same bytes of the same fields: columns, counts and lists exactly, sums nearly: one that
    is nearly 0 is of terms as large as those of others. Values in lists are nearly the same, up to
    `listed`, where they were computed: of `s + a * b` some processors round once, others twice."""
    assert a.layout == b.layout
    assert a.n_cols == b.n_cols
    mine, theirs = table(a), table(b)
    sums = {f.name for f in a.layout.fields if f.dtype.kind == "float" and not f.in_list}
    sizes = [np.max(np.abs(theirs[n][np.isfinite(theirs[n])]), initial=0.0) for n in sums]
    values = {f.name for f in a.layout.fields if f.dtype.kind == "float" and f.in_list}
    for name in mine.dtype.names:
        near_by = {"rtol": rtol, "atol": rtol * max(sizes)} if name in sums else {
            "rtol": listed if name in values else 0}
        np.testing.assert_allclose(mine[name], theirs[name], **near_by, err_msg=name)


def table(states: fg.States) -> np.ndarray:
    """States as a structured array, one record a row."""
    whole = host(states.array).reshape(-1, states.layout.n_bytes)
    return whole.view(states.layout.numpy)[:, 0]


def no_byte_may_change(read, data):
    """`read` refuses data of which one bit differs, whichever byte has it."""
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x10
        with pytest.raises(fg.ArgumentError):
            read(changed)
