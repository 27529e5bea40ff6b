"""Which axes of the inputs are which: labels, as `dask.array.blockwise` takes them.

An axis of rows or columns has its place in the whole as label; the numbers of a vector, and what
results have beside these axes, have labels of their own.
"""

from __future__ import annotations

from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.dask.text import Spans
from fusegen.ir import graph as g
from fusegen.ir.kernel import Param

Labels = tuple[int, ...]


def lead_of(rows: Rows) -> Labels:
    """The axes that stay."""
    return tuple(i for i in range(len(rows.whole)) if i not in rows.axes)


def labels_of(node: g.Input, shape: tuple[int, ...], rows: Rows, own: int) -> tuple[Labels, Spans]:
    """The labels of an input whose shape fits the rows. own: of the numbers of its vectors."""
    n, lead = len(rows.whole), lead_of(rows)
    match node.axis:
        case g.Axis.ROW_VECTOR:
            return (*_last(lead, len(shape) - 1), own), "rows"
        case g.Axis.COLUMN_VECTOR:
            return (*_last(lead[:-1], len(shape) - 2), n - 1, own), "columns"
        case g.Axis.PER_COLUMN if len(shape) > len(rows.axes):  # beside vectors, and batches
            return (*_last(lead[:-1], len(shape) - 1), n - 1), "columns"
        case g.Axis.PER_COLUMN:
            return rows.axes, "columns"
        case g.Axis.PER_ROW if shape == rows.placed((1,) * len(rows.axes), rows.axes):
            return tuple(range(n)), "kept"
        case g.Axis.PER_ROW:
            return _last(lead, len(shape)), "rows"
        case _:
            return _last(tuple(range(n)), len(shape)), "both"


def _last(labels: Labels, count: int) -> Labels:
    """Of an array that broadcasts against more axes, as NumPy's do: the last of them."""
    return labels[len(labels) - count :]


def labels_of_result(param: Param, rows: Rows, own: int) -> tuple[Labels, dict[int, int]]:
    """The labels of a result, and sizes of those that no input has. own: the first of these."""
    if param.shape == "element":
        return tuple(range(len(rows.whole))), {}
    sizes, places = tail_of(rows, param.shape, param.k)
    new = {place: own + i for i, place in enumerate(places)}
    rest = iter(lead_of(rows))
    labels = tuple(new[i] if i in new else next(rest) for i in range(len(rows.lead) + len(sizes)))
    return labels, dict(zip(new.values(), sizes, strict=True))
