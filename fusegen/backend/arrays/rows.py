"""Rows in the user's arrays: which axes are reduced."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusegen.backend.arrays.vectors import rows_and_columns
from fusegen.backend.memory import Shape
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, ShapeError
from fusegen.ir.literals import as_index

Axes = int | tuple[int, ...] | None
"""As the user says it: one axis, several as one, or None for all of them."""


@dataclass(frozen=True, slots=True)
class Rows:
    """How the user's axes become rows and columns."""

    lead: Shape  # the axes that stay, in order
    cols: Shape  # those that are reduced; columns count through them, the last one fastest
    axes: tuple[int, ...]  # where those stood, from the front, rising
    keepdims: bool = False
    inner: int | None = None  # rows side by side that kernels read as they are (runtime.strips)

    @property
    def n_rows(self) -> int:
        return math.prod(self.lead)

    @property
    def n_cols(self) -> int:
        return math.prod(self.cols)

    @property
    def whole(self) -> Shape:
        """The user's shape of element arrays."""
        return self.placed(self.cols, self.axes)

    @property
    def last(self) -> bool:
        """Are the columns the last axes?"""
        return self.axes[0] == len(self.lead)

    def placed(self, sizes: Shape, axes: tuple[int, ...]) -> Shape:
        """The lead with these sizes at these places."""
        if axes[:1] == (len(self.lead),):
            return self.lead + sizes
        at, rest = dict(zip(axes, sizes, strict=True)), iter(self.lead)
        return tuple(at[i] if i in at else next(rest) for i in range(len(self.lead) + len(sizes)))


def plain_axis(axis: Any) -> Axes:
    """An axis as the user gave it, in plain integers. Raises ArgumentError."""
    if axis is None or axis.__class__ is int:
        return axis
    if isinstance(axis, tuple | list) or (isinstance(axis, np.ndarray) and axis.ndim == 1):
        return tuple(_index(a, axis) for a in axis)
    return _index(axis, axis)


def _index(axis: Any, shown: Any) -> int:
    found = None if isinstance(axis, bool | np.bool_) else as_index(axis)
    if found is None:
        raise ArgumentError(f"axis is {shown!r}",
                            fix=f"A named one has a number: axis=x.get_axis_num({axis!r})."
                            if isinstance(axis, str) else
                            "Axes are whole numbers, tuples of them, or None for all of them.")
    return found


def rows_of(
    inputs: tuple[g.Input, ...], shapes: Mapping[str, Shape], axis: Any, keepdims: bool = False,
    piece: bool = False,
) -> Rows:
    """Rows and columns that the inputs' shapes agree on; a piece of a row may have no column.
    Raises ShapeError."""
    spans = spans_of(inputs, shapes)
    whole = spans[0]
    try:
        if any(span != whole for span in spans):
            whole = np.broadcast_shapes(*spans)
    except ValueError:
        raise apart(inputs, shapes) from None
    rows = rows_within(whole, inputs, shapes, axis, keepdims, piece)
    batched = g.have_vectors(inputs)
    for i in inputs:
        _check_side_input(i, shapes[i.name], rows, batched)
    return rows


def rows_known(
    inputs: tuple[g.Input, ...], shapes: Mapping[str, Shape], lead: Shape, n_cols: int
) -> Rows:
    """Rows of these axes, where no input says what the columns are. Raises ShapeError."""
    rows = Rows(lead, (n_cols,), (len(lead),))
    for i in inputs:
        _check_side_input(i, shapes[i.name], rows, batched=False)
    return rows


def spans_of(inputs: tuple[g.Input, ...], shapes: Mapping[str, Shape]) -> list[Shape]:
    """What every input says of the axes of rows and columns. Raises ShapeError."""
    return [_span(i, shapes[i.name]) for i in inputs if i.axis in SPANNING]


def apart(inputs: tuple[g.Input, ...], shapes: Mapping[str, Shape]) -> ShapeError:
    """What is said of inputs that do not broadcast."""
    vectors = g.have_vectors(inputs)
    return ShapeError(
        "the element inputs do not broadcast against one another", why=_shown(shapes),
        fix="An fg.RowVector is (…rows, d), an fg.ColumnVector (…, n_cols, d): all have the "
        "same n_cols, and leading axes that broadcast." if vectors else
        "An array of one value per row is annotated fg.PerRow; one of (n_cols,) is the "
        "same for every row.",
    )


