"""fg.pipeline: a function on rows becomes a Pipeline."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from fusegen.ir.errors import ArgumentError
from fusegen.lang.blame import blames
from fusegen.pipeline.pipeline import Pipeline


@overload
def pipeline(fn: Callable[..., Any], *, allow_cancellation: bool = False) -> Pipeline: ...
@overload
def pipeline(*, allow_cancellation: bool) -> Callable[[Callable[..., Any]], Pipeline]: ...


@blames
def pipeline(
    fn: Callable[..., Any] | None = None, *, allow_cancellation: bool = False
) -> Pipeline | Callable[[Callable[..., Any]], Pipeline]:
    """Turn a function on rows into a Pipeline. Raises TraceError for unusable parameters.

    allow_cancellation: merge also sums whose read-out is a difference of larger sums. The form is
    equal in exact arithmetic, but may lose digits where the text keeps them; without it such a sum
    keeps a sweep of its own.
    """
    if fn is None:
        return functools.partial(pipeline, allow_cancellation=allow_cancellation)
    given = fn.given if isinstance(fn, Pipeline) else fn
    return Pipeline(given, allow_cancellation=allow_cancellation)


def check_pipeline(who: str, given: object) -> None:
    """Raises ArgumentError for what is no pipeline, such as a function that was to become one.
    who: what takes it."""
    if not isinstance(given, Pipeline):
        raise ArgumentError(f"{who} takes a pipeline, got {type(given).__name__}",
                            fix="Decorate the function with @fg.pipeline.")
