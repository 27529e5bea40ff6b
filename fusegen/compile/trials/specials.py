"""What IEEE arithmetic does to a merged operator: ±inf, NaN, zeros and empty pieces in float64.

The proofs speak of finite reals; monoid.py's guard policy decides the rest, and these trials
compare it with the text as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fusegen.backend.numpy import oracle
from fusegen.compile.trials.comparable import comparable_outputs
from fusegen.compile.trials.rows import FAMILIES, Rng, Row, named, values
from fusegen.compile.trials.text import Tree, Values, values_of
from fusegen.ir import graph as g
from fusegen.ir.derivation import Dependent, Derivation
from fusegen.ir.dtypes import FLOAT64, INT64, DType
from fusegen.ir.errors import LawViolation
from fusegen.ir.expr import FLOATS
from fusegen.ir.kernel import Kernel
from fusegen.ir.ops import saturate
from fusegen.oracle.replay import Folder, RowReplay, State

TOLERANCE = 1e-9  # relative, float64; pieces of a row lose a few digits to polynomial moves
_DIGITS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}  # of results that are so short
_SPECIALS = (None, 0.0, -np.inf, np.inf, np.nan)
_SPLITS = 4  # random splits and merge orders per row


def try_specials(
    graph: g.Graph, kernel: Kernel, derivation: Derivation, dtypes: Mapping[str, DType], rng: Rng
) -> tuple[int, int]:
    """(rows, merges) tried, all equal to the text. Raises LawViolation with a counterexample."""
    smallest = max([n.k for n in graph.nodes if isinstance(n, g.TopK)], default=1)
    # Where NaN is among the x, x ≤ max x decides no switch, and what used it is NaN.
    ordered = any(isinstance(e, Dependent) and e.ordered for e in derivation)
    rows = 0
    splitter = Splitter(rng)
    for n_cols in sorted({max(n, smallest) for n in (1, 3, 7, smallest + 5)}):
        for special in _SPECIALS:
            row = _row(graph, dtypes, n_cols, special, rng)
            slack = TOLERANCE * _scale(row, 0.0)
            outputs = by_text(graph, dtypes, row, n_cols)
            nan = any(np.isnan(v).any() for v in row.values() if v.dtype.kind == "f")
            for _ in range(_SPLITS):
                found = RowReplay(kernel, named(graph, row), n_cols).run(splitter)
                with np.errstate(all="ignore"):
                    known = values_of(graph, row, n_cols, FLOATS, splitter.trees)
                    comparable = comparable_outputs(graph, derivation, known, slack)
                wanted = {**outputs, **_of_own_monoids(graph, known)}
                due = {n: v for n, v in wanted.items() if n in comparable
                       and not (ordered and nan and np.isnan(found[n]).all())}
                _compare(graph, kernel, found, due, row, splitter.pieces)
            rows += 1
    return rows, splitter.merges


def _of_own_monoids(graph: g.Graph, known: Values) -> dict[str, Any]:
    """Outputs that hang on a monoid of the user's own, which follows its merge under IEEE
    arithmetic in whatever grouping there is: by name, in the grouping that was tried."""
    hanging: set[g.Node] = set()
    for node in graph.nodes:
        if isinstance(node, g.Own) or any(a in hanging for a in g.operands(node)):
            hanging.add(node)
    named = zip(graph.outputs, graph.output_names, strict=True)
    return {name: np.asarray(known[node]) for node, name in named if node in hanging}


class Splitter:
    """Makes a sweep's state from random pieces, merged along a random tree."""

    def __init__(self, rng: Rng) -> None:
        self.rng = rng
        self.merges = 0
        self.pieces: list[list[int]] = []
        self.trees: dict[str, Tree] = {}  # of the user's own monoids

    def __call__(self, folder: Folder, n_cols: int) -> State:
        rng = self.rng
        ordered = folder.monoid.ordered
        mixed = not ordered and rng.random() < 0.3
        columns = rng.permutation(n_cols) if mixed else np.arange(n_cols)
        n_cuts = int(rng.integers(0, n_cols + 2))
        cuts = np.sort(rng.integers(0, n_cols + 1, n_cuts))  # equal cuts make empty pieces
        self.pieces = [p.tolist() for p in np.split(columns, cuts)]
        states: list[tuple[State, Tree]] = [(folder.fold(p), p) for p in self.pieces]
        while len(states) > 1:
            i = int(rng.integers(len(states) - ordered))
            a, left = states.pop(i)
            j = i if ordered else int(rng.integers(len(states)))
            b, right = states[j]
            states[j] = folder.merge(a, b), (left, right)
            self.merges += 1
        ((whole, tree),) = states
        self.trees |= dict.fromkeys((own.name for own in folder.monoid.own), tree)
        return whole


