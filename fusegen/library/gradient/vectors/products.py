"""Gradients of texts whose elements are dots of one long vector per row and column, as products.

With E the gradient of the elements h·w: dh = E w, and dw = Eᵀ h. E of some columns at a time is
made of these elements as any text over stored rows, in the vectors' own type; elements and
gradients are a library's products. Nothing of the size rows × columns is stored at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import numpy as np

from fusegen.backend.arrays.adopt import adopt
from fusegen.backend.memory import Adopted, Multiplying
from fusegen.ir import graph as g
from fusegen.ir.dtypes import FLOAT32, INT64, DType
from fusegen.lang import lang as fg
from fusegen.lang.value import PerColumn, Value, lift
from fusegen.library.gradient.vectors.arrays import typed
from fusegen.library.gradient.vectors.parts import axis_of, parameter_of
from fusegen.library.gradient.vectors.stages import LEAST_LENGTH, Stages
from fusegen.pipeline.by_torch import is_watched
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.terms import Terms
from fusegen.rewrite.adjoint.text import Writer
from fusegen.rewrite.adjoint.transplant import scalars_of
from fusegen.rewrite.build import rebuilt
from fusegen.rewrite.transposed import asked_of_rows, seen_terms

PIECE_BYTES = 200_000_000  # of elements and their gradients that are stored at a time
MOST_ROWS = 16384  # of a piece
_STEP = 128  # columns: pieces are multiples


@dataclass(frozen=True, eq=False)
class Elements:
    """The stage that makes gradients of elements: a pipeline over the elements, what it takes
    beside them, and whether the columns' numbers come last."""

    pipeline: Pipeline
    row: g.Input
    column: g.Input
    takes: tuple[g.Node, ...]
    counts: bool


def elements_of(stages: Stages) -> Elements | None:
    """None: the gradients are more than products of one table of elements, or vectors are short."""
    adjoint = stages.adjoint
    sides = [[i for i in adjoint.inputs.values() if i.axis is axis] for axis in g.VECTORS]
    if any(len(side) != 1 for side in sides):
        return None
    row, column = sides[0][0], sides[1][0]
    kinds = {stages.type_of(row).number, stages.type_of(column).number}
    long = stages.type_of(row).length >= LEAST_LENGTH and len(kinds) == 1
    if not long or kinds.pop().itemsize > 4 or column.name not in adjoint.columns:
        return None
    if set(adjoint.rows) - {row.name} or not _meet_alone(adjoint.forward, row, column):
        return None
    terms: Terms = {frozenset(f for f in p if f != (row, 1)): c
                    for p, c in stages.terms[column.name].items() if (row, 1) in p}
    roots = [*dict.fromkeys(n for p in terms for n, _ in p)]
    one_each = len(terms) == len(stages.terms[column.name])
    if not one_each or any(map(g.is_vector, roots)):
        return None
    dots: list[g.Node] = [n for n in g.topological(roots)
                          if isinstance(n, g.Inner) and g.extent(n) is g.Extent.ELEMENT]
    return _stage(stages, row, column, terms, roots, dots) if len(dots) == 1 else None


def _meet_alone(outputs: Iterable[g.Node], row: g.Input, column: g.Input) -> bool:
    """Do the vectors meet in dots, of all columns or of one, and nowhere else?"""
    products = set[g.Node]()
    for node in g.topological([*outputs]):
        met = [a for a in g.operands(node) if a in (row, column)]
        match node:
            case g.Take() if _is_taken(node, column):
                continue
            case g.Map(op="mul", args=(a, b)) if row in (a, b):
                other = b if a is row else a
                if other is not column and not _is_taken(other, column):
                    return False
                products.add(node)
            case g.Inner():
                continue
            case _ if met or any(a in products or _is_taken(a, column)
                                 for a in g.operands(node)):
                return False
    return True


def _is_taken(node: g.Node, column: g.Input) -> bool:
    """Is it one column's vector?"""
    return isinstance(node, g.Take) and node.arg is column


def _stage(
    stages: Stages, row: g.Input, column: g.Input, terms: Terms, roots: list[g.Node],
    dots: list[g.Node],
) -> Elements:
    takes = tuple(n for n in asked_of_rows(roots, stages.held) if n not in (row, column))
    counts = [n for n in g.topological(roots, dots.__contains__) if isinstance(n, g.Index)]
    kind = stages.type_of(row).number.name

    def text(x: Value, *arrays: Value, **numbers: Any) -> Value:
        known = scalars_of(stages.graph, numbers) | {dots[0]: lift(x)}
        known |= dict(zip(takes, map(lift, arrays), strict=False))
        known |= dict.fromkeys(counts, lift(arrays[-1]) if counts else lift(x))
        for node in g.topological(roots, known.__contains__):
            known[node] = rebuilt(node, known.__getitem__)
        writer = Writer()
        return fg.cast(Value(writer.write(seen_terms(terms, known))), kind)

    names = [stages.graph.names[n] for n in takes]
    free = iter(n for n in ("elements", "scores", "each", "made") if n not in names)
    parameters = [Parameter(next(free), Parameter.POSITIONAL_OR_KEYWORD, annotation=Value)]
    parameters += [parameter_of(n, axis_of(t)) for n, t in zip(names, takes, strict=True)]
    if counts:
        parameters.append(Parameter(next(free), Parameter.POSITIONAL_OR_KEYWORD,
                                    annotation=PerColumn))
    return Elements(stages.pipeline_of("elements", parameters, text), row, column, takes,
                    bool(counts))


