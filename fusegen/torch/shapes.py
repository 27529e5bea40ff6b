"""Shapes and types of results, also where sizes are symbols: what a tensor without memory becomes.
And what `Framework` asks of tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from fusegen.backend.arrays.adopt import check_places
from fusegen.backend.arrays.columns import check_columns
from fusegen.backend.arrays.results import result_shape
from fusegen.backend.arrays.rows import Axes, Rows, apart, rows_of, rows_within, spans_of
from fusegen.backend.registry import memories
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType, dtype_of
from fusegen.ir.forms import check_form, check_precision
from fusegen.ir.nesting import nest
from fusegen.library.calls.backward import Call
from fusegen.library.calls.framework import types_in
from fusegen.library.gradient.column_sums import Flat
from fusegen.pipeline.variants import Choices


def dtype_in(tensor: Any) -> DType:
    return dtype_of(str(tensor.dtype).removeprefix("torch."))


def rows_in(
    inputs: Sequence[g.Input], arrays: Mapping[str, Any], axis: Axes, keepdims: bool = False
) -> Rows:
    """As `rows_of`; sizes may be symbols. Raises ShapeError."""
    every, shapes = tuple(inputs), {i.name: tuple(arrays[i.name].shape) for i in inputs}
    if all(type(n) is int for shape in shapes.values() for n in shape):  # with every check
        return rows_of(every, shapes, axis, keepdims)
    whole, *others = spans_of(every, shapes)
    for other in others:
        if other != whole:
            try:
                whole = tuple(torch.broadcast_shapes(whole, other))
            except RuntimeError:
                raise apart(every, shapes) from None
    return rows_within(whole, every, shapes, axis, keepdims)


_HOST = torch.device(memories()[-1].name)


class _Summed(Flat):
    """On a processor, whose kernels read rows with columns that are neighbours. torch's own sum
    over rows is one pass without a copy."""

    sums = True

    def summed(self, each: Any, precision: str, result: str) -> Any:
        total = each.sum(0, dtype=getattr(torch, precision))
        return total if precision == result else total.to(getattr(torch, result))


def is_on_host(tensor: Any) -> bool:
    return bool(tensor.device == _HOST)


def flat(like: Any) -> Flat:
    return _Summed() if is_on_host(like) else Flat()


def is_known(shapes: Sequence[Any]) -> bool:
    return all(type(n) is int for _, shape, _ in shapes for n in shape)


def zeros_in(like: Any) -> Any:
    return like.new_zeros(like.shape)


def summed_to(tensor: Any, shape: Sequence[Any]) -> Any:
    return tensor.sum_to_size(shape)


def packed(tensor: Any) -> Any:
    lies = tensor.is_contiguous() or (tensor.ndim > 1 and tensor.stride(-1) == 1)
    return tensor if lies else tensor.contiguous()


def fronted(tensor: Any, axis: int) -> Any:
    return tensor.movedim(axis, 0)


def entries(tensor: Any) -> Sequence[Any]:
    return tensor.contiguous().unbind(0)  # type: ignore[no-any-return]


def spread_to(tensor: Any, shape: Sequence[Any]) -> Any:
    return tensor.expand(*shape)


def results(call: Call, arrays: Mapping[str, Any]) -> list[Any]:
    """Empty tensors like the results, in the order of the outputs; where the inputs have no memory
    they have none. Raises what is wrong with the text, the types, the shapes or the places."""
    check_places({n: a.device for n, a in arrays.items()})
    choices = Choices(form=check_form(call.form), deterministic=call.deterministic,
                      precision=check_precision(call.precision))
    dtypes = types_in(call.pipeline.vectors, arrays, dtype_in)
    variants = call.pipeline.of_types(dtypes, dict(call.constants), choices)
    rows = rows_in(variants.graph.inputs, arrays, call.axis, call.keepdims)
    check_columns(variants.graph, rows.n_cols)
    like = next(iter(arrays.values()))
    return [like.new_empty(result_shape(p, rows), dtype=getattr(torch, p.dtype.name))
            for p in variants.program.outputs]


def nested(graph: g.Graph, found: Any) -> Any:
    """What an operator returned, as the pipeline nests it."""
    return nest(graph.structure, [found] if isinstance(found, torch.Tensor) else list(found))