def rows_within(
    whole: Shape, inputs: tuple[g.Input, ...], shapes: Mapping[str, Shape], axis: Any,
    keepdims: bool = False, piece: bool = False,
) -> Rows:
    """Of inputs whose axes of rows and columns broadcast to the whole. Raises ShapeError."""
    axes = _axes(plain_axis(axis), len(whole), shapes)
    if axes != (len(whole) - 1,) and g.have_vectors(inputs):
        raise ShapeError(f"axis {axis} of rows made of vectors", why="Their columns are the last.",
                         fix="Leave axis out.")
    lead = tuple([n for i, n in enumerate(whole) if i not in axes])
    cols = tuple([whole[i] for i in axes])
    if 0 in cols and not piece:
        raise ShapeError("the rows are empty: zero columns",
                         why=f"{_shown(shapes)[:-1]}, axis {axis}.",
                         fix="A reduction needs at least one element.")
    return Rows(lead, cols, axes, keepdims)


SPANNING = (g.Axis.ELEMENT, *g.VECTORS)  # inputs that say what the rows and columns are


def _span(node: g.Input, shape: Shape) -> Shape:
    """The axes of rows and columns that the input has. Raises ShapeError."""
    if node.axis in g.VECTORS:
        return rows_and_columns(node, shape)
    if not shape:
        raise ShapeError(f"{node.name} has no axes", why="A row needs at least one axis.",
                         fix=f"{node.name}.reshape(1) is a row of one column.")
    return shape


def _shown(shapes: Mapping[str, Shape]) -> str:
    return f"Shapes: {', '.join(f'{n} {s}' for n, s in shapes.items())}."


def _axes(axis: Axes, ndim: int, shapes: Mapping[str, Shape]) -> tuple[int, ...]:
    """Places from the front, rising."""
    if axis is None:
        return tuple(range(ndim))
    asked = axis if isinstance(axis, tuple) else (axis,)
    for one in asked:
        if not -ndim <= one < ndim:
            raise ShapeError(f"axis {one} does not exist", why=_shown(shapes),
                             fix=f"Axes are {-ndim} … {ndim - 1}.")
    found = tuple(sorted({one % ndim for one in asked}))
    if len(found) < len(asked) or not found:
        raise ShapeError(f"axis {axis} names {'an axis twice' if asked else 'no axis'}",
                         why=_shown(shapes))
    return found


def _check_side_input(node: g.Input, shape: Shape, rows: Rows, batched: bool) -> None:
    """Raises ShapeError. batched: may rows of other leading axes have other columns?"""
    match node.axis:
        case g.Axis.ELEMENT | g.Axis.ROW_VECTOR | g.Axis.COLUMN_VECTOR:
            return
        case g.Axis.PER_COLUMN if batched and len(shape) > 1:
            if shape[-1] != rows.n_cols or not _fits(shape[:-1], rows.lead[:-1]):
                raise ShapeError(
                    f"{node.name} has shape {shape}, not {(*rows.lead[:-1], rows.n_cols)}",
                    why="It is per column: one value for each; leading axes broadcast against "
                    "those of the rows but the last.",
                    fix=_give(node, f"({rows.n_cols},), or {(*rows.lead[:-1], rows.n_cols)}"),
                )
        case g.Axis.PER_COLUMN:
            if shape not in ((rows.n_cols,), rows.cols):
                raise ShapeError(
                    f"{node.name} has shape {shape}, not {rows.cols}",
                    why="It is per column: one value for each.",
                    fix=_give(node, rows.cols, "fg.PerRow" if shape == rows.lead else ""),
                )
        case g.Axis.PER_ROW:
            if shape == _kept(rows):
                return
            if not _fits(shape, rows.lead):
                raise ShapeError(
                    f"{node.name} has shape {shape}, the rows have {rows.lead}",
                    why="It is per row: one value for each.",
                    fix=_give(node, rows.lead, "fg.PerColumn" if shape == rows.cols else ""),
                )


def _give(node: g.Input, shape: object, instead: str = "") -> str:
    """What to do about a wrong shape: another array, or the annotation that fits this one."""
    other = f", or annotate it {instead}, as its shape says" if instead else ""
    return f"Give {node.name} the shape {shape}{other}."


def _fits(shape: Shape, whole: Shape) -> bool:
    """Does it broadcast to the whole, and not beyond?"""
    try:
        return np.broadcast_shapes(shape, whole) == whole
    except ValueError:
        return False


def _kept(rows: Rows) -> Shape:
    """The shape of row values whose reduced axes are kept."""
    return rows.placed((1,) * len(rows.axes), rows.axes)


def tail_of(rows: Rows, kind: str, k: int) -> tuple[Shape, tuple[int, ...]]:
    """(sizes, places) of what a result has beside the lead; K stands at the last reduced axis."""
    ones = (1,) * len(rows.axes) if rows.keepdims else ()
    match kind:
        case "element":
            return rows.cols, rows.axes
        case "row_vector":
            return (*ones, k), rows.axes
        case "list" if rows.keepdims:
            return (*ones[1:], k), rows.axes
        case "list":
            return (k,), (rows.axes[-1] - len(rows.axes) + 1,)
        case _:
            return ones, rows.axes[: len(ones)]
