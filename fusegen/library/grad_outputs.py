"""The outputs that a gradient is for: its calls have one cotangent for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.ir import graph as g
from fusegen.ir.errors import TraceError

Sorts = tuple[tuple[g.Extent, bool], ...]
"""Of outputs: a value of what, and whether it is a vector."""


def sorts_of(outputs: Sequence[g.Node]) -> Sorts:
    return tuple((g.extent(n), g.is_vector(n)) for n in outputs)


def check_outputs(name: str, outputs: Sequence[g.Node], sorts: Sorts) -> None:
    """Raises TraceError where a pipeline's outputs are others than those that its gradient is for:
    there would be no cotangent for some, or one for another."""
    if sorts_of(outputs) != sorts:
        raise TraceError(
            f"{name} returns other outputs than those that its gradient is for",
            where=outputs[0].loc, why="They depend on its constants or optional inputs.",
            fix="Pass the constants to fg.grad as well.",
        )
