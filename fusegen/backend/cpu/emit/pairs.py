"""Elements made of vectors, and sums of vectors, as C++: what a kernel over vectors has beside the
sweeps of any other.

Rows are folded many at a time, chunk by chunk of their columns: first the elements of a chunk, for
a few rows at a time, as a tile of numbers that stays in a cache; then every row's chunk, as if it
had been read from memory; then the sums of vectors, whose weights the fold has left in a tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from fusegen.backend.cpu.emit.bounds import BoundView, bound_view
from fusegen.backend.cpu.emit.dialect import ROW, CpuDialect
from fusegen.backend.cpu.emit.memory import load
from fusegen.backend.cpu.emit.names import fg
from fusegen.backend.cpu.emit.scope import RowScope
from fusegen.backend.cpu.emit.vector_rows import numbers_at
from fusegen.backend.cpu.schedule import CpuSchedule
from fusegen.backend.emit.folds import taken_in
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.possible import possible
from fusegen.backend.emit.vector_sums import VectorSum, numbered, vector_sums, vectors_of
from fusegen.ir.expr import Expr, Var, substitute, variables
from fusegen.ir.expressions import convert
from fusegen.ir.kernel import FromMemory, FromVectors, Kernel, Param, Sweep

# ---- views ----


@dataclass(frozen=True)
class Table:
    """Vectors of one array as a tile wants them. `turned`: number by number."""

    name: str
    array: str
    length: int
    turned: bool
    read: str  # C++: the numbers at `from`, as many as a V has


@dataclass(frozen=True)
class NumberView:
    """A row's number in a sum over an index: `name` has it for every number of a vector."""

    name: str
    before: tuple[Line, ...]
    value: str


@dataclass(frozen=True)
class TileView:
    """Elements that are made of vectors."""

    name: str
    rows: tuple[str, ...]  # arrays
    numbers: tuple[NumberView, ...]
    columns: tuple[str, ...]
    length: int
    term: str
    note: str


@dataclass(frozen=True)
class SumView:
    """A component that holds a vector. `lines`: what adds one column to it, number by number."""

    name: str
    length: int
    weights: tuple[str, ...]
    array: str
    type: str  # of a number
    row_values: tuple[Line, ...]
    before: tuple[str, ...]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class PairsView:
    """What a sweep over vectors has beside those of any sweep."""

    tiles: tuple[TileView, ...]
    sums: tuple[SumView, ...]
    tables: tuple[Table, ...]
    only: str  # may any column from `begin` to before `end` of a row contribute? "": all may
    only_values: tuple[Line, ...]  # row values that it needs
    counts: str  # does `column` contribute? "": all of the span do
    counts_lines: tuple[Line, ...]  # row values that it needs, and what is loaded
    first: str  # column of a row to contribute; "": `begin`
    end: str  # the one behind the last; "": `end`
    span_values: tuple[Line, ...]
    bound: BoundView | None  # of the scores of the one list

    @property
    def masked(self) -> bool:
        """Are there sums of vectors, and columns that do not contribute to them?"""
        some = self.counts or self.first or self.end
        return bool(some and any(s.array for s in self.sums))


def pairs_view(
    kernel: Kernel, sweep: Sweep, scope: RowScope, row: CpuDialect, lanes: CpuDialect,
    schedule: CpuSchedule,
) -> PairsView:
    vectors = vectors_of(kernel)
    sources = [s for s in sweep.loads if isinstance(s, FromVectors)]
    tiles = tuple(_tile(s, vectors, scope, row, lanes) for s in sources)
    sums = tuple(_sum_view(s, kernel, scope, row) for s in vector_sums(kernel, sweep))
    tables: dict[str, Table] = {}
    for tile in tiles:
        for name in tile.columns:
            tables[f"{name}_turned"] = _table(vectors[name], "turned", row)
    for one in sums:
        if one.array:
            tables[f"{one.array}_copied"] = _table(vectors[one.array], "copied", row)
    only = "" if sweep.only is None else possible(sweep.only, "begin", "(end - 1)", row.text)
    values = () if sweep.only is None else tuple(scope.locals([sweep.only]))
    first, end = ("" if e is None else row.text(e) for e in sweep.span)
    spans = tuple(scope.locals([e for e in sweep.span if e is not None]))
    asked = [e for e in (sweep.only, sweep.counted) if e is not None]
    counts = " && ".join(row.text(e) for e in asked)
    counts_lines = (*scope.locals(asked), *_loaded(kernel, sweep, asked, row))
    bound = bound_view(kernel, sweep, schedule)
    return PairsView(tiles, sums, tuple(tables.values()), only, values, counts, counts_lines,
                     first, end, spans, bound)


