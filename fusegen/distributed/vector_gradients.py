"""Gradients of texts over vectors whose columns are sharded: attention with split keys, backwards.

The stages are those of one device (library/vector_stages.py). What is of rows is a row value of
pairs, so it is exchanged as the forward call's results are; what is of columns is found where these
lie, from the rows' values, which all ranks have by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.rows import rows_of
from fusegen.backend.arrays.vectors import types_of
from fusegen.distributed.calls import Call
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.library.grad_vectors import VectorGradient
from fusegen.library.vector_parts import Columns, Stage
from fusegen.library.vector_run import Run, Values
from fusegen.pipeline.pipeline import Pipeline


class Step(Protocol):
    """A Sharded, of some pipeline."""

    pipeline: Pipeline

    def of(self, pipeline: Pipeline) -> Step:
        """Another pipeline over the same ranks."""

    def found(self, call: Call) -> tuple[Any, int, int]:
        """(results, number of the shard's first column, columns of whole rows)."""


@dataclass(frozen=True, eq=False)
class VectorPart:
    """The gradients of a text over vectors."""

    gradient: VectorGradient

    @staticmethod
    def of(gradient: VectorGradient, graph: g.Graph) -> VectorPart:
        """Raises ArgumentError for what is not found over ranks."""
        axes = {i.name: i.axis for i in graph.inputs}
        wide = [n for n in gradient.wrt if axes[n] in (g.Axis.ELEMENT, g.Axis.PER_COLUMN)]
        name = gradient.forward.name
        if wide:
            raise ArgumentError(f"{wide[0]} of {name} has no gradient over ranks",
                                why="It is of elements beside vectors, which no state holds.",
                                fix=f"Detach {wide[0]}, or call {name} on whole rows.")
        if any(isinstance(n, g.Index) for n in graph.nodes):
            raise ArgumentError(
                f"{name} has no gradient over ranks here: its elements ask for column numbers",
                why="Seen from their columns, shards begin with number 0.",
                fix="Mask by an array of elements (attention's bias), or call it on whole rows.")
        return VectorPart(gradient)

    def gradients(
        self, step: Step, cotangents: Sequence[Any], present: Mapping[str, Any],
        constants: Mapping[str, Any], at: int | None, columns: int | None,
    ) -> dict[str, Any]:
        """By input, in its type and shape."""
        arrays = {name: cotangents[i] for i, name in self.gradient.cotangents.items()}
        arrays |= {n: a.detach() if hasattr(a, "detach") else a for n, a in present.items()}
        adopted = adopt_all(arrays)
        own = frozenset(present)
        graph = self.gradient.forward.traces.varied(own, dict(constants)).graph
        shapes = {n: tuple(a.shape) for n, a in arrays.items()}
        rows = rows_of(graph.inputs, shapes, -1, piece=True)
        run = _OverRanks(self.gradient.remembered, arrays, types_of(adopted, self.gradient.vectors),
                         dict(constants), rows, on_host=one_memory(adopted).single)
        run.place = step, at, columns
        return run.gradients()


class _OverRanks(Run):
    """A gradient whose stages of rows are sharded over ranks."""

    place: tuple[Step, int | None, int | None]

    def _by_products(self, kept: Values | None) -> None:
        """Tables of elements' gradients are of whole rows."""

    def _of_columns(
        self, own: tuple[int, ...], wanted: Sequence[str], values: Values
    ) -> dict[str, Any]:
        if self._rows.n_cols == 0:  # a shard without columns
            return {n: self.arrays[n] * 0 for n in wanted}
        return super()._of_columns(own, wanted, values)

    def _results(self, stage: Stage | Columns, arrays: Sequence[Any]) -> tuple[Any, ...]:
        if isinstance(stage, Columns) or not stage.pipeline.vectors:  # of what this rank has
            return super()._results(stage, arrays)
        (step, at, columns), p = self.place, stage.pipeline
        options = {n: v for n, v in self._options.items() if n != "deterministic"}
        found, _, _ = step.of(p).found(Call(p, arrays, options, at, columns))
        return tuple(found.values())
