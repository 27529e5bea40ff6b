"""The text by itself, in NumPy: its value, what other schedules of it give in float32, and what its
own rounding is in proportion to. Shares nothing with fusegen but the graph.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fusegen.ir import graph as g

Array = np.ndarray[Any, Any]
Add = Callable[[Array], Array]
"""Sums over the last axis, which stays."""

UNIT = 2.0**-24  # of one rounding in float32
ROUNDINGS = 4.0  # that a sum of many terms may be off by
DRAWS, FEW = 2, 3  # of every operation rounded by chance: 4 times as many on so few columns


def _xlogy(a: Array, b: Array) -> Array:
    return np.where(a == 0, np.where(np.isnan(b), b, 0), a * np.log(np.where(a == 0, 1, b)))


_OPS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
    "neg": np.negative, "square": np.square, "abs": np.abs, "maximum": np.maximum,
    "minimum": np.minimum, "exp": np.exp, "expm1": np.expm1, "log": np.log, "sqrt": np.sqrt,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "xlogy": _xlogy, "where": np.where,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "isinf": np.isinf, "to_float": lambda x: x,
}


def added(values: Array) -> Array:
    return np.asarray(values.sum(axis=-1, keepdims=True))


def one_by_one(values: Array) -> Array:
    return np.asarray(np.cumsum(values, axis=-1, dtype=values.dtype)[..., -1:])


def off(period: int, first: int) -> Add:
    """Sums that are off by `ROUNDINGS` of their own terms, so many upwards, as many downwards, …
    or the other way round, for first = −1."""
    count = itertools.count()

    def add(v: Array) -> Array:
        sign = first * (1 - 2 * (next(count) // period % 2))
        return added(v) + sign * ROUNDINGS * UNIT * added(np.abs(v))

    return add


class Reading:
    """Every value of a text, for many rows: elements (rows, columns), row values (rows, 1)."""

    def __init__(
        self, graph: g.Graph, inputs: Mapping[str, Array], n_cols: int,
        dtype: type[np.floating[Any]] = np.float64, add: Add = added,
    ) -> None:
        self.inputs, self.n_cols, self.dtype, self.add = inputs, n_cols, dtype, add
        self.values: dict[g.Node, Array] = {}
        with np.errstate(all="ignore"):
            for node in graph.nodes:
                self.values[node] = self._kept(np.asarray(self._value(node)))

    def _kept(self, found: Array) -> Array:
        wide = found.dtype.kind == "f" and found.dtype != self.dtype
        return found.astype(self.dtype) if wide else found

    def _value(self, node: g.Node) -> Any:
        known = self.values
        match node:
            case g.Input(name=name):
                return self.inputs[name].astype(self.dtype)
            case g.Literal(value=value):
                return self.dtype(value) if isinstance(value, float) else value
            case g.Length():
                return self.n_cols
            case g.Map(op="pow", args=(a, g.Literal(value=power))):
                base = known[a]
                return np.square(base) if power == 2 else base ** self.dtype(power)
            case g.Map(op=op, args=args):
                return _OPS[op](*(self._float(known[a]) for a in args))
            case g.Reduce(fold=fold, arg=arg):
                whole = self._float(self.whole(known[arg]))
                if fold in (g.Fold.MAX, g.Fold.MIN):
                    extreme = np.max if fold is g.Fold.MAX else np.min
                    return extreme(whole, axis=-1, keepdims=True)
                total = self.add(whole)
                return total / self.dtype(self.n_cols) if fold is g.Fold.MEAN else total
        raise NotImplementedError(type(node).__name__)

    def _float(self, value: Array) -> Array:
        return value if value.dtype.kind == "b" else value.astype(self.dtype, copy=False)

    def whole(self, value: Array) -> Array:
        rows = max(len(a) for a in self.inputs.values())
        return np.broadcast_to(value, (rows, self.n_cols))


class Chance(Reading):
    """The text in float32, every operation rounded up or down by chance."""

    def __init__(self, graph: g.Graph, inputs: Mapping[str, Array], n_cols: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        super().__init__(graph, inputs, n_cols)

    def _kept(self, found: Array) -> Array:
        if found.dtype.kind != "f":
            return found
        near = found.astype(np.float32)
        other = np.nextafter(near, np.where(near < found, np.inf, -np.inf).astype(np.float32))
        by_chance = (near != found) & np.isfinite(near) & (self._rng.random(found.shape) < 0.5)
        return np.where(by_chance, other, near).astype(np.float64)


class Shaken(Reading):
    """The text on elements that are off by what a sum of them, one by one, may round by; with row
    values, exponentials and conditions as they are. No deviation from a mean has digits below."""

    _AS_THEY_ARE = ("exp", "expm1", "sigmoid", "lt", "le", "gt", "ge", "eq", "isinf")

    def __init__(self, right: Reading, graph: g.Graph) -> None:
        self._right, rng = right, np.random.default_rng(0)
        off = max(ROUNDINGS, right.n_cols) * UNIT
        inputs = {n: a.astype(np.float64) * (1 + off * rng.choice((-1, 1), a.shape))
                  for n, a in right.inputs.items()}
        super().__init__(graph, inputs, right.n_cols)

    def _value(self, node: g.Node) -> Any:
        if isinstance(node, g.Reduce) or (
            isinstance(node, g.Map) and node.op in self._AS_THEY_ARE
        ):
            return self._right.values[node]
        return super()._value(node)


def schedules(
    graph: g.Graph, inputs: Mapping[str, Array], n_cols: int
) -> Iterator[Mapping[g.Node, Array]]:
    """The values of the text by other ways to add up the same sums in float32, and to round."""
    yield Reading(graph, inputs, n_cols, np.float32).values
    yield Reading(graph, inputs, n_cols, np.float32, one_by_one).values
    for period, first in itertools.product((1, 2, 4), (1, -1)):
        yield Reading(graph, inputs, n_cols, np.float64, off(period, first)).values
    turned = {n: a[:, ::-1] if a.shape[1] > 1 else a for n, a in inputs.items()}
    yield Reading(graph, turned, n_cols, np.float32, one_by_one).values
    for seed in range(DRAWS if n_cols > FEW else 4 * DRAWS):  # few roundings seldom meet
        yield Chance(graph, inputs, n_cols, seed).values


Rounding = Callable[[Array], Array]
"""What one rounding of a result may cost, in units of UNIT, by its magnitude."""


def relative(size: Array) -> Array:
    return size


def quantum(size: Array) -> Array:
    """Only of what falls below the normal numbers, where rounding is absolute."""
    return np.where((size > 0) & (size < 2.0**-126), 2.0**-126, 0.0)


def magnitude(reading: Reading, node: g.Node, rounding: Rounding = relative) -> Array:
    """Σ over the text's operations of |operand|·|∂f|, element by element: what rounding each of
    them once costs `node`, in roundings. Infinite where a condition hangs on the last digit."""
    known: dict[g.Node, Array] = {}
    with np.errstate(all="ignore"):
        for n in g.topological((node,)):
            known[n] = np.asarray(_noise(n, reading, known, rounding), np.float64)
    return known[node] + rounding(np.abs(reading.values[node]))


def _noise(
    n: g.Node, reading: Reading, known: Mapping[g.Node, Array], rounding: Rounding
) -> Any:
    v = reading.values
    match n:
        case g.Input():
            return quantum(np.abs(v[n]))  # all that a number below the normal ones says
        case g.Literal() | g.Length():
            return 0.0
        case g.Reduce(fold=fold, arg=arg):
            noise = reading.whole(known[arg])
            if fold in (g.Fold.MAX, g.Fold.MIN):
                return noise.max(axis=-1, keepdims=True)
            total = added(noise + ROUNDINGS * rounding(np.abs(reading.whole(v[arg]))))
            return total / reading.n_cols if fold is g.Fold.MEAN else total
        case g.Map(op=op, args=args):
            pairs = [(v[a], known[a]) for a in args]
            return _of_map(op, pairs, rounding(np.abs(v[n].astype(np.float64))))
    raise NotImplementedError(type(n).__name__)


def _of_map(op: str, pairs: list[tuple[Array, Array]], rounded: Array) -> Any:
    (a, da), (b, db) = pairs[0], pairs[1] if len(pairs) > 1 else pairs[0]
    match op:
        case "neg" | "abs" | "to_float":
            return da
        case "maximum" | "minimum":
            first = a >= b if op == "maximum" else a <= b
            return np.where(first, da, db)
        case "lt" | "le" | "gt" | "ge" | "eq":
            near = (da + db > 0) & (np.abs(a - b) <= 8 * UNIT * (da + db))
            return np.where(near, np.inf, 0.0)
        case "isinf":
            return 0.0
        case "where":
            (c, dc), (_, d_yes), (_, d_no) = pairs
            return np.where(dc > 0, np.inf, np.where(c, d_yes, d_no))
        case _:
            carried = sum(np.where(d == 0, 0, s * d) for s, d in
                          zip(_slopes(op, a, b), (da, db), strict=False))
            return carried + rounded


def _slopes(op: str, a: Array, b: Array) -> tuple[Any, ...]:
    """|∂f| by each operand."""
    match op:
        case "add" | "sub":
            return 1.0, 1.0
        case "mul":
            return np.abs(b), np.abs(a)
        case "div":
            return 1 / np.abs(b), np.abs(a) / b**2
        case "square":
            return (2 * np.abs(a),)
        case "pow":
            return (np.abs(b) * np.abs(a) ** (b - 1),)
        case "exp" | "expm1":
            return (np.exp(a),)
        case "log":
            return (1 / np.abs(a),)
        case "sqrt":
            return (0.5 / np.sqrt(a),)
        case "sigmoid":
            return (np.exp(-np.abs(a)),)
        case "xlogy":
            return np.where(a == 0, 0, np.abs(np.log(b))), np.abs(a / b)
    raise NotImplementedError(op)
