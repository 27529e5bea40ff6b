"""Gradients of what columns have (weights, keys, values, a head's vectors) in pieces of columns:
states of their rows from every piece, in any order, then each piece's own part."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.state_cases import cuts_of, merged_anyhow

import fusegen as fg
from fusegen.backend.cpu.backend import CpuBackend

L = fg.library
Arrays = dict[str, np.ndarray]


class Case(NamedTuple):
    gradient: Any
    arrays: Callable[[np.random.Generator, int], Arrays]  # of so many columns
    exact: Callable[[Arrays], tuple[np.ndarray, ...]]  # by formulas, in float64
    constants: Mapping[str, Any] = {}


def drawn(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def standing(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def softmax(s: np.ndarray) -> np.ndarray:
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def averaged(x: Any, w: fg.PerColumn, t: fg.PerRow):
    """A weight beside a softmax, and an input of the row that its gradient takes again."""
    p = fg.exp(x - fg.max(x))
    return t * fg.sum(p * w) / fg.sum(p)


def of_norm(a: Arrays) -> tuple[np.ndarray, ...]:
    return ((a["grad"] * standing(a["x"])).reshape(-1, a["x"].shape[-1]).sum(0),)


def of_average(a: Arrays) -> tuple[np.ndarray, ...]:
    scaled = (a["grad"] * a["t"])[..., None] * softmax(a["x"])
    return (scaled.sum(0),)


def of_head(a: Arrays) -> tuple[np.ndarray, ...]:
    p = softmax(a["h"] @ a["w"].T + a["bias"])
    p[np.arange(len(p)), a["labels"]] -= 1
    s = a["grad"][:, None] * p
    return s.T @ a["h"], s.sum(0)


def of_pairs(a: Arrays) -> tuple[np.ndarray, ...]:
    x, y = a["x"], a["y"]
    lengths = np.linalg.norm(y, axis=-1, keepdims=True)
    u = x / np.linalg.norm(x, axis=-1, keepdims=True)
    p = softmax(u @ (y / lengths).T / 0.5)
    p[np.arange(len(p)), a["positives"]] -= 1
    slope = (a["grad"][:, None] * p / 0.5).T @ u
    unit = y / lengths
    return ((slope - unit * (slope * unit).sum(-1, keepdims=True)) / lengths,)


def of_attention(causal: bool) -> Callable[[Arrays], tuple[np.ndarray, ...]]:
    def exact(a: Arrays) -> tuple[np.ndarray, ...]:
        q, k, v, g = (a[n] for n in ("q", "k", "v", "grad"))
        s = 0.4 * q @ k.swapaxes(-1, -2)
        if causal:
            s = np.where(np.arange(k.shape[-2]) <= np.arange(q.shape[-2])[:, None], s, -np.inf)
        p, back = softmax(s), g @ v.swapaxes(-1, -2)
        back = p * (back - (back * p).sum(-1, keepdims=True))
        return (0.4 * (back.swapaxes(-1, -2) @ q).sum(1, keepdims=True),  # queries share keys
                (p.swapaxes(-1, -2) @ g).sum(1, keepdims=True))
    return exact


def norm_arrays(rng: np.random.Generator, n: int) -> Arrays:
    return {"grad": drawn(rng, 2, 5, n), "x": drawn(rng, 2, 5, n) + 20, "weight": drawn(rng, n)}


def average_arrays(rng: np.random.Generator, n: int) -> Arrays:
    return {"grad": drawn(rng, 7), "x": 5 * drawn(rng, 7, n), "w": drawn(rng, n),
            "t": drawn(rng, 7)}


def head_arrays(rng: np.random.Generator, n: int) -> Arrays:
    return {"grad": drawn(rng, 9), "h": drawn(rng, 9, 6), "w": drawn(rng, n, 6),
            "labels": rng.integers(0, n, 9), "bias": drawn(rng, n)}


def pair_arrays(rng: np.random.Generator, n: int) -> Arrays:
    return {"grad": drawn(rng, 9), "x": drawn(rng, 9, 6), "y": drawn(rng, n, 6),
            "positives": rng.integers(0, n, 9)}


def attention_arrays(rng: np.random.Generator, n: int) -> Arrays:
    return {"grad": drawn(rng, 2, 3, 11, 4), "q": drawn(rng, 2, 3, 11, 5),
            "k": drawn(rng, 2, 1, n, 5), "v": drawn(rng, 2, 1, n, 4)}


ATTENTION = fg.grad(L.attention, wrt=("k", "v"), scale=0.4)
CASES = {
    "norm": Case(fg.grad(L.layer_norm, wrt="weight"), norm_arrays, of_norm),
    "average": Case(fg.grad(fg.Pipeline(averaged), wrt="w"), average_arrays, of_average),
    "head": Case(fg.grad(L.linear_cross_entropy, wrt=("w", "bias")), head_arrays, of_head),
    "cosines": Case(fg.grad(L.contrastive, wrt="y", normalize=True, temperature=0.5), pair_arrays,
                    of_pairs),
    "attention": Case(ATTENTION, attention_arrays, of_attention(causal=False)),
    "causal": Case(ATTENTION, attention_arrays, of_attention(causal=True), {"causal": True}),
}
OF_VECTORS = ("k", "v", "w", "y")
NUMBERS = ("weight", "bias")


def cut(name: str, arrays: Arrays, i: int, j: int) -> Arrays:
    """This piece's part of what columns have."""
    found = {}
    for n, a in arrays.items():
        if n in OF_VECTORS and a.ndim > 1:
            a = a[..., i:j, :]
        elif n in (*OF_VECTORS, *NUMBERS) or (name in ("norm", "average") and a.ndim > 1):
            a = a[..., i:j]
        found[n] = a
    return found


