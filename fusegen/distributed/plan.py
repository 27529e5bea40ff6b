"""Bytes that one call moves between ranks, beside those of the rows themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """The exchange of states. Bytes are those that each rank is left with, without headers."""

    pipeline: str
    ranks: int
    n_rows: int
    state_bytes: int  # of a row, on each rank
    gathered_bytes: int  # of the shards' elements, which an all-gather of them moves; 0: none
    states: int = 1  # of a row, that each rank sends: more for bits that ranks do not change
    per_node: int = 0  # ranks whose states meet before those of nodes; 0: all of them at once
    node_states: int = 1  # of a row, that each node is left with
    symmetric: bool = False  # do ranks write to one another's memory, as far as is known?
    why: str = ""  # they do not, where GPUs might

    @property
    def inside_bytes(self) -> int:
        """What the all-gather inside a node leaves, or that of all ranks."""
        n = self.per_node or self.ranks
        return n * self.states * self.n_rows * self.state_bytes

    @property
    def across_bytes(self) -> int:
        """What the all-gather across nodes leaves; 0: there is none."""
        nodes = self.ranks // self.per_node if self.per_node else 0
        return nodes * self.node_states * self.n_rows * self.state_bytes

    @property
    def exchanged_bytes(self) -> int:
        """What all exchanges of states leave."""
        return self.inside_bytes + self.across_bytes

    def __str__(self) -> str:
        rows = f"{self.n_rows:,} row{'' if self.n_rows == 1 else 's'}"
        each = self.states * self.state_bytes
        how = "through symmetric memory" if self.symmetric else "one all-gather"
        where = f"{self.pipeline} of {rows} sharded over {self.ranks} ranks: {how}"
        head = f"{where} of {self.inside_bytes:,} bytes ({each} a row and rank)"
        if self.per_node:
            head = (f"{where} inside nodes of {self.per_node}, of {self.inside_bytes:,} bytes "
                    f"({each} a row and rank), and one across {self.ranks // self.per_node} "
                    f"nodes, of {self.across_bytes:,} "
                    f"({self.node_states * self.state_bytes} a row and node)")
        if self.gathered_bytes:
            times = self.gathered_bytes / max(1, self.exchanged_bytes)
            head += f"; of the rows themselves {self.gathered_bytes:,}, {times:.3g} × as many"
        return f"{head}; no symmetric memory: {self.why}" if self.why else head


def plan_of(
    pipeline: Pipeline, ranks: int, per_node: int, pieces: int | None, n_rows: int, n_cols: int,
    dtypes: Mapping[str, DType], constants: dict[str, Any],
) -> ExchangePlan:
    """For whole rows of n_cols columns, on ranks that have as many as one another, in whole pieces;
    per_node: of them on each node. Raises ArgumentError, and PipelineError for a text without
    states."""
    check_count("n_rows", n_rows, 0)
    check_count("n_cols", n_cols)
    roles = Roles(pipeline, dtypes, constants)
    elements = sum(dtypes[i.name].itemsize for i in roles.fold.graph.inputs
                   if i.axis is g.Axis.ELEMENT)
    step = pieces or 1
    width = -(-n_cols // (ranks * step)) * step
    ends = [min(r * width, n_cols) for r in range(ranks + 1)]
    return ExchangePlan(
        pipeline.name, ranks, n_rows, roles.layout.n_bytes, n_rows * n_cols * elements,
        _most(ends, pieces), per_node if per_node < ranks else 0, _most(ends[::per_node], pieces))


def _most(ends: Sequence[int], pieces: int | None) -> int:
    """States that one of these runs of columns has at most."""
    return max(len(runs_of(a, b, pieces)) for a, b in pairwise(ends))
