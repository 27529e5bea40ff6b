"""What a text asks of the number of columns, checked when it is known."""

from __future__ import annotations

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column
from fusegen.ir.errors import ShapeError


def check_columns(graph: g.Graph, n_cols: int) -> None:
    """Raises ShapeError where a top-K, a type of column numbers or equal sections do not fit."""
    for node in graph.nodes:
        match node:
            case g.TopK(k=k) if k > n_cols:
                raise ShapeError(
                    f"topk of {k} in rows with {n_cols} columns", where=node.loc,
                    why="A row does not have that many elements.", fix=f"Choose k ≤ {n_cols}.",
                )
            case g.Cast(dtype=dtype) if is_column(node):
                last = np.iinfo(dtype.numpy).max
                if n_cols - 1 > last:
                    raise ShapeError(
                        f"{dtype} column numbers for rows with {n_cols} columns", where=node.loc,
                        why=f"The last column is {n_cols - 1}, {dtype} ends at {last}.",
                        fix='Take index_dtype="int64".',
                    )
            case g.Index(sections=sections) if n_cols % sections:
                raise ShapeError(
                    f"{sections} equal sections of rows with {n_cols} columns", where=node.loc,
                    why="It is no multiple.",
                    fix=f"Choose a number of sections that divides {n_cols}.",
                )
            case _:
                pass
