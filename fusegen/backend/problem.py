"""What is asked of a kernel: sizes, types and how the rows lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Precision


class Phase(NamedTuple):
    """How the rows of a call's element arrays lie to vectors: see `Problem`."""

    aligned: bool = True
    in_phase: bool = True
    written_in_phase: bool = True


ALIGNED = Phase()
HALF_VECTOR = 8  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """`n_rows`, `n_cols` None: unknown, as in `source()` without a shape.

    `any_rows`: the choice must not depend on the number of rows, and do for few and for many.

    `typical`: the sizes stand for others, less and more than they are.

    `aligned`: every element array starts every row on a 16-byte boundary.  `in_phase`: they do
    not, but all element arrays are off by the same number of elements in every row, so 16-byte
    accesses work after a common head.  `written_in_phase`: those that are written are, whatever
    those that are read are off by.

    Of texts over vectors, `aligned` says so of every vector, and `in_phase` of every row of
    elements beside them.

    `inner`: None where the columns of a row are neighbours; else how many rows lie side by side.
    Element (outer, column, i) of an array is then at outer · outer stride + column · stride + i and
    belongs to row outer · inner + i; `aligned` means that both strides and the first address are
    multiples of 16 bytes, and `in_phase` that they are of 8.
    """

    dtypes: Mapping[str, DType]  # by input name
    n_rows: int | None = None
    n_cols: int | None = None
    any_rows: bool = False
    typical: bool = False
    aligned: bool = True
    in_phase: bool = True
    written_in_phase: bool = True
    inner: int | None = None
    precision: Precision = "float32"  # of products of float32 vectors
    batch_rows: int | None = None  # neighbouring rows that share vectors of columns
    may_store: bool = False  # elements of vectors, in pieces? where no form is asked for
