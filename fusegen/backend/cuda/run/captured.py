"""What graphs replay. Nobody says when a graph ends: what it launches stays for the process's life,
its module, tickets and memory, also when the pipeline that launched it is no more."""

from __future__ import annotations

from typing import Any

_KEPT: dict[int, Any] = {}


def keep(one: Any) -> None:
    """Of an object whose launch is being captured: once, however often."""
    _KEPT[id(one)] = one
