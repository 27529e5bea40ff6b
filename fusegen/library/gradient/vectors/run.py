"""One call of a gradient over vectors: arrays through its stages, and back into their shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fusegen.backend.arrays.rows import Rows
from fusegen.backend.backend import Target
from fusegen.backend.problem import Problem
from fusegen.backend.registry import backend_at, best_memory
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, BackendError, DTypeError, ShapeError
from fusegen.ir.shared import Recent
from fusegen.lang.signature import constants_key
from fusegen.library.gradient.outputs import Extents, check_outputs
from fusegen.library.gradient.vectors.adjoint import OF_COLUMNS, Adjoint, adjoint
from fusegen.library.gradient.vectors.arrays import (
    Sides,
    anchor,
    summed_to,
    typed,
    varies_along,
    zeros_like,
)
from fusegen.library.gradient.vectors.parts import Columns, Stage, axis_of
from fusegen.library.gradient.vectors.products import Elements, Products, elements_of, serves
from fusegen.library.gradient.vectors.stages import Stages
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.precision import means_something
from fusegen.pipeline.traces import MOST
from fusegen.pipeline.variants import Choices

Values = dict[g.Node, Any]
"""Arrays by nodes of the backward text."""


class Remembered:
    """What was made for calls of one gradient: backward texts, and their stages."""

    def __init__(
        self, forward: Pipeline, wrt: tuple[str, ...], cotangents: Mapping[int, str],
        extents: Extents,
    ) -> None:
        self.forward, self.wrt, self.cotangents, self.extents = forward, wrt, cotangents, extents
        self.name = f"{forward.name}_grad"
        self._adjoints: Recent[Any, Adjoint] = Recent(MOST)
        self._stages: Recent[Any, Stages] = Recent(MOST)
        self._rows: Recent[Any, tuple[Stage, ...]] = Recent(MOST)
        self._columns: Recent[Any, Columns] = Recent(MOST)
        self._elements: Recent[Stages, tuple[Elements | None]] = Recent(MOST)
        self._crowded: Recent[Any, bool] = Recent(MOST)

    def adjoint(self, present: frozenset[str], constants: dict[str, Any]) -> Adjoint:
        """The backward text for these inputs of the forward one, and constants like these. Raises
        TraceError where that has other outputs than those that the gradient is for."""
        traced = self.forward.traces.varied(present, constants)
        check_outputs(self.forward.name, traced.graph.outputs, self.extents)
        fixed = {n: v for n, v in constants.items() if n not in traced.graph.varying}
        key = (present, traced.digest, traced.graph.guards, constants_key(fixed))
        return self._adjoints.get_or_make(
            key, lambda: adjoint(self.name, traced, self.wrt, self.cotangents))

    def prepared(
        self, types: Mapping[str, DType], constants: dict[str, Any], text: Adjoint | None = None
    ) -> tuple[Adjoint, Mapping[str, DType], Stages]:
        """Of calls with arrays of these types: the backward text, unless it is known, the types of
        all its inputs, and its stages. Raises ArgumentError, DTypeError."""
        own = self.forward.signature.arrays
        present = frozenset(n for n in own if n in types)
        for name in self.wrt:
            if name not in present:
                raise ArgumentError(f"{self.name} misses {name}",
                                    why="It is the gradient with respect to this input.")
            if types[name].kind != "float":
                raise DTypeError(f"{name} holds {types[name]} values: it has no gradient")
        found = self.adjoint(present, constants) if text is None else text
        every = found.typed(types)
        wide = any(d.number.name == "float64" for d in every.values())
        return found, every, self.made(found, every, "float64" if wide else "float32")

    def made(self, text: Adjoint, types: Mapping[str, DType], precision: str) -> Stages:
        key = (text, tuple(types.items()), precision)
        return self._stages.get_or_make(key, lambda: Stages(text, self.forward, types, precision))

    def rows(self, made: Stages, types: Mapping[str, str], *, kept: bool) -> tuple[Stage, ...]:
        key = (made, tuple(types.items()), kept)
        return self._rows.get_or_make(key, lambda: made.rows(types, kept=kept))

    def numbers(self, made: Stages, *, kept: bool) -> tuple[Stage, ...]:
        key = (made, "numbers", kept)
        return self._rows.get_or_make(key, lambda: made.numbers(made.terms, kept=kept))

    def elements(self, made: Stages) -> Elements | None:
        return self._elements.get_or_make(made, lambda: (elements_of(made),))[0]

    def columns(
        self, made: Stages, wanted: Sequence[str], types: Mapping[str, str], *, of_part: bool
    ) -> Columns:
        key = (made, tuple((n, types[n]) for n in wanted), of_part)
        return self._columns.get_or_make(
            key, lambda: made.columns(wanted, types, of_part=of_part))

    def crowded(
        self, made: Stages, stage: Columns, like: DType, sizes: tuple[int, int, int], target: Target
    ) -> bool:
        """Had these gradients of columns better be found apart? sizes: rows, rows of a batch, and
        columns, of the stage; like: the type of its anchors."""
        key = (stage, like, sizes, target)
        return self._crowded.get_or_make(key, lambda: _is_crowded(made, stage, like, sizes, target))


def _is_crowded(
    made: Stages, stage: Columns, like: DType, sizes: tuple[int, int, int], target: Target
) -> bool:
    names, own = stage.pipeline.signature.arrays, len(stage.takes)
    types = dict(zip(names, map(made.type_of, stage.takes), strict=False))
    types |= dict.fromkeys(names[own:], like.number.vector(1))
    problem = Problem(dtypes=types, n_rows=sizes[0], batch_rows=sizes[1], n_cols=sizes[2])
    constants = stage.pipeline.signature.bind_constants({})
    try:
        work = stage.pipeline.of_types(types, constants, Choices()).work(target, problem)
        return bool(work.schedule.crowded)
    except BackendError:  # no tile fits
        return True


class Run:
    """One call of a gradient.

    arrays: the forward pipeline's, and cotangents, but for those that are not there yet. types:
    theirs. rows: the forward call's. on_host: do the arrays lie there?
    text: what an earlier run has found for the same call."""

    def __init__(
        self, gradient: Remembered, arrays: Mapping[str, Any], types: Mapping[str, DType],
        constants: dict[str, Any], rows: Rows, *, on_host: bool, text: Adjoint | None = None,
        deterministic: bool = False, precision: str = "float32",
    ) -> None:
        self.gradient, self._rows, self.arrays = gradient, rows, arrays
        self.text, self.types, self.made = gradient.prepared(types, constants, text)
        self._check_cotangents()
        self._on_host = on_host
        self._options = {n: constants[n] for n in self.text.graph.varying}
        self._options["deterministic"] = deterministic
        self._precision = precision

    def _check_cotangents(self) -> None:
        """Raises ShapeError for those that are not like their outputs."""
        rows = self._rows
        for name, node in self.text.cotangents.items():
            if name not in self.arrays:
                continue
            shape = tuple(self.arrays[name].shape)
            want = rows.whole if node.axis is g.Axis.ELEMENT else rows.lead
            found = shape[:-1] if node.axis is g.Axis.ROW_VECTOR else shape
            kept = node.axis is g.Axis.PER_ROW and found == (*rows.lead, 1)
            if found != want and not kept:
                raise ShapeError(f"{name} has shape {shape}, the rows have {rows.lead}",
                                 why="A cotangent is shaped like its output.",
                                 fix="Broadcast it first.")

    # ---- stages ----

    def gradients(self, kept: Values | None = None) -> dict[str, Any]:
        """By input. kept: what `forward` has made in the same call."""
        by_products = self._by_products(kept)
        if by_products is not None:
            return by_products
        values: Values = {i: self.arrays[i.name] for i in self.text.graph.inputs}
        found: dict[str, Any] = {}
        stages = self.gradient.rows(self.made, self._row_types, kept=kept is not None)
        values |= kept or {}
        for stage in stages:
            if kept and all(n in kept for n in stage.gives):
                continue
            made = self._results(stage, [values[n] for n in stage.takes])
            values |= zip(stage.gives, made, strict=True)
            if stage is stages[-1]:
                found |= zip(self.text.rows, made, strict=False)
        found = {n: self._as_given(n, a) for n, a in found.items()}
        for own, wanted in self._groups():
            found |= self._of_columns(own, wanted, values)
        return found

    def _by_products(self, kept: Values | None) -> dict[str, Any] | None:
        """Where gradients are products of tables: see products.py."""
        values: Values = {i: self.arrays[i.name] for i in self.text.graph.inputs}
        made = self.gradient.elements(self.made) if not self._on_host else None
        if made is None or self._options["deterministic"] or not self._rows.n_rows \
                or not serves(values, made):
            return None
        values |= kept or {}
        for stage in self.gradient.numbers(self.made, kept=kept is not None):
            if not all(n in values for n in stage.gives):
                got = self._results(stage, [values[n] for n in stage.takes])
                values |= zip(stage.gives, got, strict=True)
        products = Products(made, values, self._rows.n_rows, self._rows.n_cols, self._options)
        found = {n: self._as_given(n, a) for n, a in products.gradients(self.text.rows).items()
                 if a is not None}
        for own, wanted in self._groups():
            others = [n for n in wanted if n != made.column.name]
            if others:
                found |= self._of_columns(own, others, values)
        return found

    def _results(self, stage: Stage | Columns, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """What a stage gives; its dots are made as precisely as the call's, if it has such."""
        p = stage.pipeline
        types = dict(zip(p.signature.arrays, map(self.made.type_of, stage.takes), strict=False))
        vectors = {n: types[n] for n in p.vectors if n in types}
        options = {**self._options, "precision": self._precision if means_something(vectors)
                   else "float32"}
        return tuple(p(*arrays, **options).values())

    @property
    def _row_types(self) -> dict[str, str]:
        """Of the gradients of rows, as they leave their stage."""
        return {n: self._type_of(n, self._size_of_rows(n)) for n in self.text.rows}

    def _size_of_rows(self, name: str) -> int:
        node, rows = self.text.inputs[name], self._rows
        match node.axis:
            case g.Axis.ELEMENT:
                return rows.n_rows * rows.n_cols
            case g.Axis.ROW_VECTOR:
                return rows.n_rows * int(self.arrays[name].shape[-1])
            case _:
                return rows.n_rows

    def _type_of(self, name: str, size: int) -> str:
        """Its input's; that of sums for what is summed further."""
        whole = math.prod(self.arrays[name].shape)
        return self.types[name].number.name if size == whole else self.made.precision

    def _as_given(self, name: str, found: Any) -> Any:
        like = self.arrays[name]
        return typed(summed_to(found, like.shape), like.dtype)

    # ---- columns ----

    def _groups(self) -> list[tuple[tuple[int, ...], list[str]]]:
        """Inputs of columns that have a stage together, and the batch axes along which their
        gradients are found apart."""
        found: dict[tuple[int, ...], list[str]] = {}
        for name in self.text.columns:
            found.setdefault(self._own(name), []).append(name)
        return [*found.items()]

    def _own(self, name: str) -> tuple[int, ...]:
        batch, asked = self._rows.lead[:-1], self.made.asked_by([name])
        if name in self.made.numbered:  # a row's number is one of its own axis
            return tuple(range(len(batch)))
        axes = frozenset[int]().union(*(
            varies_along(self.arrays[n.name], n.axis, batch) for n in asked
            if isinstance(n, g.Input) and n.axis in OF_COLUMNS))
        return tuple(sorted(axes))

    def _of_columns(
        self, own: tuple[int, ...], wanted: Sequence[str], values: Values
    ) -> dict[str, Any]:
        """The gradients of these, each made apart along the batch axes `own`."""
        rows = self._rows
        lead = rows.lead or (1,)
        sides = Sides(lead[:-1], lead[-1], rows.n_cols, own)
        if rows.n_rows == 0:
            return {n: self._as_given(n, zeros_like(self.arrays[n])) for n in wanted}
        size = math.prod(sides.lead)
        types = {n: self._type_of(n, size * self._length(n)) for n in wanted}
        numbers = self._numbers()
        stage = self.gradient.columns(self.made, wanted, types, of_part=bool(numbers))
        given = [sides.seen(values[n], axis_of(n)) for n in stage.takes]
        like, sizes = self.arrays[wanted[0]], (size, rows.n_cols, sides.count)
        if len(wanted) > 1 and self._crowded(stage, wanted[0], sizes):
            alone = [self._of_columns(own, [name], values) for name in wanted]
            return {n: a for one in alone for n, a in one.items()}
        given += [anchor(like, (*sides.lead, 1)), anchor(like, (sides.count, 1))]
        given += [sides.seen(a, g.Axis.PER_COLUMN) for a in numbers]
        found = self._results(stage, given)
        return {n: self._as_given(n, sides.whole(a)) for n, a in zip(wanted, found, strict=True)}

    def _numbers(self) -> tuple[Any, ...]:
        """int64 (n_cols,): of columns that are a part of a row's. None of all of them."""
        return ()

    def _crowded(self, stage: Columns, like: str, sizes: tuple[int, int, int]) -> bool:
        if self._on_host:
            return False
        target = backend_at(best_memory()).here()
        return self.gradient.crowded(self.made, stage, self.types[like], sizes, target)

    def _length(self, name: str) -> int:
        """Numbers that the gradient has for each column."""
        vectors = self.text.inputs[name].axis is g.Axis.COLUMN_VECTOR
        return int(self.arrays[name].shape[-1]) if vectors else 1

