"""Programs whose elements cuBLAS makes: products of some rows at a time, then a program over these
stored rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fusegen.backend.cuda.run.bound import Bound
from fusegen.backend.cuda.run.device import cupy_module, on_device
from fusegen.backend.cuda.run.executable import CudaExecutable
from fusegen.backend.cuda.run.extent import extent_of
from fusegen.backend.cuda.run.families import Family, cupy_family, family_of
from fusegen.backend.cuda.run.foreign import external_stream
from fusegen.backend.cuda.schedule.products import (
    Product,
    ProductSchedule,
    pitch_of,
    product_of,
    storing,
    with_stored,
)
from fusegen.backend.executable import Progress
from fusegen.backend.memory import Adopted
from fusegen.backend.words import address, float_of, word
from fusegen.ir.errors import BackendError, InternalError
from fusegen.ir.kernel import Param, Program

_SINGLE = 68  # CUBLAS_COMPUTE_32F: products and sums in float32, whatever the vectors' type
_KINDS = {"float32": 0, "float16": 2, "bfloat16": 14}  # cudaDataType


@dataclass(frozen=True, slots=True)
class Vectors:
    """An array of vectors as cuBLAS takes it."""

    kind: int
    itemsize: int
    count: int
    length: int
    stride: int  # numbers

    @property
    def fits(self) -> bool:
        """Is it a matrix to cuBLAS?"""
        return self.stride >= self.length or self.count == 1

    @property
    def lead(self) -> int:
        return max(self.stride, self.length)


class ProductExecutable:
    """See `schedule.products`: a `CudaExecutable` over stored rows, and what stores them. first:
    the source of a kernel that does."""

    def __init__(
        self, program: Program, schedule: ProductSchedule, source: str, first: str = ""
    ) -> None:
        made = product_of(program)
        if made is None:
            raise InternalError(f"{program.name}: its elements are no product")
        self.program, self.schedule, self.made = program, schedule, made
        self.stored = CudaExecutable(with_stored(program, schedule.factor),
                                    schedule.rows, source)
        self.storing: CudaExecutable | None = None
        if schedule.tile:
            self.storing = CudaExecutable(storing(program), schedule.tile, first)

    def __call__(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """See `CudaExecutable`."""
        stored = self.stored
        stream = cupy_family().stream(stored.device.index)
        bound = self.bound(arrays, n_rows, n_cols, tuple(arrays), like)
        bound.launch([word(a) for a in arrays.values()], stream)
        if copies and stored.driver.capturing(stream):
            stored.captured += copies

    def bound(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any, makers: tuple[Callable[[], Any], ...] = (), first_column: int = 0,
    ) -> BoundProduct:
        """See `Bindable`. Whole rows alone are made by products, so `first_column` is 0."""
        params = {p.name: p for p in (*self.program.inputs, *self.program.outputs)}
        sides = tuple(_vectors(p, arrays[p.name]) for p in (self.made.row, self.made.column))
        # What the program never reads is among the arrays and their order all the same.
        steps = tuple(_row_step(params[n], arrays[n]) if n in params else 0 for n in order)
        over = {n: arrays[n] for n, p in params.items()
                if p.shape not in ("row_vector", "column_vector", "columns")}
        pieces = []
        for first in range(0, n_rows, self.schedule.piece_rows):
            rows = min(self.schedule.piece_rows, n_rows - first)
            pieces.append(Piece(first, rows, self._over(over, rows, n_cols, order, like),
                                self._made_by(arrays, rows, n_cols, order, like)))
        return BoundProduct(self, family_of(like), makers, order, sides, steps, tuple(pieces),
                            n_cols)

    def _made_by(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any,
    ) -> Bound | None:
        """What stores the elements; None: cuBLAS does."""
        if self.storing is None:
            return None
        (to,) = self.storing.program.outputs
        vectors = {n: arrays[n] for n in (self.made.row.name, self.made.column.name)}
        extent = extent_of(self.storing.program, vectors, n_rows, n_cols)
        extent = replace(extent, strides=(*extent.strides, (to.name, (pitch_of(n_cols),))))
        return self.storing._bound(extent, (*order, to.name), like)

    def _over(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any,
    ) -> Bound:
        extent = extent_of(self.stored.program, arrays, n_rows, n_cols)
        scores = (self.made.scores.name, (pitch_of(n_cols),))
        extent = replace(extent, strides=(*extent.strides, scores))
        return self.stored._bound(extent, (*order, self.made.scores.name), like)


def _vectors(param: Param, array: Any) -> Vectors:
    """Of one batch."""
    *_, count, length = array.shape
    stride = array.strides[-2] // array.itemsize
    return Vectors(_KINDS[param.dtype.number.name], array.itemsize, count, length, stride)


def _row_step(param: Param, array: Any) -> int:
    """Bytes from one row's part of an array to the next one's."""
    if param.shape not in ("element", "row", "list", "row_vector"):
        return 0
    return int(array.strides[0])


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows whose elements are stored at a time."""

    first: int
    rows: int
    over: Bound  # what runs on them
    storing: Bound | None  # what makes them; None: cuBLAS does


