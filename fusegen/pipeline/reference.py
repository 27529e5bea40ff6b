"""The text as written, on the user's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.backend.arrays.adopt import adopt_all, on_host
from fusegen.backend.arrays.labels import check_labels
from fusegen.backend.arrays.layout import lay_out
from fusegen.backend.arrays.rows import Axes
from fusegen.backend.arrays.vectors import types_of
from fusegen.backend.numpy import oracle
from fusegen.ir import graph as g


def reference(graph: g.Graph, present: Mapping[str, Any], axis: Axes, keepdims: bool) -> Any:
    """Results in float64 and int64, as NumPy arrays. Raises as a call does."""
    given = adopt_all(present)
    adopted = {n: on_host(a) for n, a in given.items()}
    vectors = [i.name for i in graph.inputs if i.axis in g.VECTORS]
    text = oracle(graph, types_of(adopted, vectors))
    layout = lay_out(graph, text.outputs, adopted, axis, keepdims=keepdims)
    check_labels(graph, given, layout.rows)
    text.run(layout.arrays, layout.rows.n_rows, layout.rows.n_cols)
    return layout.hand_back()
