"""Gradients over vectors whose columns are in pieces: rows' values come from elsewhere."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fusegen.backend.memory import Adopted
from fusegen.ir import graph as g
from fusegen.ir.dtypes import INT64, DType
from fusegen.ir.errors import PipelineError
from fusegen.library.gradient.vectors.arrays import zeros_like
from fusegen.library.gradient.vectors.parts import Columns, Stage
from fusegen.library.gradient.vectors.run import Remembered, Run, Values


class PartRun(Run):
    """A gradient of a part of the columns."""

    @property
    def counts(self) -> bool:
        """Do elements ask for their column's number?"""
        return any(isinstance(n, g.Index) for n in self.text.graph.nodes)

    @abstractmethod
    def _of_whole_rows(self, stage: Stage, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """What a stage that reads columns gives for whole rows."""

    def _by_products(self, kept: Values | None) -> None:
        """Tables of elements' gradients are of whole rows."""

    def _of_columns(
        self, own: tuple[int, ...], wanted: Sequence[str], values: Values
    ) -> dict[str, Any]:
        if self._rows.n_cols == 0:
            return {n: zeros_like(self.arrays[n]) for n in wanted}
        return super()._of_columns(own, wanted, values)

    def _results(self, stage: Stage | Columns, arrays: Sequence[Any]) -> tuple[Any, ...]:
        if isinstance(stage, Columns) or not stage.pipeline.vectors:  # of what is here
            return super()._results(stage, arrays)
        return self._of_whole_rows(stage, arrays)


class PieceRun(PartRun):
    """A gradient of a piece of columns, whose rows' values are known."""

    made_of_rows: tuple[Any, ...]
    numbers: tuple[Any, ...] = ()  # int64 (n_cols,): of columns, if elements ask for them

    @property
    def _row_types(self) -> dict[str, str]:
        return dict.fromkeys(self.text.rows, self.made.precision)

    def _of_whole_rows(self, stage: Stage, arrays: Sequence[Any]) -> tuple[Any, ...]:
        return self.made_of_rows

    def _numbers(self) -> tuple[Any, ...]:
        return self.numbers


def numbers(first: int, count: int, like: Adopted) -> Any:
    """first, first + 1, …: int64, where and as the array is."""
    memory = like.memory
    with memory.working(like):
        own = memory.maker((count,), INT64, like, None)()
        found = memory.view(own)
        found[...] = memory.from_host(np.arange(first, first + count), INT64)
        return memory.handed_back(found, own, INT64, like)


def statistics(
    gradient: Remembered, types: Mapping[str, DType], constants: dict[str, Any]
) -> Stage:
    """The one stage of rows that reads columns. Raises PipelineError where there is none, or
    more than one."""
    text, _, made = gradient.prepared(types, constants)
    stages = gradient.rows(made, dict.fromkeys(text.rows, made.precision), kept=False)
    found = [s for s in stages if s.pipeline.vectors]
    if not found:
        counts = any(isinstance(n, g.Index) for n in text.graph.nodes)
        raise PipelineError(f"{gradient.name} has no states: it takes nothing of whole rows",
                            where=text.graph.loc,
                            why="It is a sum over rows, of what every column has itself.",
                            fix="fg.distributed.sharded numbers the columns of each rank." if counts
                            else "Call it on each piece.")
    if len(found) > 1 or not all(isinstance(n, g.Input) for n in found[0].takes):
        rows = ", ".join(text.rows)
        often = f"in {len(found)} rounds" if len(found) > 1 else "behind values of whole rows"
        raise PipelineError(
            f"{gradient.name} has no states: its columns are read {often}", where=text.graph.loc,
            why=f"The gradient of {rows} is made of results of whole rows, and is a sum over "
            "all columns itself." if rows else "Each is of results of the one before.",
            fix="Ask for inputs of columns alone (wrt=…); fg.distributed.sharded exchanges in each "
            "round." if rows else "fg.distributed.sharded exchanges in each round.")
    return found[0]
