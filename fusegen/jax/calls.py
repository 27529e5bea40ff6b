"""Calls with JAX's arrays: checked, and made by one operation, in eager mode as under transforms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from fusegen.backend.arrays.rows import plain_axis
from fusegen.compile.typed import Traced
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import (
    ArgumentError,
    BackendError,
    CompilerError,
    DTypeError,
    ShapeError,
)
from fusegen.ir.forms import check_form, check_precision
from fusegen.ir.nesting import nest
from fusegen.jax import (
    derivatives,  # noqa: F401  (they are of the operation that is bound)
    shapes,
)
from fusegen.jax.asked import Asked, on_hosts_alone
from fusegen.jax.narrow import narrowed
from fusegen.jax.operators import bind
from fusegen.lang.signature import check_flag, constants_key
from fusegen.library.calls.backward import Call
from fusegen.library.calls.framework import types_in
from fusegen.pipeline.by_torch import Rest
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.remembered import MISS


@dataclass(frozen=True, slots=True)
class Made:
    """What a call was found to be, for others with arrays of the same shapes and types."""

    asked: Asked
    structure: g.Structure
    text: Traced


def call(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any], out: Any, rest: Rest,
    must: bool = False,
) -> Any:
    """The results, JAX's arrays; MISS where only host memory can serve the call, unless it `must`
    be JAX that does."""
    pipeline.traces.are_stale()  # what was remembered of another text goes with it
    key = None if out is not None else _spelled(pipeline, arrays, named, rest)
    kinds, constants = pipeline.traces.kinds, {**pipeline.signature.constants, **named}
    made: Made | None = None if key is None else kinds.find(key, constants)
    asked = None if made is None else made.asked.having(named)
    if made is None or asked is None:
        found = _looked_at(pipeline, arrays, named, out, rest, must)
        if found is None:
            return MISS
        made, given = found
        asked, key = made.asked, None if key is None else _spelled(pipeline, arrays, named, rest)
    else:
        given, key = [a for a in (*arrays, *named.values()) if isinstance(a, jax.Array)], None
    try:
        results = bind(asked, given)
    except (BackendError, CompilerError):
        if must or any(isinstance(a, jax.core.Tracer) for a in given):
            raise
        return MISS  # values that are there go to kernels by DLPack as well
    if key is not None:
        kinds.put(key, made.text, made)
    return nest(made.structure, list(results))


def _spelled(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any], rest: Rest
) -> Any:
    """All that a call depends on but values; None where only a full look can tell."""
    key: list[Any] = [call, rest, jax.config.jax_enable_x64]
    for array in arrays:
        if isinstance(array, jax.Array):
            key.append((array.shape, array.dtype))
        else:
            return None
    for name, value in named.items():
        if isinstance(value, jax.Array) or name in pipeline.signature.arrays:
            return None
    try:
        alike = pipeline.traces.alike if on_hosts_alone() else constants_key
        found = (*key, *alike(named))
        hash(found)
    except TypeError:  # the full look says which
        return None
    return found


def _looked_at(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any], out: Any, rest: Rest,
    must: bool,
) -> tuple[Made, list[Any]] | None:
    """The call and its arrays; None where only host memory can serve it."""
    _check_constants(pipeline, named)
    present, constants = pipeline.bind(tuple(arrays), named)
    traced = must or any(isinstance(a, jax.core.Tracer) for a in present.values())
    axis, form, device, deterministic, keepdims, precision = rest
    if out is not None or device != "auto":
        if traced:
            raise _refused("out=" if out is not None else "device=")
        return None
    given = {n: _array(n, a) for n, a in present.items()}
    dtypes = types_in(pipeline.vectors, given, shapes.dtype_in)
    narrow, wide = narrowed(pipeline, dtypes, constants)
    if wide is not None:
        if traced:
            raise _too_wide(pipeline, wide)
        return None
    text = pipeline.traces.varied(frozenset(given), constants)
    asked = Asked.of(
        Call(narrow, constants, plain_axis(axis), check_flag("keepdims", keepdims),
             check_form(form), check_flag("deterministic", deterministic),
             check_precision(precision)), dtypes)
    return Made(asked, text.graph.structure, text), list(given.values())


def _check_constants(pipeline: Pipeline, named: Mapping[str, Any]) -> None:
    for name, value in named.items():
        if name in pipeline.signature.constants and isinstance(value, jax.core.Tracer):
            raise ArgumentError(
                f"{pipeline.name}: constant {name} is traced by JAX",
                why="Constants are part of the kernel, which is made before there are values.",
                fix=f"Name {name} in static_argnames= of jax.jit, or make it an array of the "
                "pipeline, annotated fg.PerRow.")


def _refused(what: str) -> ArgumentError:
    return ArgumentError(
        f"{what} cannot be said within a function that JAX traces",
        why="Its arrays are not written into." if what == "out=" else "JAX says where it runs.",
        fix=f"Leave {what} away.")


def _too_wide(pipeline: Pipeline, wide: DType) -> DTypeError:
    return DTypeError(
        f"{pipeline.name} has a result of {wide}, which JAX has not unless it is told so",
        fix="jax.config.update('jax_enable_x64', True), or fg.cast(…, "
        f"'{wide.name.replace('64', '32')}') in the text.")


def _array(name: str, given: Any) -> Any:
    """JAX's array of these values. Raises ShapeError, and DTypeError where its type would change
    one."""
    if isinstance(given, jax.Array):
        if not all(isinstance(n, int) for n in given.shape):
            raise ShapeError(f"{name} has the symbolic shape {given.shape}",
                             why="A kernel is chosen for rows and columns that are known.",
                             fix="Trace the function for each shape.")
        try:
            dtype_of(str(given.dtype))
        except DTypeError as error:
            raise DTypeError(f"{name}: {error.what}", why=error.why,
                             fix=f"Convert it first: {name}.astype('float32').") from None
        return given
    host = np.asarray(given)
    made = jnp.asarray(host)
    if made.dtype != host.dtype and not np.array_equal(np.asarray(made), host, equal_nan=True):
        raise DTypeError(f"{name} holds {host.dtype}, JAX takes it for {made.dtype}, which does "
                         "not hold its values",
                         fix=f"Convert {name}, or jax.config.update('jax_enable_x64', True).")
    return made
