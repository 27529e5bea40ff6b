"""Results of 64 bits, where JAX has none (`jax_enable_x64` is not set): those that 32 bits hold.

Numbers of columns, counts of them, and integers that were picked from narrower ones lose nothing;
of other results nobody can tell before there are values.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column, is_condition
from fusegen.ir.dtypes import INT32, DType
from fusegen.ir.nesting import flatten, nest
from fusegen.lang import lang as fg
from fusegen.lang.value import Value
from fusegen.pipeline.pipeline import Pipeline
from fusegen.pipeline.variants import Choices
from fusegen.rewrite.adjoint.transplant import Text

_PICKS = ("where", "maximum", "minimum")


def narrowed(
    pipeline: Pipeline, dtypes: Mapping[str, DType], constants: dict[str, Any]
) -> tuple[Pipeline, DType | None]:
    """The pipeline, or one like it with int32 results; and the type of one that has 64 bits still.
    """
    if jax.dtypes.canonicalize_dtype(np.int64) == np.int64:
        return pipeline, None
    wide = _wide(pipeline, dtypes, constants)
    if not wide:
        return pipeline, None
    key = ("int32 results", tuple(wide), *dtypes.items())
    found: Pipeline | None = pipeline.derived.get(key)
    if found is None:
        found = pipeline.derived.put(key, _narrow_text(pipeline, dtypes, frozenset(wide)))
    return found, next(iter(_wide(found, dtypes, constants).values()), None)


def _wide(
    pipeline: Pipeline, dtypes: Mapping[str, DType], constants: dict[str, Any]
) -> dict[int, DType]:
    """Types of 64 bits, by the positions of outputs."""
    program = pipeline.of_types(dtypes, constants, Choices()).program
    return {i: p.dtype for i, p in enumerate(program.outputs) if p.dtype.itemsize == 8}


def _narrow_text(
    pipeline: Pipeline, dtypes: Mapping[str, DType], wide: frozenset[int]
) -> Pipeline:
    names = pipeline.signature.arrays

    def narrow(*arrays: Value | None, **constants: Any) -> Any:
        present = frozenset(n for n, a in zip(names, arrays, strict=True) if a is not None)
        graph = pipeline.traced(present, constants).graph
        found = flatten(graph.structure, pipeline(*arrays, **constants), len(graph.outputs))
        cast = [fg.cast(v, "int32") if i in wide and _fits(n, dtypes) else v
                for i, (v, n) in enumerate(zip(found, graph.outputs, strict=True))]
        return nest(graph.structure, cast)

    parameters = [*inspect.signature(pipeline.fn).parameters.values()]
    text = Text(pipeline.name, pipeline.__doc__ or "", pipeline.fn, parameters, narrow)
    made = Pipeline(text, allow_cancellation=pipeline.allow_cancellation)
    made.like = pipeline.like
    return made


def _fits(node: g.Node, dtypes: Mapping[str, DType]) -> bool:
    """Is it a whole number that int32 holds, whatever the arrays hold?"""
    match node:
        case g.Length() | g.Index():
            return True
        case g.Input(name=name):
            return dtypes[name].kind != "float" and _is_within(dtypes[name])
        case g.Literal(value=value):
            return type(value) is int and abs(value) < 2**31
        case g.Cast(dtype=dtype):
            return (dtype.kind == "int" and _is_within(dtype)) or is_column(node)
        case g.Reduce(fold=g.Fold.SUM, arg=arg):
            return _is_counted(arg)
        case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=arg) | g.Take(arg=arg):
            return _fits(arg, dtypes)
        case g.Part(top=top, field="values"):
            return _fits(top.arg, dtypes)
        case g.Map(op=op, args=args) if op in _PICKS:
            return all(_fits(a, dtypes) for a in args[op == "where" :])
        case _:
            return is_column(node)


def _is_counted(node: g.Node) -> bool:
    """Is it 0 or 1, or a condition?"""
    match node:
        case g.Map(op="where", args=(_, g.Literal(value=a), g.Literal(value=b))):
            return {a, b} <= {0, 1}
        case _:
            return is_condition(node)


def _is_within(dtype: DType) -> bool:
    return bool(np.can_cast(dtype.numpy, INT32.numpy))
