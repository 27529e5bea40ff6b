"""Elements that are made of vectors where they are folded: what they would have taken, and how many
of them a mask leaves out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.expr import Call, Expr, Var, evaluate, rename, substitute, text, variables
from fusegen.ir.kernel import COLUMN, N_COLS, FromVectors, Kernel, Let, Program, Sweep
from fusegen.ir.vectors import row_numbers

_MOST_ROWS, _MOST_COLUMNS = 512, 4096  # of which a condition that is no span is asked


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a call: `lead` are the axes of its rows, `shapes` those of its arrays, by input name;
    without them there is one run of rows, which share their columns."""

    lead: tuple[int, ...]
    n_cols: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        return math.prod(self.lead)


@dataclass(frozen=True, slots=True)
class Unstored:
    """`made`: elements, as a person writes them, of the arrays `of`; not those that a form stores
    all the same. `masks`: conditions on the
    elements that count. With sizes: bytes of arrays of vectors by name, of the elements that are
    `not_stored`, of others that are `stored` between sweeps; `left_out`: the share of elements that
    masks leave out, None where it hangs on more than the rows' numbers; `how` those are stored all
    the same that `made` has, and why."""

    made: tuple[str, ...]
    of: tuple[str, ...]
    masks: tuple[str, ...]
    sizes: Sizes | None = None
    reads: tuple[tuple[str, int], ...] = ()
    not_stored: int = 0
    stored: int = 0
    left_out: float | None = None
    how: str = ""

    def lines(self) -> Iterator[str]:
        """Plain words."""
        what = _listed(self.made)
        if self.made and self.how:
            yield f"{what}: made of {_listed(self.of)} {self.how}"
        elif self.made:
            yield f"{what}: made of {_listed(self.of)} where folded, and never stored"
        if self.sizes is not None:
            rows = " × ".join(str(n) for n in self.sizes.lead) or "1"
            reads = _listed([f"{name} {_amount(size)}" for name, size in self.reads])
            parts = [f"reads {reads}"]
            kept = "stored meanwhile" if self.how else "not stored"
            parts += [f"{_amount(self.not_stored)} of {what} {kept}"] if self.made else []
            parts += [f"{_amount(self.stored)} of elements stored"] if self.stored else []
            yield f"{rows} rows, {self.sizes.n_cols} columns: {'; '.join(parts)}"
        if self.masks:
            share = "" if self.left_out is None else f"{100 * self.left_out:.0f} %"
            yield (f"elements with {' and '.join(self.masks)} alone count: "
                   f"{f'{share} are left out, and ' if share else ''}tiles of others are not "
                   "computed")


def unstored(
    program: Program, graph: g.Graph, sizes: Sizes | None = None, how: str = ""
) -> Unstored | None:
    """What a program over vectors does not store; None for others. graph: the user's text; how: see
    `Unstored`."""
    sources = {s.name: (s, k) for k in program.kernels for sweep in k.sweeps for s in sweep.loads
               if isinstance(s, FromVectors) and s.rows and s.columns}
    if not sources:
        return None
    stored = {s.value.name for sweep in program.sweeps for s in sweep.element_stores
              if isinstance(s.value, Var)}
    sources = {n: made for n, made in sources.items() if n not in stored}
    given = {graph.names[i]: i.name for i in graph.inputs}
    met = {n for s, _ in sources.values() for n in s.reads}
    made = tuple(dict.fromkeys(_spelled(s, k) for s, k in sources.values()))
    of = tuple(name for param, name in given.items() if param in met)
    masked = _masked(program)
    numbering = row_numbers(graph) or ""
    masks = tuple(_conditions(masked, numbering)) if masked else ()
    if sizes is None:
        return Unstored(made, of, masks, how=how)
    elements = sizes.n_rows * sizes.n_cols
    vectors = {p.name: p for p in program.inputs if p.shape in ("row_vector", "column_vector")}
    reads = []
    for param, name in given.items():
        if param in vectors:
            p = vectors[param]
            rows = sizes.n_rows if p.shape == "row_vector" else sizes.n_cols
            reads.append((name, math.prod(sizes.shapes.get(name, (rows, p.k))) * p.dtype.itemsize))
    return Unstored(
        made, of, masks, sizes, tuple(reads),
        elements * program.kernels[0].compute.itemsize * len(made),
        sum(p.dtype.itemsize * elements for p in program.workspace if p.shape == "element"),
        _left_out(masked, numbering, sizes) if masked else None, how)


def _spelled(source: FromVectors, kernel: Kernel) -> str:
    """As a person writes the sum over the index."""
    length = next(p.k for p in kernel.params if p.name in source.reads)
    match source.value:
        case Call(op="mul", args=(Var() as a, Var() as b)):
            return f"{a.name}·{b.name}"
        case Call(op="mul", args=(a, b)) if a == b:
            return f"|{text(a)}|²"
        case _:
            return f"{'Σ ' if length > 1 else ''}{text(source.value)}"


# ---- masks ----

Mask = tuple[Expr | None, Expr | None, Expr | None]
"""First column, the one behind the last, and a condition on others: of elements that count."""


def _masked(program: Program) -> Mask | None:
    """The masks of the first sweep that has some, over row inputs."""
    for kernel in program.kernels:
        for sweep in kernel.sweeps:
            if sweep.only is not None or sweep.span != (None, None):
                return _over_inputs(kernel, sweep)
    return None


def _over_inputs(kernel: Kernel, sweep: Sweep) -> Mask:
    lets: dict[str, Expr] = {}
    for step in kernel.prelude:
        if isinstance(step, Let):
            lets[step.name] = substitute(step.expr, lets)
    first, end, only = (None if e is None else substitute(e, lets)
                        for e in (*sweep.span, sweep.only))
    return first, end, only


def _conditions(mask: Mask, numbering: str) -> list[str]:
    first, end, only = (None if e is None else text(rename(e, {numbering: "row"})) for e in mask)
    found = [f"column >= {first}"] if first else []
    found += [f"column < {end}"] if end else []
    return found + ([only] if only else [])


def _left_out(mask: Mask, numbering: str, sizes: Sizes) -> float | None:
    """The share of elements for which the conditions do not hold."""
    names = {n for e in mask if e is not None for n in variables(e)}
    if not names <= {numbering, COLUMN.name, N_COLS.name} or 0 in (sizes.n_rows, sizes.n_cols):
        return None
    first, end, only = mask
    rows = _spread(sizes.lead[-1] if sizes.lead else 1, _MOST_ROWS)
    env: dict[str, Any] = {numbering: rows[:, None], N_COLS.name: sizes.n_cols}
    begin = 0 if first is None else np.clip(evaluate(first, env), 0, sizes.n_cols)
    behind = sizes.n_cols if end is None else np.clip(evaluate(end, env), 0, sizes.n_cols)
    if only is None:
        return 1 - float(np.mean(np.maximum(behind - begin, 0))) / sizes.n_cols
    columns = _spread(sizes.n_cols, _MOST_COLUMNS)
    holds = evaluate(only, {**env, COLUMN.name: columns})
    return 1 - float(np.mean(holds & (columns >= begin) & (columns < behind)))


def _spread(count: int, most: int) -> Any:
    """So many of these numbers at most, all over."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


# ---- words ----


def _amount(size: int) -> str:
    """Bytes as people say them."""
    for unit, least in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size} bytes"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)
