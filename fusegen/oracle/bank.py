"""Hard rows for merged sums in floats: finite data on which merges that are equal over the reals,
and wrong in floats, go wrong; and rows with infinities.

Pivots that arrive last, partial rows of weight or scale 0, offsets that the rest of the row lacks,
one element that dominates, magnitudes at the edge of the range. Every input has a pattern of its
own: with two inputs all pairs occur, with more every two inputs meet in all pairs. Numbers per row
and scalars have usual values beside every row, and then the row's own greatest.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.varying import bounds_of, samples_of

Array = np.ndarray[Any, Any]

_SIZES = 7  # at most that scalars have, in varying.samples_of
_PER_ROW = (1.0, 0.5, -1.0, 2.0, 0.1, 10.0, 0.0)
_NEAR = 2  # inputs at most, near whose rows' greatest numbers lie, too: small differences of large


@dataclass(frozen=True)
class Bank:
    """Rows for every input, by its name in the text: elements (rows, n_cols), per row (rows, 1)."""

    n_cols: int
    inputs: Mapping[str, Array]
    picks: Array  # (rows, inputs): the number of each input's pattern

    def __len__(self) -> int:
        return len(self.picks)

    def label(self, row: int) -> str:
        """The patterns of a row's inputs."""
        return " | ".join(_NAMES[i] for i in self.picks[row])

    def only(self, row: int) -> Bank:
        """One row by itself."""
        inputs = {n: a[row : row + 1] for n, a in self.inputs.items()}
        return Bank(self.n_cols, inputs, self.picks[row : row + 1])

    def thinned(self, most: int) -> Bank:
        """So many rows at most, evenly out of all."""
        step = -(-len(self) // most)
        inputs = {n: a[::step] for n, a in self.inputs.items()}
        return Bank(self.n_cols, inputs, self.picks[::step])

    def shortened(self) -> Bank:
        """The first row without each of its columns in turn."""
        inputs = {n: np.stack([np.delete(a[0], k) if a.shape[1] > 1 else a[0]
                               for k in range(self.n_cols)])
                  for n, a in self.inputs.items()}
        return Bank(self.n_cols - 1, inputs, np.repeat(self.picks[:1], self.n_cols, axis=0))

    def named(self, graph: g.Graph) -> dict[str, Array]:
        """The rows under the kernel's names."""
        return {graph.names[i]: self.inputs[i.name] for i in graph.read}


def bank_of(graph: g.Graph, dtypes: Mapping[str, DType], n_cols: int, seed: int = 0) -> Bank:
    """All rows of the bank for a graph's inputs; the same seed gives the same rows."""
    varying = [i for i in graph.inputs if i.axis is not g.Axis.PER_ROW]
    per_row = [i for i in graph.inputs if i.axis is g.Axis.PER_ROW]
    every = _picks(max(1, len(varying)))
    usual = np.tile(every, (_SIZES, 1)) if graph.scalars else every  # of theirs, beside every row
    numbers = graph.scalars or any(dtypes[i.name].kind == "float" for i in per_row)
    beside = varying[:_NEAR] if numbers else []
    picks = np.concatenate([usual, *([every] * len(beside))])
    inputs = {}
    for k, node in enumerate(varying):
        inputs[node.name] = _typed(_table(n_cols, seed, k), dtypes[node.name], n_cols)[picks[:, k]]
    near = np.concatenate([_NONE, *(
        np.max(inputs[i.name][-len(every):], axis=1, keepdims=True) for i in beside)])
    for node in per_row:
        column = np.resize(_PER_ROW, len(usual))[:, None]
        inputs[node.name] = _typed(np.concatenate([column, near]), dtypes[node.name], n_cols)
    return Bank(n_cols, inputs | scalars_of(graph, len(usual), near), picks)


_NONE = np.empty((0, 1))


def scalars_of(graph: g.Graph, n_rows: int, near: Array = _NONE) -> dict[str, Array]:
    """A number for every scalar in every row, the first rows with the most usual ones; behind them
    a row for each number of `near`, with the nearest of the scalar's magnitude."""
    found = {}
    for k, node in enumerate(graph.scalars):
        samples = np.roll(samples_of(node.magnitude), k)
        some = np.arange(n_rows) * _SIZES // n_rows % len(samples)
        nearest = np.clip(near, *bounds_of(node.magnitude))
        found[node.name] = np.concatenate([samples[some][:, None], nearest]).astype(np.float32)
    return found


@functools.cache
def _picks(n_inputs: int) -> Array:
    """Which pattern each input has in each row: an orthogonal array of strength two over the finite
    ones (their number is prime), then every infinite one beside a finite one."""
    size, every = N_FINITE, len(_NAMES)
    if n_inputs == 1:
        return np.arange(every)[:, None]
    i, j = np.divmod(np.arange(size**2), size)
    pairs = np.stack([(i + k * j) % size for k in range(n_inputs)], axis=1)
    huge = np.isin(pairs, _HUGE)
    pairs = pairs[huge.sum(axis=1) <= 1]  # the product of two leaves the range
    infinite = itertools.product(range(size, every), range(n_inputs), (0, 1, 15))
    beside = [[one if m == k else finite for m in range(n_inputs)] for one, k, finite in infinite]
    return np.concatenate([pairs, np.array(beside)])


@functools.lru_cache(maxsize=32)
def _table(n_cols: int, seed: int, k: int) -> Array:
    return np.stack([*_patterns(n_cols, np.random.default_rng((seed, k))).values()])


def _typed(values: Array, dtype: DType, n_cols: int) -> Array:
    """Floats rounded to the type; integers are column numbers, which is what they are used for."""
    match dtype.kind:
        case "bool":
            return np.asarray(values > 0)
        case "int":
            finite = np.nan_to_num(np.abs(values), posinf=0.0)
            return np.asarray(np.minimum(finite, n_cols - 1), np.int64)
        case "float":
            with np.errstate(over="ignore"):
                narrow = dtype.numpy if dtype.itemsize < 4 else np.float32
                return np.asarray(values.astype(narrow), np.float32)


N_FINITE = 37


@dataclass(frozen=True)
class _Columns:
    """What patterns are made of: n values each, all of one generator."""

    n: int
    rng: np.random.Generator

    def z(self) -> Array:
        return self.rng.standard_normal(self.n)

    def halves(self, first: Any, second: Any) -> Array:
        return np.asarray(np.where(np.arange(self.n) < self.n // 2, first, second))

    def but(self, value: float, at: int, rest: Array) -> Array:
        return np.asarray(np.where(np.arange(self.n) == at, value, rest))

    def thirds(self, a: Any, b: Any, c: Any) -> Array:
        third = (3 * np.arange(self.n) + 1) // max(self.n, 1)  # 0, 1, 2
        return np.asarray(np.where(third == 0, a, np.where(third == 1, b, c)))


def _patterns(n: int, rng: np.random.Generator) -> dict[str, Array]:
    """Rows of n values by name: first the finite ones, then those with infinities."""
    columns = _Columns(n, rng)
    return {**_finite(columns), **_infinite(columns)}


def _finite(of: _Columns) -> dict[str, Array]:
    n, z, halves, but, thirds = of.n, of.z, of.halves, of.but, of.thirds
    last, flat = n - 1, np.full(n, 2.7)
    return {
        "normal": z(), "offset 1e4": z() + 1e4, "rising": np.sort(z()) * 20,
        "falling": -np.sort(z()) * 20, "whole numbers": np.round(z() * 2),
        "+60 then -60": z() + halves(60, -60), "-90 then 90": z() + halves(-90, 90),
        "near -100": z() - 100, "near +100": z() + 100, "near -1e4": z() - 1e4,
        "last 1e4": but(1e4, last, z()), "first -1e4": but(-1e4, 0, z()),
        "first 120": but(120.0, 0, z()), "last 110": but(110.0, last, z() * 1e-3),
        "constant": flat, "zeros": np.zeros(n), "one low": but(-3.3, n // 2, flat),
        "0 then normal": halves(0, 1) * z(), "0 then 1": halves(0, 1), "1 then 0": halves(1, 0),
        "middle third 1": thirds(0.0, 1.0, 0.0), "outer thirds": thirds(1.0, 0.0, -1.0),
        "thirds of 1e5": thirds(1e5, z(), -1e5), "+1e5 then -1e5": z() + halves(1e5, -1e5),
        "1e5 falling to 0": np.linspace(1e5, 0, n), "-1e5 rising to 0": np.linspace(-1e5, 0, n),
        "-200 to 120": np.linspace(-200, 120, n), "below 0": -np.abs(z()) - 0.5,
        "gaps 1e-6": but(0.0, 0, -1e-6 * of.rng.random(n)), "1e4 with gaps 1e-2": 1e4 + z() * 1e-2,
        "one dominant": but(0.0, n // 3, np.full(n, -20.0)),
        "1e-25 then 1": halves(1e-25, 1) * (1 + of.rng.random(n)), "1e-22": z() * 1e-22,
        "1e15": z() * 1e15, "1e25": z() * 1e25, "subnormal": np.abs(z()) * 1e-40,
        "decades": np.sign(z()) * 10.0 ** of.rng.uniform(-6, 6, n),
    }


def _infinite(of: _Columns) -> dict[str, Array]:
    n, z, but, last, inf = of.n, of.z, of.but, of.n - 1, np.inf
    return {
        "all -inf": np.full(n, -inf), "first half -inf": of.halves(-inf, z()),
        "last -inf": but(-inf, last, z()), "first +inf": but(inf, 0, z()),
        "last +inf": but(inf, last, z()), "both infinities": but(inf, last, but(-inf, 0, z())),
    }


_NAMES = tuple(_patterns(1, np.random.default_rng(0)))
_HUGE = [_NAMES.index(name) for name in ("1e15", "1e25")]
