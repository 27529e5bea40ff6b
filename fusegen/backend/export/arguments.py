"""Arrays as functions of a library take them: what they are told of how each lies in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fusegen.backend.export.spelled import argument
from fusegen.ir.errors import InternalError
from fusegen.ir.kernel import Param


def axes_of(param: Param, strides: tuple[str, ...] = ("stride",)) -> tuple[str, ...]:
    """What functions are told of how an array lies, by the ends of the arguments' names. strides:
    of element arrays."""
    match param.shape:
        case "element":
            return strides
        case "row_vector" if not param.output:
            return ("stride",)
        case "column_vector":
            return ("stride", "batch_stride", "rows")
        case "columns":
            return ("batch_stride", "rows")
        case _:
            return ()


def given_strides(param: Param, axes: tuple[str, ...]) -> str:
    """Those of a struct Given: the inner one comes first."""
    match param.shape:
        case "element":
            return ", ".join(f"{param.name}_{axis}" for axis in reversed(axes))
        case "per_column":
            return "0"
        case "row_vector" if not param.output:
            return f"{param.name}_stride"
        case "row" | "list" | "row_vector":
            return str(param.step)
        case "column_vector":
            return ", ".join(f"{param.name}_{axis}" for axis in axes_of(param))
        case "columns":
            return f"1, {param.name}_batch_stride, {param.name}_rows"
        case "states" | "scalar":
            raise InternalError(f"{param.name} is no array of a library")


def told(
    variants: Mapping[str, tuple[Param, ...]], *, side_by_side: bool, numbered: bool
) -> Iterator[str]:
    """What the header says of the arrays. variants: kernels' arrays by the label of functions."""
    params = next(iter(variants.values()))
    yield "Columns of a row are neighbours; strides are counted in elements, from a row's first"
    yield "to the next row's. Arrays of one value or one list a row are packed. 16-bit floats are"
    yield "given as their bits. Results may share memory with nothing."
    if side_by_side:
        yield "Rows side by side: element (outer, column, i) lies at"
        yield "outer · outer_stride + column · stride + i, and belongs to row outer · n_inner + i."
    if any(p.shape in ("column_vector", "columns") for p in params):
        yield "Columns come in batches: …_rows neighbouring rows have the same (n_rows: all rows),"
        yield "…_batch_stride elements are from one batch's first to the next's, and of vectors"
        yield "…_stride from one column's to the next. A vector's numbers are neighbours."
    if numbered:
        yield "last_rows: rows of the last axis, which are numbered 0 … last_rows - 1; it divides"
        yield "n_rows."
    for i, p in enumerate(params):
        lengths = {label: every[i].k for label, every in variants.items()}
        yield f"  {argument(p.name)}: {_shape(p, lengths)}{', written' if p.output else ''}"


def _shape(param: Param, lengths: Mapping[str, int]) -> str:
    """lengths: of its vectors, by the label of functions."""
    few = len(set(lengths.values())) == 1
    numbers = str(param.k) if few else ", ".join(f"{k} ({label})" for label, k in lengths.items())
    match param.shape:
        case "element":
            return "n_rows rows of n_cols"
        case "per_column":
            return "n_cols, the same in every row"
        case "row":
            return "n_rows, one a row"
        case "list":
            return f"n_rows lists of {param.k}"
        case "row_vector":
            packed = ", packed" if param.output else ""
            return f"n_rows vectors of {numbers} numbers{packed}"
        case "column_vector":
            return f"batches of n_cols vectors of {numbers} numbers"
        case "columns":
            return "batches of n_cols, one a column"
        case "states" | "scalar":
            raise InternalError(f"{param.name} is no array of a library")