# ---- a call ----


def pieces_of(n_rows: int, n_cols: int, itemsize: int) -> Iterator[slice]:
    """Columns whose elements and gradients are stored at a time."""
    rows = min(n_rows, MOST_ROWS)
    fit = PIECE_BYTES // (rows * (4 + itemsize))
    step = max(_STEP, fit // _STEP * _STEP)
    for first in range(0, n_cols, step):
        yield slice(first, min(first + step, n_cols))


class Products:
    """One call. values: arrays by nodes of the backward text; options: of the pipeline."""

    def __init__(
        self, made: Elements, values: Mapping[g.Node, Any], n_rows: int, n_cols: int,
        options: Mapping[str, Any],
    ) -> None:
        self.made, self.options, self.n_rows, self.n_cols = made, options, n_rows, n_cols
        self.row, self.column = (_table(values[n]) for n in (made.row, made.column))
        self.memory, self.dtype = self.row.memory, self.row.dtype
        self.given = [(n, self._flat(n, values[n])) for n in made.takes]

    def _flat(self, node: g.Node, array: Any) -> Any:
        if axis_of(node) is g.Axis.PER_COLUMN:
            return array.reshape(-1)
        return array.reshape(-1) if math.prod(array.shape) == self.n_rows else array

    def gradients(self, wanted: Iterable[str]) -> dict[str, Any]:
        """By input, as tables."""
        wanted = {*wanted}
        with self.memory.working(self.row):
            return self._gradients(self.made.row.name in wanted)

    def _gradients(self, of_rows: bool) -> dict[str, Any]:
        pieces = [*pieces_of(self.n_rows, self.n_cols, self.dtype.itemsize)]
        blocks = [slice(i, min(i + MOST_ROWS, self.n_rows))
                  for i in range(0, self.n_rows, MOST_ROWS)]
        length = int(self.row.array.shape[1])
        sums = self.dtype if len(pieces) == 1 else FLOAT32
        of_row = self._new((self.n_rows, length), sums) if of_rows else None
        of_column = self._new((self.n_cols, length), self.dtype)
        numbers = self._numbers() if self.made.counts else None
        for columns in pieces:
            size = columns.stop - columns.start
            total = of_column[columns] if len(blocks) == 1 else self._new((size, length), FLOAT32)
            for block in blocks:
                found = self._elements(block, columns, numbers)
                if of_row is not None:
                    self._multiply(found, self.column.given[columns], of_row[block],
                                   add=columns.start > 0)
                self._multiply(found, self.row.given[block], total, turned=(True, False),
                               add=block.start > 0)
                del found
            if len(blocks) > 1:
                of_column[columns] = typed(total, of_column.dtype)
        return {self.made.row.name: of_row, self.made.column.name: of_column}

    def _elements(self, rows: slice, columns: slice, numbers: Any) -> Any:
        """The elements' gradients."""
        scores = self._new((rows.stop - rows.start, columns.stop - columns.start), FLOAT32)
        self._multiply(self.row.given[rows], self.column.given[columns], scores,
                       turned=(False, True))
        given = [a[columns if axis_of(n) is g.Axis.PER_COLUMN else rows] for n, a in self.given]
        given += [] if numbers is None else [numbers[columns]]
        return self.made.pipeline(scores, *given, **self.options)

    def _multiply(
        self, a: Any, b: Any, to: Any, *, turned: tuple[bool, bool] = (False, False),
        add: bool = False,
    ) -> None:
        memory = self.memory
        assert isinstance(memory, Multiplying)
        tables = [memory.adopt("table", t) for t in (a, b, to)]
        memory.multiply(*tables, turned=turned, add=add)

    def _new(self, shape: tuple[int, ...], dtype: DType) -> Any:
        return self.memory.maker(shape, dtype, self.row, None)()

    def _numbers(self) -> Any:
        """Of all columns."""
        found = self._new((self.n_cols,), INT64)
        self.memory.view(found)[...] = self.memory.from_host(np.arange(self.n_cols), INT64)
        return found


def _table(array: Any) -> Adopted:
    """Vectors one behind the other."""
    flat = array.reshape(-1, array.shape[-1])
    found = adopt("table", flat)
    apart, size = found.array.strides, found.array.itemsize
    if apart[1] == size and apart[0] >= size * flat.shape[1]:
        return found
    copy = flat.contiguous() if hasattr(flat, "contiguous") else flat.copy()
    return adopt("table", copy)


def _is_there(array: Any) -> bool:
    """Has it memory that can be written, and is not what a program of XLA's is made of?"""
    return type(array).__module__.partition(".")[0] in ("torch", "cupy")


def serves(values: Mapping[g.Node, Any], made: Elements) -> bool:
    """Are products made where the arrays lie, is there one batch, and nobody who records them?"""
    column = values[made.column]
    lead = math.prod(column.shape[:-2])
    if lead != 1 or is_watched(values.values()) or not all(map(_is_there, values.values())):
        return False
    return isinstance(adopt("table", column).memory, Multiplying)
