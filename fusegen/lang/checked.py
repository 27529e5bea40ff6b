"""What a traced text must be: a row reduction whose results can be stored, and are what it says."""

from __future__ import annotations

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column
from fusegen.ir.errors import TraceError


def check_text(graph: g.Graph) -> None:
    """Raises TraceError."""
    if not any(i.axis in (g.Axis.ELEMENT, g.Axis.COLUMN_VECTOR) for i in graph.inputs):
        raise TraceError(
            "the pipeline has no element input", where=graph.loc,
            fix="At least one parameter must be an array of rows (no annotation), or an "
            "fg.ColumnVector.",
        )
    for node in graph.outputs:
        if g.is_vector(node) and g.extent(node) is g.Extent.ELEMENT:
            raise TraceError(
                "a result has a vector for every row and column", where=node.loc,
                why="It would take n_rows · n_cols · d numbers.",
                fix="Sum it over columns, fg.sum(…), or over the vectors' index, fg.inner(…).",
            )
    roots = set(graph.outputs)
    for node in graph.nodes:
        # A column number fits the type it was given: no rounding could fail to happen.
        if isinstance(node, g.Cast) and node not in roots and not is_column(node) and (
            node.dtype.name not in ("float32", "float64", "int64", "bool")
        ):
            raise TraceError(
                f"cast to {node.dtype} in the middle of a pipeline", where=node.loc,
                why="Kernels compute in float32/float64, int64 and bool; narrower types exist "
                "only in memory, so this rounding would silently not happen.",
                fix="Cast the result that you return.",
            )
