"""fg.grad of texts over vectors: attention's backward pass, from its text.

    dq, dk, dv = fg.grad(attention, wrt=("q", "k", "v"))(do, q, k, v)

Elements are made again from their vectors; nothing of the size rows × columns is stored. Gradients
of a row's inputs are row values of the same pairs; those of a column's are row values of the pairs
seen from the other side. Both are pipelines like any other: see vector_stages.py.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from inspect import Parameter
from typing import Any, NoReturn

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.labels import check_labels
from fusegen.backend.arrays.rows import Rows, rows_of
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import ArgumentError, DTypeError, InternalError, ShapeError, TraceError
from fusegen.ir.kinds import assumed_dtypes
from fusegen.ir.shared import Recent
from fusegen.lang.blame import blames
from fusegen.lang.lines import here
from fusegen.lang.signature import Signature, constants_key, signature_of
from fusegen.lang.trace import is_tracing
from fusegen.library.vector_adjoint import OF_COLUMNS, Adjoint, adjoint
from fusegen.library.vector_arrays import Sides, anchor, summed_to, typed, varies_along
from fusegen.library.vector_stages import Columns, Stage, Stages, axis_of
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.traces import MOST
from fusegen.rewrite.adjoint.transplant import Text

Values = dict[g.Node, Any]
"""Arrays by nodes of the backward text."""


class VectorGradient:
    """The gradient of a pipeline over vectors.

    Call it with one cotangent per float output, shaped like that output (`grad`, or
    `grad_<output>`), then the forward pipeline's arrays, and its constants by keyword. Gradients
    have the types and the shapes of their inputs, summed over axes along which those were
    broadcast; several come as a tuple in the order of `wrt`. `stages` are the pipelines that it is
    made of.
    """

    def __init__(
        self, forward: Pipeline, wrt: tuple[str, ...], cotangents: Mapping[int, tuple[str, type]]
    ) -> None:
        self.forward, self.wrt, self._cotangents = forward, wrt, dict(cotangents)
        self.name = f"{forward.name}_grad"
        self.cotangents: dict[int, str] = {i: name for i, (name, _) in cotangents.items()}
        own = inspect.signature(forward.fn).parameters.values()
        head = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
                for name, kind in cotangents.values()]
        doc = f"Gradient of {forward.name} with respect to {', '.join(wrt)}."
        text = Text(self.name, doc, forward.fn, [*head, *own], _no_text)
        self.signature: Signature = signature_of(text)
        self._adjoints: Recent[Any, Adjoint] = Recent(MOST)
        self._made: Recent[Any, Any] = Recent(MOST)

    def __repr__(self) -> str:
        return f"<fusegen gradient {self.name}({', '.join(self.signature.arrays)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorGradient, (self.forward, self.wrt, self._cotangents)

    @blames
    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """The gradients. Raises as Pipeline.__call__."""
        if is_tracing():
            raise TraceError(f"the gradient {self.name} was called inside a pipeline", where=here(),
                             why="It has stages, one for rows and one for columns.",
                             fix="Call it on its own.")
        by_name = {n: v for n, v in named.items() if n in self.signature.arrays}
        constants = self.signature.bind_constants(
            {n: v for n, v in named.items() if n not in by_name})
        adopted = adopt_all(self.signature.bind_arrays(arrays, by_name))
        one_memory(adopted)
        found = Run(self, adopted, constants).gradients()
        return found[self.wrt[0]] if len(self.wrt) == 1 else tuple(found[n] for n in self.wrt)

    def stages(
        self, *, inputs: Collection[str] = (), **constants: Any
    ) -> tuple[Pipeline, ...]:
        """The pipelines of a call in float32: those of rows, then that of columns. inputs:
        optional ones that are there."""
        present = frozenset(n for n in self.forward.signature.arrays
                            if n not in self.forward.signature.optional or n in inputs)
        found = self.adjoint(present, self.signature.bind_constants(constants))
        types = assumed_dtypes(found.graph, "float32")
        made = self.made(found, types, "float32")
        narrow = {n: types[n].number.name for n in self.wrt}
        columns = [n for n in self.wrt if n in found.columns]
        rows = made.rows(narrow, kept=False)
        return (*(stage.pipeline for stage in rows),
                *([made.columns(columns, narrow).pipeline] if columns else []))

    def proofs(self, *, inputs: Collection[str] = (), **constants: Any) -> tuple[Obligation, ...]:
        """See `Gradient.proofs`."""
        present = frozenset(n for n in self.forward.signature.arrays
                            if n not in self.forward.signature.optional or n in inputs)
        return self.adjoint(present, self.signature.bind_constants(constants)).proofs

    # ---- remembered ----

    def adjoint(self, present: frozenset[str], constants: dict[str, Any]) -> Adjoint:
        """The backward text for these inputs of the forward one, and constants like these."""
        traced = self.forward.traces.varied(present, constants)
        fixed = {n: v for n, v in constants.items() if n not in traced.graph.varying}
        key = (present, traced.digest, traced.graph.guards, constants_key(fixed))
        found = self._adjoints.get(key)
        if found is None:
            made = adjoint(self.name, traced, self.wrt, self.cotangents)
            found = self._adjoints.put(key, made)
        return found

    def made(self, text: Adjoint, types: Mapping[str, DType], precision: str) -> Stages:
        key = (text, tuple(types.items()), precision)
        found: Stages | None = self._made.get(key)
        if found is None:
            found = self._made.put(key, Stages(text, self.forward, types, precision))
        return found

    def rows(self, made: Stages, types: Mapping[str, str], *, kept: bool) -> tuple[Stage, ...]:
        key = (made, tuple(types.items()), kept)
        found: tuple[Stage, ...] | None = self._made.get(key)
        return self._made.put(key, made.rows(types, kept=kept)) if found is None else found

    def forward_stage(self, made: Stages) -> Stage:
        found: Stage | None = self._made.get((made, "forward"))
        return self._made.put((made, "forward"), made.forward()) if found is None else found

    def columns(self, made: Stages, wanted: Sequence[str], types: Mapping[str, str]) -> Columns:
        key = (made, "columns", tuple((n, types[n]) for n in wanted))
        found: Columns | None = self._made.get(key)
        return self._made.put(key, made.columns(wanted, types)) if found is None else found


class Run:
    """One call of a gradient. adopted: cotangents, but for those that are not there yet, and the
    forward pipeline's arrays. text: what an earlier run has found for the same call."""

    def __init__(
        self, gradient: VectorGradient, adopted: Mapping[str, Adopted], constants: dict[str, Any],
        text: Adjoint | None = None,
    ) -> None:
        self.gradient, own = gradient, gradient.forward.signature.arrays
        present = frozenset(n for n in own if n in adopted)
        for name in gradient.wrt:
            if name not in present:
                raise ArgumentError(f"{gradient.name} misses {name}",
                                    why="It is the gradient with respect to this input.")
        self.text = gradient.adjoint(present, constants) if text is None else text
        vectors = [i.name for i in self.text.graph.inputs if i.axis in g.VECTORS]
        self.types = self.text.typed(types_of(adopted, vectors))
        for name in gradient.wrt:
            if name in self.types and self.types[name].kind != "float":
                raise DTypeError(f"{name} holds {self.types[name]} values: it has no gradient")
        wide = any(d.number.name == "float64" for d in self.types.values())
        self.made = gradient.made(self.text, self.types, "float64" if wide else "float32")
        self.arrays = {n: _plain(a) for n, a in adopted.items()}
        self._rows = self._rows_of(adopted)
        self._numbers = {n: constants[n] for n in self.text.graph.varying}

    def _rows_of(self, adopted: Mapping[str, Adopted]) -> Rows:
        """The forward call's. Raises ShapeError for cotangents that are not like its outputs."""
        shapes = {n: tuple(a.array.shape) for n, a in adopted.items()}
        inputs = tuple(self.text.inputs.values())
        rows = rows_of(inputs, shapes, -1)
        check_labels(self.text.origin, adopted, rows)
        for name, node in self.text.cotangents.items():
            if name not in shapes:
                continue
            want = rows.whole if node.axis is g.Axis.ELEMENT else rows.lead
            found = shapes[name][:-1] if node.axis is g.Axis.ROW_VECTOR else shapes[name]
            kept = node.axis is g.Axis.PER_ROW and found == (*rows.lead, 1)
            if found != want and not kept:
                raise ShapeError(f"{name} has shape {shapes[name]}, the rows have {rows.lead}",
                                 why="A cotangent is shaped like its output.",
                                 fix="Broadcast it first.")
        return rows

    # ---- stages ----

    def forward(self, options: Mapping[str, Any]) -> Values:
        """The results of the forward call, first, and what `gradients` is to keep of it."""
        stage = self.gradient.forward_stage(self.made)
        values: Values = {i: self.arrays[i.name] for i in self.text.inputs.values()}
        return dict(zip(stage.gives, self._called(stage, values, options), strict=True))

    def gradients(self, kept: Values | None = None) -> dict[str, Any]:
        """By input. kept: what `forward` has made in the same call."""
        values: Values = {i: self.arrays[i.name] for i in self.text.graph.inputs}
        found: dict[str, Any] = {}
        stages = self.gradient.rows(self.made, self._row_types, kept=kept is not None)
        values |= kept or {}
        for stage in stages:
            if kept and all(n in kept for n in stage.gives):
                continue
            made = self._called(stage, values)
            values |= zip(stage.gives, made, strict=True)
            if stage is stages[-1]:
                found |= zip(self.text.rows, made, strict=False)
        found = {n: self._as_given(n, a) for n, a in found.items()}
        for own, wanted in self._groups().items():
            found |= self._of_columns(own, wanted, values)
        return found

    def _called(
        self, stage: Stage, values: Values, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        arrays = [values[n] for n in stage.takes]
        found = stage.pipeline(*arrays, **self._numbers, **(options or {}))
        return tuple(found.values())

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

    def _groups(self) -> dict[tuple[int, ...], list[str]]:
        """Inputs of columns by the batch axes along which their gradients are found apart."""
        found: dict[tuple[int, ...], list[str]] = {}
        for name in self.text.columns:
            found.setdefault(self._own(name), []).append(name)
        return found

    def _own(self, name: str) -> tuple[int, ...]:
        batch, asked = self._rows.lead[:-1], self.made.asked_by([name])
        if self.made.is_numbered(name):  # a row's number is one of its own axis
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
            return {n: self._as_given(n, self.arrays[n] * 0) for n in wanted}
        size = math.prod(sides.lead)
        types = {n: self._type_of(n, size * self._length(n)) for n in wanted}
        stage = self.gradient.columns(self.made, wanted, types)
        given = [sides.seen(values[n], axis_of(n)) for n in stage.takes]
        like = self.arrays[wanted[0]]
        given += [anchor(like, (*sides.lead, 1)), anchor(like, (sides.count, 1))]
        found = stage.pipeline(*given, **self._numbers)
        return {n: self._as_given(n, sides.whole(a))
                for n, a in zip(wanted, found.values(), strict=True)}

    def _length(self, name: str) -> int:
        """Numbers that the gradient has for each column."""
        vectors = self.text.inputs[name].axis is g.Axis.COLUMN_VECTOR
        return int(self.arrays[name].shape[-1]) if vectors else 1


def _plain(adopted: Adopted) -> Any:
    """The array as stages take it: torch's as they are, but for their gradients."""
    if adopted.family == "torch":
        return adopted.given.detach()
    return adopted.array


def _no_text(*arrays: Any, **constants: Any) -> NoReturn:
    raise InternalError("a gradient over vectors has no text of its own")
