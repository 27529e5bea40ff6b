"""Statements about all numbers of a component of a state."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.monoid import Folded, Moving


@dataclass(frozen=True)
class Each:
    """A component's number, or number `i` of its vector, and the loop over these."""

    loop: str
    name: str


def each(component: Folded | Moving) -> Each:
    """What a statement about all numbers of a component begins with, and how it calls one."""
    if component.width == 1:
        return Each("", component.name)
    loop = f"for (int64_t i = 0; i < {component.width}; ++i) "
    return Each(loop, f"{component.name}[i]")
