"""Results, and the arrays of out=, in the pipeline's own nesting of tuples and dicts."""

from __future__ import annotations

from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError


def nest(structure: g.Structure, leaves: list[Any]) -> Any:
    """Leaves in the pipeline's own nesting of tuples and dicts."""
    if isinstance(structure, int):
        return leaves[structure]
    if isinstance(structure, dict):
        return {k: nest(s, leaves) for k, s in structure.items()}
    return alike(structure, [nest(s, leaves) for s in structure])


def alike(like: tuple[Any, ...] | list[Any], parts: list[Any]) -> Any:
    """The parts as the same kind of sequence: a list, a tuple, or a named tuple of its type."""
    if isinstance(like, list):
        return parts
    return type(like)._make(parts) if hasattr(like, "_make") else tuple(parts)


def flatten(structure: g.Structure, out: Any, n_outputs: int) -> list[Any]:
    """out= as one entry per output, None where memory is to be made. Raises ArgumentError."""
    found: list[Any] = [None] * n_outputs

    def visit(part: g.Structure, given: Any) -> None:
        if given is None:
            return
        if isinstance(part, int):
            found[part] = given
            return
        keys = part if isinstance(part, dict) else range(len(part))
        kind = dict if isinstance(part, dict) else tuple | list
        if (
            not isinstance(given, kind)
            or len(given) != len(part)
            or (isinstance(given, dict) and set(given) != set(part))
        ):
            shown = (
                f"a dict of {', '.join(map(repr, part))}" if isinstance(part, dict)
                else f"a {'list' if isinstance(part, list) else 'tuple'} of {len(part)}"
            )
            raise ArgumentError(
                "out does not match the pipeline's outputs", why=f"They are {shown}."
            )
        for key in keys:
            visit(part[key], given[key])

    visit(structure, out)
    return found
