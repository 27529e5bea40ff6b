"""fg.grad of texts over vectors: attention's backward pass, from its text.

    dq, dk, dv = fg.grad(attention, wrt=("q", "k", "v"))(do, q, k, v)

Elements are made again from their vectors; nothing of the size rows × columns is stored. Gradients
of a row's inputs are row values of the same pairs; those of a column's are row values of the pairs
seen from the other side. Both are pipelines like any other: see stages.py.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from inspect import Parameter
from typing import Any, NoReturn

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.labels import check_labels
from fusegen.backend.arrays.rows import rows_of
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.memory import Adopted
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import InternalError, TraceError
from fusegen.ir.forms import check_precision
from fusegen.ir.graph_text import formula
from fusegen.ir.kinds import assumed_dtypes
from fusegen.lang.blame import blames
from fusegen.lang.lines import here
from fusegen.lang.signature import Signature, signature_of
from fusegen.lang.trace import is_tracing
from fusegen.lang.value import RowVector
from fusegen.library.gradient.outputs import Extents
from fusegen.library.gradient.states import StatefulGradient
from fusegen.library.gradient.vectors.pieces import PieceRun, numbers, statistics
from fusegen.library.gradient.vectors.run import Remembered, Run
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.finished import first_of
from fusegen.pipeline.states.record import States
from fusegen.rewrite.adjoint.transplant import Text, parameters_of


class VectorGradient(StatefulGradient):
    """The gradient of a pipeline over vectors.

    Call it with one cotangent per float output, shaped like that output (`grad`, or
    `grad_<output>`), then the forward pipeline's arrays, and its constants by keyword. Gradients
    have the types and the shapes of their inputs, summed over axes along which those were
    broadcast; several come as a tuple in the order of `wrt`. `stages` are the pipelines that it is
    made of. Columns in pieces: see `gradient.states`.
    """

    def __init__(
        self, forward: Pipeline, wrt: tuple[str, ...], cotangents: Mapping[int, tuple[str, type]],
        defaults: Mapping[str, Any], extents: Extents,
    ) -> None:
        self.forward, self.wrt, self._cotangents = forward, wrt, dict(cotangents)
        self._defaults, self._extents = dict(defaults), extents
        self.name = f"{forward.name}_grad"
        self.cotangents: dict[int, str] = {i: name for i, (name, _) in cotangents.items()}
        own = parameters_of(forward, defaults)
        head = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind)
                for name, kind in cotangents.values()]
        doc = f"Gradient of {forward.name} with respect to {', '.join(wrt)}."
        text = Text(self.name, doc, forward.fn, [*head, *own], _no_text)
        self.signature: Signature = signature_of(text)
        self.remembered = Remembered(forward, wrt, self.cotangents, extents)

    def __repr__(self) -> str:
        return f"<fusegen gradient {self.name}({', '.join(self.signature.arrays)})>"

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorGradient, (
            self.forward, self.wrt, self._cotangents, self._defaults, self._extents)

    @blames
    def __call__(self, *arrays: Any, precision: str = "float32", **named: Any) -> Any:
        """The gradients. precision: of the dots that they are made with, as of a call. Raises as
        Pipeline.__call__."""
        if is_tracing():
            raise TraceError(f"the gradient {self.name} was called inside a pipeline", where=here(),
                             why="It has stages, one for rows and one for columns.",
                             fix="Call it on its own.")
        present, constants = self.bind(arrays, named)
        adopted = adopt_all(present)
        self.signature.check_positive(
            any(a.dtype.number.name == "float64" for a in adopted.values()), constants)
        memory, graph = one_memory(adopted), self._forward_text(adopted, constants)
        rows = rows_of(graph.inputs, {n: tuple(a.array.shape) for n, a in adopted.items()}, -1)
        check_labels(graph, adopted, rows)
        found = Run(self.remembered, {n: _plain(a) for n, a in adopted.items()},
                    types_of(adopted, self.vectors), constants, rows,
                    on_host=memory.single, precision=check_precision(precision)).gradients()
        return self._of(found)

    def _of(self, found: Mapping[str, Any]) -> Any:
        return found[self.wrt[0]] if len(self.wrt) == 1 else tuple(found[n] for n in self.wrt)

    @property
    def vectors(self) -> frozenset[str]:
        """Arrays that hold vectors, cotangents among them."""
        own = {name for name, kind in self._cotangents.values() if kind is RowVector}
        return self.forward.vectors | own

    # ---- states: see gradient/states.py ----

    @property
    def origin(self) -> Pipeline:
        return self.forward

    def statistics(self, dtypes: Mapping[str, DType], constants: dict[str, Any]) -> Pipeline:
        """See StatefulGradient."""
        return statistics(self.remembered, dtypes, constants).pipeline

    def of_columns(
        self, whole: States, made: Mapping[str, Any], taken: Mapping[str, Adopted], at: int | None
    ) -> Any:
        """See StatefulGradient."""
        constants, graph = dict(whole.constants), self._forward_text(taken, dict(whole.constants))
        shapes = {n: tuple(a.array.shape) for n, a in taken.items()}
        rows = rows_of(graph.inputs, shapes, -1, piece=True)
        run = PieceRun(self.remembered, {n: _plain(a) for n, a in taken.items()},
                       dict(whole.dtypes), constants, rows, on_host=one_memory(taken).single)
        first = first_of(self.name, whole, rows.n_cols, at, run.counts)
        run.made_of_rows = tuple(made.values())
        if run.counts:
            run.numbers = (numbers(first, rows.n_cols, next(iter(taken.values()))),)
        return self._of(run.gradients())

    def _forward_text(self, present: Collection[str], constants: dict[str, Any]) -> g.Graph:
        own = frozenset(n for n in self.forward.signature.arrays if n in present)
        return self.forward.traces.varied(own, constants).graph

    def stages(
        self, *, inputs: Collection[str] = (), **constants: Any
    ) -> tuple[Pipeline, ...]:
        """The pipelines of a call in float32: those of rows, then that of columns. inputs:
        optional ones that are there."""
        present = frozenset(n for n in self.forward.signature.arrays
                            if n not in self.forward.signature.optional or n in inputs)
        found = self.remembered.adjoint(present, self.signature.bind_constants(constants))
        types = assumed_dtypes(found.graph, "float32")
        made = self.remembered.made(found, types, "float32")
        narrow = {n: types[n].number.name for n in self.wrt}
        columns = [n for n in self.wrt if n in found.columns]
        rows = made.rows(narrow, kept=False)
        return (*(stage.pipeline for stage in rows),
                *([made.columns(columns, narrow).pipeline] if columns else []))

    def formula(self, *, inputs: Collection[str] = (), **constants: Any) -> str:
        """The texts of `stages`, one line per value, each under its name."""
        texts = []
        for one in self.stages(inputs=inputs, **constants):
            every = frozenset(one.signature.arrays) - one.signature.optional
            graph = one.traced(every, one.signature.bind_constants({})).graph
            texts.append(f"{one.name}\n{formula(graph)}")
        return "\n\n".join(texts)

    def proofs(self, *, inputs: Collection[str] = (), **constants: Any) -> tuple[Obligation, ...]:
        """See `Gradient.proofs`."""
        present = frozenset(n for n in self.forward.signature.arrays
                            if n not in self.forward.signature.optional or n in inputs)
        return self.remembered.adjoint(present, self.signature.bind_constants(constants)).proofs


def _no_text(*arrays: Any, **constants: Any) -> NoReturn:
    raise InternalError("a gradient over vectors has no text of its own")


def _plain(adopted: Adopted) -> Any:
    """The array as stages take it: torch's as they are, but for their gradients; CuPy's of the type
    that it has, where it was adopted as integers."""
    if adopted.family == "torch":
        return adopted.given.detach()
    kind = adopted.dtype.numpy
    return adopted.array if adopted.array.dtype == kind else adopted.array.view(kind)