def _loaded(
    kernel: Kernel, sweep: Sweep, exprs: Iterable[Expr], row: CpuDialect
) -> Iterator[Line]:
    """Declarations of what is loaded with `column`, of what these use."""
    used = {n for e in exprs for n in variables(e)}
    for source in sweep.loads:
        if isinstance(source, FromMemory) and source.name in used:
            dtype = kernel.param(source.param).dtype
            value = load(dtype, f"row.{source.param} + column", row)
            yield Line(f"const {row.type_of(dtype.kind)} {source.name} = {value};",
                       frozenset([ROW]), declares=source.name)


def _table(param: Param, how: Literal["turned", "copied", "rows"], row: CpuDialect) -> Table:
    if param.dtype.kind == "float":
        read = load(param.dtype, "from", replace(row, lanes=True, partly=False))
    else:
        number = load(param.dtype, "from + i", row)
        read = (f"{fg('one_by_one')}<V, V>(0, [&](int64_t i) "
                f"{{ return static_cast<{row.real}>({number}); }})")
    return Table(f"{param.name}_{how}", param.name, param.k, how == "turned", read)


def row_table(param: Param, row: CpuDialect) -> Table:
    """Vectors of rows, one after the other, in what is computed with."""
    return _table(param, "rows", row)


def _tile(
    source: FromVectors, vectors: dict[str, Param], scope: RowScope, row: CpuDialect,
    lanes: CpuDialect,
) -> TileView:
    late = {n: v for n, v in variables(source.value).items() if n not in vectors and not v.varying}
    numbers = tuple(
        NumberView(f"{source.name}_{n}", tuple(scope.locals([v])), row.text(convert(v, "float")))
        for n, v in late.items())
    places = {n: Var(f"row[{i}]", "float", varying=True)
              for i, n in enumerate((*source.rows, *late))}
    places |= {n: Var(f"column[{i}]", "float", varying=True) for i, n in enumerate(source.columns)}
    length = vectors[(*source.rows, *source.columns)[0]].k
    if source.is_dot:
        term = f"{fg('product_term')}()"
    else:
        value = convert(substitute(source.value, places), "float")
        text = replace(lanes, partly=False).text(value)
        rows, columns = max(1, len(source.rows) + len(late)), max(1, len(source.columns))
        term = (f"[](auto sum, const {fg('lanes')} (&row)[{rows}], "
                f"const {fg('lanes')} (&column)[{columns}]) {{ typedef {fg('lanes')} V; "
                f"(void)row, (void)column; return V(sum + {text}); }}")
    return TileView(source.name, source.rows, numbers, source.columns, length, term, source.note)


def _sum_view(
    one: VectorSum, kernel: Kernel, scope: RowScope, row: CpuDialect
) -> SumView:
    weights = tuple(w.name for w in one.weights)
    if one.array:
        return SumView(one.name, one.length, weights, one.array, row.real, (), (), ())
    vectors = vectors_of(kernel)
    before = tuple(f"const {row.real} {w} = row.{w}[col - row.tile];" for w in weights)
    lines = list(numbers_at(variables(one.value), vectors, row, "col"))
    value, place = row.text(numbered(one.value, vectors)), f"state.{one.name}[i]"
    lines.append(f"{place} += {value};" if one.fold is None else
                 taken_in(one.fold, place, value, fg))
    rows = tuple(scope.locals([one.value]))
    kind = row.type_of("float" if one.fold is None else one.fold.kind)
    return SumView(one.name, one.length, weights, "", kind, rows, before, tuple(lines))
