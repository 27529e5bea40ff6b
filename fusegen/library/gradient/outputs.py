"""The outputs that a gradient is for: its calls have one cotangent for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.ir import graph as g
from fusegen.ir.errors import TraceError

Extents = tuple[g.Extent, ...]


def extents_of(outputs: Sequence[g.Node]) -> Extents:
    return tuple(map(g.extent, outputs))


def check_outputs(name: str, outputs: Sequence[g.Node], extents: Extents) -> None:
    """Raises TraceError where a pipeline's outputs are others than those that its gradient is for:
    there would be no cotangent for some, or one for another."""
    if extents_of(outputs) != extents:
        raise TraceError(
            f"{name} returns other outputs than those that its gradient is for",
            where=outputs[0].loc, why="They depend on its constants or optional inputs.",
            fix="Pass the constants to fg.grad as well.",
        )
