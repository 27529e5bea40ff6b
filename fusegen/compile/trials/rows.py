"""Rows to try merged operators on: small integers first, then what hurts in floating point."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.varying import samples_of

Rng = np.random.Generator
Array = np.ndarray[Any, Any]
Row = Mapping[str, Array]
"""Values by input name: (n_cols,), or (1,) for inputs per row."""

FAMILIES: dict[str, Callable[[Rng, int], Array]] = {
    "small integers": lambda rng, n: rng.choice([0.0, 1.0, -1.0, 2.0, -2.0, 3.0], n),
    "ties": lambda rng, n: rng.choice([-1.0, 2.0], n),
    "normal": lambda rng, n: rng.normal(0, 3, n),
    "positive": lambda rng, n: rng.uniform(0.1, 4, n),
    "offset by 1e6": lambda rng, n: 1e6 + rng.integers(-8, 9, n) / 8,
    "clustered": lambda rng, n: rng.normal() + 1e-9 * rng.integers(-9, 10, n),
    "spread over 50 decades": lambda rng, n: rng.choice([-1.0, 1.0], n)
    * 10.0 ** rng.integers(-25, 26, n),
}
"""All of them finite."""

SMALL = frozenset({"small integers", "ties"})
_SMALL_SIZES = (1, 2, 2, 3, 3, 3, 4, 5)
_LARGE_SIZES = (6, 13, 24)


@dataclass(frozen=True, slots=True)
class Case:
    """A row, cut into three pieces of columns (later ones may be empty)."""

    family: str
    row: Row
    pieces: tuple[list[int], list[int], list[int]]

    @property
    def n_cols(self) -> int:
        return sum(map(len, self.pieces))

    @property
    def in_order(self) -> tuple[list[int], ...]:
        """Neighbouring columns, as many in each piece: for states that keep the row's order."""
        first, second = len(self.pieces[0]), len(self.pieces[0]) + len(self.pieces[1])
        columns = list(range(self.n_cols))
        return columns[:first], columns[first:second], columns[second:]

    def __str__(self) -> str:
        shown = ", ".join(f"{name} = {_shown(v)}" for name, v in self.row.items())
        return f"row {shown} in pieces of columns {', '.join(map(str, self.pieces))}"


def _shown(values: Array) -> str:
    plain = [v.item() for v in values]
    return f"[{', '.join(f'{v:g}' if float(f'{v:g}') == v else repr(v) for v in plain)}]"


def cases(
    inputs: tuple[g.Input, ...], dtypes: Mapping[str, DType], smallest: int, rng: Rng
) -> Iterator[Case]:
    """Cases of finite rows, the shortest and simplest first; some with `smallest` columns."""
    for n_cols in _SMALL_SIZES:
        for family in sorted(SMALL):
            yield _case(family, n_cols, inputs, dtypes, rng)
    for i, n_cols in enumerate(_LARGE_SIZES):
        for family in FAMILIES:
            yield _case(family, max(n_cols, smallest + i), inputs, dtypes, rng)


def _case(
    family: str, n_cols: int, inputs: tuple[g.Input, ...], dtypes: Mapping[str, DType], rng: Rng
) -> Case:
    small = n_cols <= _SMALL_SIZES[-1]
    columns = np.arange(n_cols) if small else rng.permutation(n_cols)
    cuts = sorted([1, 2] if small else rng.integers(1, n_cols + 1, 2).tolist())
    a, b, c = (piece.tolist() for piece in np.split(columns, cuts))
    row = {i.name: values(i, n_cols, dtypes, FAMILIES[family], rng) for i in inputs}
    return Case(family, row, (a, b, c))


def values(
    node: g.Input, n_cols: int, dtypes: Mapping[str, DType],
    family: Callable[[Rng, int], Array], rng: Rng,
) -> Array:
    """Values of one input; integers are column numbers, which is what they are used for most."""
    if node.axis is g.Axis.SCALAR:
        return rng.choice(samples_of(node.magnitude)[:4], 1)
    size = 1 if node.axis is g.Axis.PER_ROW else n_cols
    match dtypes[node.name].kind:
        case "bool":
            return np.asarray(rng.random(size) < 0.5)
        case "int":
            return rng.integers(0, n_cols, size)
        case "float":
            return np.asarray(family(rng, size), np.float64)


def named(graph: g.Graph, row: Row) -> dict[str, Any]:
    """The row under the kernel's names; per-row inputs as one number."""
    return {
        graph.names[i]: row[i.name][0] if i.per_row else row[i.name] for i in graph.read
    }
