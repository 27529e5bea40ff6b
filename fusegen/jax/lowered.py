"""A call within a program of XLA's: arrays in rows, and the foreign function that runs kernels.

What reshapes and moves axes is XLA's own, which copies where it must. Shapes are known, so a run is
prepared once, here, and has a key; the program names the key.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax import numpy as jnp

from fusegen.backend.arrays.results import result_shape
from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.backend.arrays.vectors import shapes_of_batches
from fusegen.backend.host.unmade import unmade
from fusegen.backend.memory import Memory
from fusegen.ir import graph as g
from fusegen.ir.dtypes import INT64, DType
from fusegen.ir.errors import InternalError
from fusegen.ir.kernel import Param
from fusegen.ir.vectors import row_numbers
from fusegen.jax import shapes
from fusegen.jax.asked import Asked
from fusegen.jax.ready import Arrays, ready
from fusegen.pipeline.variants import Variants


def lowered(memory: Memory, *arrays: Any, asked: Asked) -> list[Any]:
    """Flat results of a call on arrays that will lie there."""
    variants, given = asked.variants(arrays), asked.named(arrays)
    rows = shapes.rows_in(variants.graph.inputs, given, asked.axis, asked.keepdims)
    outputs = variants.program.outputs
    if rows.n_rows == 0:
        return [jnp.zeros(result_shape(p, rows), p.dtype.numpy) for p in outputs]
    rows = _side_by_side(variants, rows, memory)
    read = {p.name for p in variants.program.inputs}
    batched = g.have_vectors(variants.graph.inputs)
    operands = {variants.graph.names[i]: _operand(i, given[i.name], rows, batched)
                for i in variants.graph.inputs if variants.graph.names[i] in read}
    numbering = row_numbers(variants.graph)
    if numbering in read:
        operands[numbering] = _row_numbers(rows)
    made = {p.name: _kernel_shape(p, rows) for p in outputs}
    scalars = asked.scalars(variants)
    numbers = arrays[len(asked.names) :] if memory.single else ()
    lie = {n: unmade(o.shape, o.dtype, o.stays) for n, o in operands.items()}
    lie |= scalars if numbers else {}
    lie |= {p.name: unmade(made[p.name], p.dtype) for p in outputs}
    run = ready(variants, Arrays(lie, (rows.n_rows, rows.n_cols), rows.inner,
                                 {} if numbers else scalars), memory)
    types = [jax.ShapeDtypeStruct(made[p.name], p.dtype.numpy) for p in outputs]
    found = run([*(o.array for o in operands.values()), *numbers], types)
    return [_shaped(f, p, rows) for f, p in zip(found, outputs, strict=True)]


def _side_by_side(variants: Variants, rows: Rows, memory: Memory) -> Rows:
    """Rows that kernels there read where they are, or the same rows to be laid out."""
    inner = math.prod(rows.lead[rows.axes[0] :])
    if rows.last or len(rows.axes) > 1 or inner == 1:
        return rows
    return replace(rows, inner=inner) if variants.takes_side_by_side(memory) else rows


@dataclass(frozen=True)
class Operand:
    """An array as kernels read it: (n_rows, n_cols), rows side by side, (n_rows,) or (n_cols,);
    vectors as backend/arrays/vectors.py has them."""

    array: Any
    shape: tuple[int, ...]
    dtype: DType
    stays: tuple[bool, ...] = ()  # axes that it has once


def _operand(node: g.Input, array: Any, rows: Rows, batched: bool) -> Operand:
    match node.axis:
        case g.Axis.PER_COLUMN if batched:
            return _of_columns(array, rows, 1)
        case g.Axis.PER_COLUMN:
            return _plain(array.reshape(rows.n_cols))
        case g.Axis.PER_ROW:
            if array.ndim > len(rows.lead):
                array = array.reshape(rows.lead)
            return _plain(jnp.broadcast_to(array, rows.lead).reshape(rows.n_rows))
        case g.Axis.ELEMENT:
            return _elements(array, rows)
        case g.Axis.ROW_VECTOR:
            length = array.shape[-1]
            spread = jnp.broadcast_to(array, (*rows.lead, length))
            return _plain(spread.reshape(rows.n_rows, length))
        case g.Axis.COLUMN_VECTOR:
            return _of_columns(array, rows, 2)
        case g.Axis.SCALAR:
            raise InternalError(f"{node.name} is no array")


def _plain(array: Any) -> Operand:
    return Operand(array, array.shape, shapes.dtype_in(array))


def _of_columns(array: Any, rows: Rows, own: int) -> Operand:
    whole, spread, flat = shapes_of_batches(tuple(array.shape), rows.lead, own)
    return _plain(jnp.broadcast_to(array.reshape(whole), spread).reshape(flat))


def _row_numbers(rows: Rows) -> Operand:
    """The rows' numbers among those of their last axis: of 64 bits, which JAX may not have, by
    their lower and upper halves."""
    period = rows.lead[-1] if rows.lead else 1
    low = jnp.resize(jnp.arange(period, dtype=jnp.uint32), rows.n_rows)
    return Operand(jnp.stack([low, jnp.zeros_like(low)], -1), (rows.n_rows,), INT64)


def _elements(array: Any, rows: Rows) -> Operand:
    whole = rows.whole
    if rows.inner is not None:
        place = rows.axes[0]
        outer = math.prod(whole[:place])
        return _plain(jnp.broadcast_to(array, whole).reshape(outer, rows.n_cols, rows.inner))
    shape = (1,) * (len(whole) - array.ndim) + tuple(array.shape)
    once = rows.n_rows > 1 and all(n == 1 for i, n in enumerate(shape) if i not in rows.axes)
    if once:  # the same for every row: kernels read it again and again
        whole = tuple(n if i in rows.axes else 1 for i, n in enumerate(whole))
    spread = jnp.broadcast_to(array, whole)
    if not rows.last:
        spread = jnp.moveaxis(spread, rows.axes, range(len(rows.lead), len(whole)))
    flat = spread.reshape(1 if once else rows.n_rows, rows.n_cols)
    return Operand(flat, (rows.n_rows, rows.n_cols), shapes.dtype_in(flat), (once, False))


def _kernel_shape(param: Param, rows: Rows) -> tuple[int, ...]:
    match param.shape:
        case "row":
            return (rows.n_rows,)
        case "list" | "row_vector":
            return rows.n_rows, param.k
        case _ if rows.inner is not None:
            return rows.n_rows // rows.inner, rows.n_cols, rows.inner
        case _:
            return rows.n_rows, rows.n_cols


def _shaped(written: Any, param: Param, rows: Rows) -> Any:
    """What a kernel wrote, in the shape of the user's axes."""
    if param.shape == "row" or rows.inner is not None or rows.last:
        return written.reshape(result_shape(param, rows))
    sizes, places = tail_of(rows, param.shape, param.k)
    whole = written.reshape(*rows.lead, *sizes)
    return jnp.moveaxis(whole, range(len(rows.lead), whole.ndim), places)
