"""What `Framework` asks of JAX's arrays, traced or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jax import numpy as jnp

from fusegen.backend.arrays.rows import Axes, Rows, rows_of
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.jax.asked import on_hosts_alone
from fusegen.library.gradient.column_sums import Flat


def dtype_in(array: Any) -> DType:
    return dtype_of(str(array.dtype))


def is_on_host(array: Any) -> bool:
    return on_hosts_alone()


def rows_in(
    inputs: Sequence[g.Input], arrays: Mapping[str, Any], axis: Axes, keepdims: bool = False
) -> Rows:
    return rows_of(tuple(inputs), {i.name: tuple(arrays[i.name].shape) for i in inputs}, axis,
                   keepdims)


def flat(like: Any) -> Flat:
    return Flat()


def is_known(shapes: Sequence[Any]) -> bool:
    return all(type(n) is int for _, shape, _ in shapes for n in shape)


def zeros_in(like: Any) -> Any:
    return jnp.zeros(like.shape, like.dtype)


def summed_to(array: Any, shape: Sequence[int]) -> Any:
    more = array.ndim - len(shape)
    axes = [i + more for i, n in enumerate(shape) if n == 1 and array.shape[i + more] != 1]
    return array.sum((*range(more), *axes)).reshape(shape)


def packed(array: Any) -> Any:
    return array  # XLA lays them out


def fronted(array: Any, axis: int) -> Any:
    return jnp.moveaxis(array, axis, 0)


def entries(array: Any) -> Sequence[Any]:
    return [array[i] for i in range(array.shape[0])]


def spread_to(array: Any, shape: Sequence[int]) -> Any:
    return jnp.broadcast_to(array, shape)
