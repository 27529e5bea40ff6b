"""Calls with JAX's arrays: made by what the face registers with `serve` (fusegen.jax, loaded when
one is first met). JAX itself is not imported here: who has none of its arrays may not have it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from fusegen.pipeline.by_torch import Rest
from fusegen.pipeline.remembered import MISS


class Helper(Protocol):
    """What makes such calls."""

    def call(self, pipeline: Any, arrays: Sequence[Any], named: Mapping[str, Any], out: Any,
             rest: Rest) -> Any:
        """The results, or MISS."""


_find: list[Callable[[], Helper]] = []


def serve(find: Callable[[], Helper]) -> None:
    """Register what loads the helper."""
    _find[:] = [cache(find)]


def served(
    pipeline: Any, arrays: Sequence[Any], named: Mapping[str, Any], out: Any, rest: Rest
) -> Any:
    """The results of a call with an array of JAX's, traced or not; MISS for all others."""
    jax = sys.modules.get("jax")
    kind = getattr(jax, "Array", None)  # missing while JAX is being imported
    if kind is None or not any(isinstance(a, kind) for a in (*arrays, *named.values())):
        return MISS
    return _find[0]().call(pipeline, arrays, named, out, rest)