def by_pieces(name: str, arrays: Arrays, cuts: list[int], **more: Any) -> list[np.ndarray]:
    p, rng = CASES[name].gradient, np.random.default_rng(len(cuts))
    parts = [cut(name, arrays, i, j) for i, j in pairwise(cuts)]
    made = [p.states(**a, at=i, **CASES[name].constants, **more)
            for a, i in zip(parts, cuts, strict=False)]
    whole = merged_anyhow(p, made, rng)
    found = [p.finish(whole, **a, at=i) for a, i in zip(parts, cuts, strict=False)]
    return joined(name, found)


def joined(name: str, found: list[Any]) -> list[np.ndarray]:
    each = [f if isinstance(f, tuple) else (f,) for f in found]
    return [np.concatenate(of, axis=-2 if of[0].ndim > 1 else -1)
            for of in zip(*each, strict=True)]


def narrow(arrays: Arrays, dtype: str) -> Arrays:
    return {n: a.astype(dtype) if a.dtype.kind == "f" else a for n, a in arrays.items()}


@pytest.mark.long
@pytest.mark.parametrize("where", ["cpu", "numpy"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CASES)
def test_any_split_in_any_order(
    name: str, dtype: str, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uneven pieces, and some without a column."""
    if where == "numpy":
        monkeypatch.setattr(CpuBackend, "hindrance", lambda *_, **__: "a wish")
    rng, tolerance = np.random.default_rng(3), 1e-12 if dtype == "float64" else 2e-5
    for n in (30, 77):
        arrays = narrow(CASES[name].arrays(rng, n), dtype)
        exact = CASES[name].exact({k: a.astype("f8") if a.dtype.kind == "f" else a
                                   for k, a in arrays.items()})
        for cuts in ([0, n], [0, 0, n, n], cuts_of(n, rng), cuts_of(n, rng)):
            for found, want in zip(by_pieces(name, arrays, cuts), exact, strict=True):
                assert found.dtype == dtype
                np.testing.assert_allclose(found, want, rtol=tolerance,
                                           atol=tolerance * np.abs(want).max())


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_for_any_number_of_holders(name: str) -> None:
    arrays = narrow(CASES[name].arrays(np.random.default_rng(1), 300), "float32")
    found = [by_pieces(name, arrays, cuts, deterministic=True, pieces=64)
             for cuts in ([0, 300], [0, 64, 300], [0, 128, 128, 192, 256, 300])]
    if name in ("norm", "average"):  # what is summed over rows is each column's own
        for other in found[1:]:
            for a, b in zip(found[0], other, strict=True):
                np.testing.assert_array_equal(a, b)
    p, other = CASES[name].gradient, cut(name, arrays, 64, 300)
    options = {"deterministic": True, "pieces": 64, **CASES[name].constants}
    one = p.states(**arrays, **options)
    two = fg.merge(p, p.states(**other, at=64, **options),
                   p.states(**cut(name, arrays, 0, 64), at=0, **options))
    for a, b in zip(one.runs, two.runs, strict=True):
        np.testing.assert_array_equal(a.array, b.array)


def test_streams_and_bytes() -> None:
    """An accumulator of blocks, bytes of it and of states, and pickles, of the gradient too."""
    rng = np.random.default_rng(2)
    for name in ("norm", "head"):
        p, arrays = CASES[name].gradient, CASES[name].arrays(rng, 40)
        total = p.accumulator()
        for i, j in ((0, 7), (7, 7), (7, 40)):
            total.update(**cut(name, arrays, i, j))
        total = fg.Accumulator.from_bytes(p, total.to_bytes())
        again = pickle.loads(pickle.dumps(p))
        states = fg.States.from_bytes(again, total.states.to_bytes())
        want = CASES[name].exact(arrays)
        for found in (total.finish(**arrays), again.finish(states, **arrays)):
            for a, b in zip(joined(name, [found]), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_tensors_give_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for name in ("norm", "causal"):
        p, constants = CASES[name].gradient, CASES[name].constants
        arrays = CASES[name].arrays(np.random.default_rng(5), 24)
        parts = [{n: torch.from_numpy(a.copy()) for n, a in cut(name, arrays, i, j).items()}
                 for i, j in ((0, 9), (9, 24))]
        whole = fg.merge(p, *(p.states(**a, at=i, **constants)
                              for a, i in zip(parts, (0, 9), strict=True)))
        assert isinstance(whole.array, torch.Tensor)
        found = [p.finish(whole, **a, at=i) for a, i in zip(parts, (0, 9), strict=True)]
        each = [f if isinstance(f, tuple) else (f,) for f in found]
        for of, want in zip(zip(*each, strict=True), CASES[name].exact(arrays), strict=True):
            got = torch.cat(of, -2 if of[0].ndim > 1 else -1)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-10, atol=1e-12)


def test_no_rows_are_zeros() -> None:
    for name in ("norm", "head"):
        p, arrays = CASES[name].gradient, CASES[name].arrays(np.random.default_rng(0), 12)
        rows = {"grad", "x", "h", "labels"}
        none = {n: a[..., :0, :] if a.ndim > 2 else a[:0] if n in rows else a
                for n, a in arrays.items()}
        for found in joined(name, [p.finish(p.states(**none), **none)]):
            np.testing.assert_array_equal(found, np.zeros_like(found))


def test_what_is_finished_is_what_states_are_of() -> None:
    case = CASES["causal"]
    p, arrays = case.gradient, narrow(case.arrays(np.random.default_rng(0), 20), "float32")
    parts = [cut("causal", arrays, i, j) for i, j in ((0, 8), (8, 20))]
    one, two = (p.states(**a, at=i, causal=True) for a, i in zip(parts, (0, 8), strict=True))
    whole = fg.merge(p, one, two)
    with pytest.raises(fg.ArgumentError, match="a piece of unknown place"):
        p.finish(whole, **parts[1])
    with pytest.raises(fg.ArgumentError, match="finished for columns 8"):
        p.finish(one, **parts[1], at=8)
    with pytest.raises(fg.ArgumentError, match="misses"):
        p.finish(whole, arrays["grad"], arrays["q"], at=0)
    with pytest.raises(fg.DTypeError, match="k has type"):
        p.finish(whole, **parts[0] | {"k": parts[0]["k"].astype("f8")}, at=0)
    with pytest.raises(fg.ShapeError, match="rows"):
        p.finish(whole, **parts[0] | {n: parts[0][n][:1] for n in ("q", "k", "v", "grad")}, at=0)
    with pytest.raises(fg.ArgumentError, match="seen the same columns"):
        fg.merge(p, one, one)
    with pytest.raises(fg.ArgumentError, match="not of"):
        fg.merge(L.attention, one, two)
    with pytest.raises(fg.ArgumentError, match="do not belong together"):
        fg.merge(p, one, p.states(**parts[1], at=8))


def test_what_has_no_states_says_why() -> None:
    rng = np.random.default_rng(0)
    arrays = norm_arrays(rng, 10)
    with pytest.raises(fg.PipelineError, match="takes nothing of whole rows"):
        fg.grad(L.layer_norm, wrt="bias").states(*arrays.values(), drawn(rng, 10))
    x, y = drawn(rng, 5, 4), drawn(rng, 8, 4)
    with pytest.raises(fg.PipelineError, match="takes nothing of whole rows"):
        fg.grad(L.gaussian_sum, wrt="y").states(x[:, 0], x, y)
    every = fg.grad(L.attention, wrt=("q", "k", "v"), scale=0.4)
    with pytest.raises(fg.PipelineError, match="read in 2 rounds"):
        every.states(**attention_arrays(rng, 10))
    beside = attention_arrays(rng, 10) | {"sinks": drawn(rng, 2, 3, 11)}
    with pytest.raises(fg.PipelineError, match="read in 2 rounds") as refused:
        ATTENTION.states(**beside)
    assert "wrt" not in str(refused.value)
