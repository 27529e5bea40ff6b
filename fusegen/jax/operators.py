"""A call of a pipeline as one operation of JAX's: shapes, eager calls, vmap.

What runs is in lowered.py, what differentiates in derivatives.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import jax
from jax import numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from fusegen.backend.arrays.columns import check_columns
from fusegen.backend.arrays.results import result_shape
from fusegen.backend.registry import memories
from fusegen.ir.errors import BackendError, InternalError
from fusegen.jax import shapes
from fusegen.jax.asked import Asked
from fusegen.jax.parted import ASKING, aligned, in_parts, is_asked, typed
from fusegen.library.calls.batched import batched

CALL = Primitive("fusegen")
CALL.multiple_results = True


def bind(asked: Asked, arrays: Sequence[Any]) -> list[Any]:
    """Flat results."""
    operands = [*arrays, *asked.operands()]
    is_asked()  # before anything is traced
    if not any(isinstance(a, jax.core.Tracer) for a in arrays):
        return _run(asked, *operands)  # type: ignore[no-any-return]
    found: list[Any] = CALL.bind(*aligned(operands), asked=asked)
    return found


def _bound(asked: Asked, *arrays: Any) -> list[Any]:
    return CALL.bind(*aligned(arrays), asked=asked)  # type: ignore[no-any-return]


_run = jax.jit(_bound, static_argnums=0)
_run_alone = jax.jit(lambda asked, *arrays: _bound(asked, *arrays), static_argnums=0)


def _eager(*arrays: Any, asked: Asked) -> list[Any]:
    """One operation by itself: where there is no jit, or JAX looks for what made a NaN, in `_run`,
    which cannot be called again then."""
    with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
        found: list[Any] = _run_alone(asked, *arrays)  # there is no other way to a kernel
    for refused, what, there in ((jax.config.jax_debug_nans, "nan", jnp.isnan),
                                 (jax.config.jax_debug_infs, "inf", jnp.isinf)):
        if refused and any(bool(there(f).any()) for f in found):
            raise FloatingPointError(
                f"invalid value ({what}) encountered in {asked.pipeline.name}")
    return found


def _results(*arrays: Any, asked: Asked) -> list[Any]:
    variants = asked.variants(arrays)
    rows = shapes.rows_in(variants.graph.inputs, asked.named(arrays), asked.axis, asked.keepdims)
    check_columns(variants.graph, rows.n_cols)
    return typed(asked, arrays, [(result_shape(p, rows), p.dtype.numpy)
                                 for p in variants.program.outputs])


def _mapped(arrays: Sequence[Any], dims: Sequence[Any], *, asked: Asked) -> Any:
    given, places = asked.named(arrays), asked.named(dims)
    names = asked.pipeline.signature.arrays
    if any(d is not None for d in dims[len(asked.names) :]):
        raise InternalError("numbers of a call are batched")
    size = next(a.shape[d] for a, d in zip(arrays, dims, strict=True) if d is not None)
    return batched(asked.call, size, [places.get(n) for n in names],
                   [given.get(n) for n in names], shapes)


def _nowhere(context: Any, *_: Any, asked: Asked) -> NoReturn:
    raise BackendError(
        f"{asked.pipeline.name} has no kernels for {', '.join(context.module_context.platforms)}: "
        f"there are some for {', '.join(m.name for m in memories())}")


ASKING.add(CALL)
CALL.def_impl(_eager)
CALL.def_abstract_eval(_results)
batching.primitive_batchers[CALL] = _mapped
mlir.register_lowering(CALL, _nowhere)
for _memory in memories():
    mlir.register_lowering(CALL, mlir.lower_fun(partial(in_parts, _memory), multiple_results=True),
                           platform=_memory.name)
