"""Gradients of texts over vectors whose columns are sharded: attention with split keys, backwards.

The stages are those of one device (library/gradient/vectors/stages.py). What is of rows is a row
value of pairs, so it is exchanged as the forward call's results are; what is of columns is found
where these lie, from the rows' values, which all ranks have by then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from fusegen.backend.arrays.adopt import adopt_all, one_memory
from fusegen.backend.arrays.rows import rows_of
from fusegen.backend.arrays.vectors import types_of
from fusegen.distributed.calls import Call
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError
from fusegen.library.gradient.vectors.grad import VectorGradient
from fusegen.library.gradient.vectors.parts import Stage
from fusegen.library.gradient.vectors.pieces import PartRun
from fusegen.library.gradient.vectors.run import Values
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
        run.place, run.constants = (step, at, columns), dict(constants)
        return run.gradients()


class _OverRanks(PartRun):
    """A gradient whose stages of rows are sharded over ranks."""

    place: tuple[Step, int | None, int | None]
    constants: dict[str, Any]  # of the forward call
    first: int | None = None  # of this shard's columns, from the first exchange on

    def _of_columns(
        self, own: tuple[int, ...], wanted: Sequence[str], values: Values
    ) -> dict[str, Any]:
        if self.first is None and self.counts:  # on every rank, or none would hear the others
            p = self.gradient.forward
            self._found(p, [self.arrays.get(n) for n in p.signature.arrays], self.constants)
        return super()._of_columns(own, wanted, values)

    def _numbers(self) -> tuple[Any, ...]:
        if not self.counts:
            return ()
        assert self.first is not None
        like = next(iter(self.arrays.values()))
        return (torch.arange(self.first, self.first + self._rows.n_cols, device=like.device),)

    def _of_whole_rows(self, stage: Stage, arrays: Sequence[Any]) -> tuple[Any, ...]:
        options = {n: v for n, v in self._options.items() if n != "deterministic"}
        return tuple(self._found(stage.pipeline, arrays, options).values())

    def _found(
        self, pipeline: Pipeline, arrays: Sequence[Any], constants: dict[str, Any]
    ) -> Any:
        """The results of a pipeline over all ranks."""
        step, at, columns = self.place
        call = Call(pipeline, tuple(arrays), constants, at, columns)
        found, self.first, _ = step.of(pipeline).found(call)
        return found