@dataclass(frozen=True, slots=True)
class BoundProduct:
    """See `Bound`: arrays of which only the addresses differ."""

    executable: ProductExecutable
    family: Family
    makers: tuple[Callable[[], Any], ...]
    order: tuple[str, ...]
    sides: tuple[Vectors, ...]  # the rows', the columns'
    steps: tuple[int, ...]  # bytes of each array that a row takes
    pieces: tuple[Piece, ...]
    n_cols: int

    def run(self, pointers: list[int]) -> list[Any]:
        """See `Bound`."""
        stored = self.executable.stored
        with on_device(stored.device.index, stored.context):
            made = []
            for make in self.makers:
                array = make()
                made.append(array)
                pointers.append(self.family.pointer(array))
            self.launch(pointers, self.family.stream(stored.device.index))
            return made

    def launch(self, pointers: list[int], stream: int) -> None:
        """Queue all of it; the device's context must be current."""
        stored, pitch = self.executable.stored, pitch_of(self.n_cols)
        most = max(piece.rows for piece in self.pieces)
        at, memory = stored.maker(self.family)(most * pitch * 4)
        held = [memory]
        with external_stream(cupy_module(), stream):
            cublas = self.executable.storing is None
            tables = self._matrices(pointers, held) if cublas else []
            factor = self._factor(pointers)
            for piece in self.pieces:
                moved = [p + piece.first * s for p, s in zip(pointers, self.steps, strict=True)]
                if piece.storing:
                    piece.storing.launch([*moved, at], stream)
                else:
                    self._multiplied(tables, piece, at, factor)
                piece.over.launch([*moved, at], stream)
        if not self.family.keeps_captured and stored.driver.capturing(stream):
            stored.captured += held

    def _multiplied(
        self, tables: list[tuple[int, Vectors]], piece: Piece, at: int, factor: float
    ) -> None:
        """The piece's elements, by cuBLAS."""
        (row, rows_of), column = tables
        start = row + piece.first * rows_of.lead * rows_of.itemsize
        scores = Vectors(_KINDS["float32"], 4, piece.rows, self.n_cols, pitch_of(self.n_cols))
        _multiply((start, replace(rows_of, count=piece.rows)), column, (at, scores), (False, True),
                  factor=factor)

    def _factor(self, pointers: list[int]) -> float:
        """By which the product multiplies elements."""
        name = self.executable.schedule.factor
        return float_of(pointers[self.order.index(name)]) if name else 1.0

    def _matrices(self, pointers: list[int], held: list[Any]) -> list[tuple[int, Vectors]]:
        """Both sides; copies of those that are no matrices, as what is broadcast."""
        made: Product = self.executable.made
        found = []
        for param, side in zip((made.row, made.column), self.sides, strict=True):
            at = pointers[self.order.index(param.name)]
            if not side.fits:
                copy = _copied(at, side)
                held.append(copy)
                at, side = copy.data.ptr, replace(side, stride=side.length)
            found.append((at, side))
        return found


def multiply(
    a: Adopted, b: Adopted, to: Adopted, *, turned: tuple[bool, bool], add: bool
) -> None:
    """See `Multiplying`."""
    (at_a, one), (at_b, other), (at_to, result) = map(_table, (a, b, to))
    _multiply((at_a, one), (at_b, other), (at_to, result), turned, add=add)


def _table(given: Adopted) -> tuple[int, Vectors]:
    array = given.array
    count, length = array.shape
    found = Vectors(_KINDS[given.dtype.name], array.itemsize, count, length,
                    array.strides[0] // array.itemsize)
    return address(array), found


def _multiply(
    a: tuple[int, Vectors], b: tuple[int, Vectors], to: tuple[int, Vectors],
    turned: tuple[bool, bool], *, factor: float = 1.0, add: bool = False,
) -> None:
    """Sums in float32. To cuBLAS, whose columns lie one behind the other, a table is its transpose:
    it makes bᵀ · aᵀ."""
    from cupy_backends.cuda.libs import cublas

    handle = cupy_module().cuda.device.get_cublas_handle()
    scale, keep = _number(factor), _number(float(add))
    (at_a, rows), (at_b, columns), (at_to, found) = a, b, to
    across, straight = cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N
    try:
        cublas.gemmEx(handle, across if turned[1] else straight, across if turned[0] else straight,
                      found.length, found.count, rows.count if turned[0] else rows.length,
                      scale.ctypes.data, at_b, columns.kind, columns.lead, at_a, rows.kind,
                      rows.lead, keep.ctypes.data, at_to, found.kind,
                      found.lead, _SINGLE, -1)
    except NotImplementedError as error:  # CuPy's, whatever cuBLAS could
        raise BackendError(
            "products of long vectors by cuBLAS cannot be captured into a graph: CuPy makes none "
            "there. Call the pipeline with form=\"online\", which folds elements where they are "
            "made; gradients of such vectors stay out of graphs.") from error


@lru_cache(64)
def _number(value: float) -> Any:
    """Where cuBLAS finds it."""
    return np.full(1, value, np.float32)


def _copied(at: int, side: Vectors) -> Any:
    """The vectors one behind the other, on CuPy's current stream."""
    cupy = cupy_module()
    kind = np.dtype(np.int16 if side.itemsize == 2 else np.int32)
    strides = (side.stride * side.itemsize, side.itemsize)
    low = min(0, (side.count - 1) * strides[0])
    size = abs(side.count - 1) * abs(strides[0]) + side.length * side.itemsize
    memory = cupy.cuda.UnownedMemory(at + low, size, None)
    view = cupy.ndarray((side.count, side.length), kind, strides=strides,
                        memptr=cupy.cuda.MemoryPointer(memory, -low))
    return view.copy(order="C")
