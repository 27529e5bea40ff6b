"""Results, and the arrays of out=, in the pipeline's own nesting of tuples and dicts."""

from __future__ import annotations

from typing import Any

from fusegen import graph as g
from fusegen.errors import ArgumentError


def nest(structure: g.Structure, leaves: list[Any]) -> Any:
    """Leaves in the pipeline's own nesting of tuples and dicts."""
    if isinstance(structure, int):
        return leaves[structure]
    if isinstance(structure, tuple):
        return tuple(nest(s, leaves) for s in structure)
    return {k: nest(s, leaves) for k, s in structure.items()}


def flatten(structure: g.Structure, out: Any, n_outputs: int) -> list[Any]:
    """out= as one entry per output, None where memory is to be made. Raises ArgumentError."""
    found: list[Any] = [None] * n_outputs

    def visit(part: g.Structure, given: Any) -> None:
        if given is None:
            return
        if isinstance(part, int):
            found[part] = given
            return
        keys = range(len(part)) if isinstance(part, tuple) else part
        kind = tuple | list if isinstance(part, tuple) else dict
        if (
            not isinstance(given, kind)
            or len(given) != len(part)
            or (isinstance(given, dict) and set(given) != set(part))
        ):
            shown = (
                f"a tuple of {len(part)}"
                if isinstance(part, tuple)
                else f"a dict of {', '.join(part)}"
            )
            raise ArgumentError(
                "out does not match the pipeline's outputs", why=f"They are {shown}."
            )
        for key in keys:
            visit(part[key], given[key])  # type: ignore[index]

    visit(structure, out)
    return found