def _row(
    graph: g.Graph, dtypes: Mapping[str, DType], n_cols: int, special: float | None, rng: Rng
) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for node in graph.read:
        family = FAMILIES["normal" if rng.random() < 0.7 else "positive"]
        found = values(node, n_cols, dtypes, family, rng)
        if special is not None and node.axis is g.Axis.ELEMENT and found.dtype.kind == "f":
            found[rng.random(len(found)) < 0.4] = special
        row[node.name] = found
    return row


def by_text(
    graph: g.Graph, dtypes: Mapping[str, DType], row: Row, n_cols: int
) -> dict[str, Any]:
    """Outputs of the text as written, by name."""
    wide = {"float": FLOAT64, "int": INT64}
    text = oracle(graph, {n: wide.get(d.kind, d) for n, d in dtypes.items()})
    arrays = {
        graph.names[i]: row[i.name][None, :] if i.axis is g.Axis.ELEMENT else row[i.name]
        for i in graph.read
    }
    sizes = {"row": None, "element": n_cols}
    results = {}
    for p in text.outputs:
        cols = p.k if p.shape == "list" else sizes[p.shape]
        results[p.name] = np.empty((1,) if cols is None else (1, cols), p.dtype.numpy)
    text.run({**arrays, **results}, 1, n_cols, threads=1)
    return {n: r[0] for n, r in results.items()}


def _compare(
    graph: g.Graph, kernel: Kernel, found: Mapping[str, Any], wanted: Mapping[str, Any], row: Row,
    pieces: list[list[int]],
) -> None:
    for name, want in wanted.items():
        dtype = kernel.param(name).dtype
        got = _stored(np.asarray(found[name]), dtype)
        if dtype.kind == "float":
            scale = _scale(row, want)
            digit = _DIGITS.get(dtype.name, TOLERANCE)
            want = _stored(want, dtype)
            same = np.isclose(got, want, rtol=digit, atol=TOLERANCE * scale, equal_nan=True)
            # Where infinite data leads the text out of the reals (0 · inf), monoid.py's guard
            # policy decides, not the proof.
            same = same | (~np.isfinite(want) & _has_infinity(row))
        else:
            same = np.asarray(got == want)
        if not np.all(same):
            shown = ", ".join(f"{n} = {v.tolist()}" for n, v in row.items())
            raise LawViolation(
                f"{kernel.name}: {name} differs from the text", where=graph.loc,
                why=f"Row {shown}, merged from columns {pieces}: got {got.tolist()}, "
                f"the text gives {want.tolist()}.",
                fix="Please report this: a proof and its replay disagree.",
            )


def _stored(values: Any, dtype: DType) -> Any:
    """As a result of this type: integers clamp, and floats round where that is to be seen."""
    match dtype.kind:
        case "int":
            return saturate(values, dtype.numpy)
        case "float" if dtype.itemsize < 4:
            return values.astype(dtype.numpy).astype(np.float64)
        case "float" | "bool":
            return values


def _has_infinity(row: Row) -> bool:
    return any(bool(np.any(np.isinf(v))) for v in row.values() if v.dtype.kind == "f")


def _scale(row: Row, want: Any) -> float:
    """The size of the numbers that met in the result, for sums that cancel."""
    sizes = [_largest(np.asarray(v, float)) for v in row.values()]
    return max([1.0, _largest(np.atleast_1d(want)), *[s * s for s in sizes]])


def _largest(numbers: Any) -> float:
    """The greatest finite magnitude; 0 if there is none."""
    return float(np.max(np.abs(numbers[np.isfinite(numbers)]), initial=0.0))
