"""Stages of a gradient over vectors, as records, and what their pipelines' parameters are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter

from fusegen.ir import graph as g
from fusegen.lang.value import ColumnVector, PerColumn, PerRow, RowVector, Value
from fusegen.pipeline.pipeline import Pipeline

_ANNOTATIONS: Mapping[g.Axis, type] = {
    g.Axis.ELEMENT: Value, g.Axis.PER_ROW: PerRow, g.Axis.PER_COLUMN: PerColumn,
    g.Axis.ROW_VECTOR: RowVector, g.Axis.COLUMN_VECTOR: ColumnVector,
}


@dataclass(frozen=True, eq=False)
class Stage:
    """A pipeline, and the nodes of the backward text that it takes and gives."""

    pipeline: Pipeline
    takes: tuple[g.Node, ...]
    gives: tuple[g.Node, ...]


@dataclass(frozen=True, eq=False)
class Columns:
    """The stage of columns: a pipeline, what it takes as seen from the columns, and after that a
    vector for each of its rows and for each of its columns, which only say how many there are, and
    columns' numbers if they are a part of a row's."""

    pipeline: Pipeline
    takes: tuple[g.Node, ...]


def parameter_of(name: str, axis: g.Axis) -> Parameter:
    return Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, annotation=_ANNOTATIONS[axis])


def axis_of(node: g.Node) -> g.Axis:
    """What an input is that stands for the value."""
    if isinstance(node, g.Input):
        return node.axis
    return g.Axis.ROW_VECTOR if g.is_vector(node) else g.Axis.PER_ROW
