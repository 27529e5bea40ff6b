"""Bytes that one call moves between ranks, beside those of the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from fusegen.distributed.pieces import runs_of
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.lang.signature import check_count
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.states.roles import Roles


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """One exchange of states. Bytes are those of all ranks together, without headers."""

    pipeline: str
    ranks: int
    n_rows: int
    state_bytes: int  # of a row, on each rank
    gathered_bytes: int  # of the shards' elements, which an all-gather of them moves; 0: none
    states: int = 1  # of a row, that each rank sends: more for bits that ranks do not change

    @property
    def exchanged_bytes(self) -> int:
        """What the all-gather of states moves."""
        return self.ranks * self.states * self.n_rows * self.state_bytes

    def __str__(self) -> str:
        rows = f"{self.n_rows:,} row{'' if self.n_rows == 1 else 's'}"
        head = (f"{self.pipeline} of {rows} sharded over {self.ranks} ranks: one all-gather of "
                f"{self.exchanged_bytes:,} bytes ({self.states * self.state_bytes} a row and rank)")
        if not self.gathered_bytes:
            return head
        times = self.gathered_bytes / max(1, self.exchanged_bytes)
        return f"{head}; of the rows themselves {self.gathered_bytes:,}, {times:.3g} × as many"


def plan_of(
    pipeline: Pipeline, ranks: int, pieces: int | None, n_rows: int, n_cols: int,
    dtypes: Mapping[str, DType], constants: dict[str, Any],
) -> ExchangePlan:
    """For whole rows of n_cols columns, on ranks that have as many as one another, in whole pieces.
    Raises ArgumentError, and PipelineError for a text without states."""
    check_count("n_rows", n_rows, 0)
    check_count("n_cols", n_cols)
    roles = Roles(pipeline, dtypes, constants)
    elements = sum(dtypes[i.name].itemsize for i in roles.fold.graph.inputs
                   if i.axis is g.Axis.ELEMENT)
    step = pieces or 1
    width = -(-n_cols // (ranks * step)) * step
    ends = [min(r * width, n_cols) for r in range(ranks + 1)]
    states = max(len(runs_of(a, b, pieces)) for a, b in pairwise(ends))
    return ExchangePlan(pipeline.name, ranks, n_rows, roles.layout.n_bytes,
                        n_rows * n_cols * elements, states)
