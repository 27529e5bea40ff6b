"""Scalars of a call, in the types that kernels compute in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.kernel import Param
from fusegen.ir.varying import computed


def scalars_in(
    graph: g.Graph, params: tuple[Param, ...], constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Every scalar of a call, by its parameter's name, in the type that kernels compute in; not
    those that say something of rows (`Param.field`)."""
    types = {p.name: p.dtype for p in params if p.shape == "scalar" and not p.field}
    numbers = {graph.names[s]: computed(s.formula, constants) for s in graph.scalars}
    return {name: dtype.numpy.type(numbers[name]) for name, dtype in types.items()}
