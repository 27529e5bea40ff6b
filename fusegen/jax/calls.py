"""Calls with JAX's arrays: checked, and made by one operation, in eager mode as under transforms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.errors import ArgumentError, BackendError, CompilerError, DTypeError
from fusegen.ir.nesting import nest
from fusegen.jax import derivatives  # noqa: F401  (they are of the operation that is bound)
from fusegen.jax.asked import Asked
from fusegen.jax.narrow import narrowed
from fusegen.jax.operators import bind
from fusegen.library.backward import Call
from fusegen.pipeline.by_torch import Rest
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.remembered import MISS


def call(
    pipeline: Pipeline, arrays: Sequence[Any], named: Mapping[str, Any], out: Any, rest: Rest,
    must: bool = False,
) -> Any:
    """The results, JAX's arrays; MISS where only host memory can serve the call, unless it `must`
    be JAX that does."""
    _check_constants(pipeline, named)
    present, constants = pipeline.bind(tuple(arrays), named)
    traced = must or any(isinstance(a, jax.core.Tracer) for a in present.values())
    axis, form, device, deterministic, keepdims = rest
    if out is not None or device != "auto":
        if traced:
            raise _refused("out=" if out is not None else "device=")
        return MISS
    given = {n: _array(n, a) for n, a in present.items()}
    dtypes = {n: dtype_of(str(a.dtype)) for n, a in given.items()}
    asked, wide = narrowed(pipeline, dtypes, constants)
    if wide is not None:
        if traced:
            raise _too_wide(pipeline, wide)
        return MISS
    made = Call(asked, constants, axis, keepdims, form, deterministic)
    try:
        found = bind(Asked.of(made, tuple(given)), list(given.values()))
    except (BackendError, CompilerError):
        if traced:
            raise
        return MISS  # values that are there go to kernels by DLPack as well
    structure = asked.traced(frozenset(given), constants).graph.structure
    return nest(structure, list(found))


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
    """JAX's array of these values. Raises DTypeError where its type would change one."""
    if isinstance(given, jax.Array):
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
