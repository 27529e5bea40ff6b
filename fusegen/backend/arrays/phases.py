"""How the rows of a call's arrays lie to vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fusegen.backend.arrays.spans import VECTOR, begin_on_vectors
from fusegen.backend.arrays.strips import whole_vectors
from fusegen.backend.problem import ALIGNED, HALF_VECTOR, Phase
from fusegen.backend.words import address
from fusegen.ir.kernel import Param


def phase_of(
    params: Sequence[Param], arrays: Mapping[str, Any], *, side_by_side: bool = False
) -> Phase:
    """Of a call, as `Problem` has it: of vectors, where there are some."""
    elements = [p for p in params if p.shape == "element"]
    read = [arrays[p.name] for p in elements if not p.output]
    written = [arrays[p.name] for p in elements if p.output]
    vectors = [arrays[p.name] for p in params
               if p.shape in ("row_vector", "column_vector") and not p.output]
    if vectors:
        return Phase(all(map(begin_on_vectors, vectors)), all(map(begin_on_vectors, read)))
    if side_by_side:
        views = [*read, *written]
        whole = whole_vectors(views)
        return Phase(whole, whole or whole_vectors(views, HALF_VECTOR))
    return phase(read, written)


def phase(read: list[Any], written: list[Any]) -> Phase:
    """Of 2-D arrays of elements."""
    arrays = [*read, *written]
    if all(_step(a) % VECTOR == 0 and address(a) % VECTOR == 0 for a in arrays):
        return ALIGNED
    return Phase(False, len({*map(_off, arrays)}) == 1, len({*map(_off, written)}) <= 1)


def _step(array: Any) -> int:
    """Bytes from a row to the next: of one row there is none, whatever its stride."""
    return int(array.strides[0]) if array.shape[0] > 1 else 0


def _off(array: Any) -> tuple[int, int]:
    """Elements from a boundary to the first row, and from there to the next."""
    return address(array) // array.itemsize % VECTOR, _step(array) // array.itemsize % VECTOR
