"""What templates/cuda/tiles/mma*.j2 print of a sweep: where vectors lie, and their products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.emit.places import array_name
from fusegen.backend.cuda.emit.tiles.views import FoldView, SumView
from fusegen.backend.cuda.schedule.tiles import mma
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule, parts_of
from fusegen.backend.emit.vector_sums import VectorSum
from fusegen.ir.dtypes import dtype_of
from fusegen.ir.expr import Lit
from fusegen.ir.kernel import FromVectors, Kernel, Param, Sweep


@dataclass(frozen=True)
class CopyView:
    """Vectors that come to shared memory: C++ of what, how many, and when, of a chunk."""

    name: str
    at: int
    count: int
    depth: int
    start: str
    stride: str
    there: str
    numbers: str
    when: str
    sixteens: str


@dataclass(frozen=True)
class ProductView:
    """Elements that are dots of vectors."""

    name: str
    note: str
    steps: int  # products of a stage's numbers
    when: str
    rows: str  # C++: how a step's rows are had
    held: tuple[str, ...]  # C++: start, stride, how many, numbers of rows that stay in registers
    columns: str
    depth: int
    row: str  # C++ of the arrays: where vectors begin, and how far they are apart
    row_stride: str
    column: str
    column_stride: str
    length: int


@dataclass(frozen=True)
class AddView:
    """A sum of vectors: the weights' product with vectors."""

    name: str
    weight: str
    table: str
    held: int
    depth: int
    careful: bool  # may what a weight leaves out, or a rounded one, make numbers that are none?
    start: str  # C++: the array's first numbers that this block has
    stride: str
    length: str


@dataclass(frozen=True)
class MmaView:
    """One sweep."""

    plan: mma.Plan
    type: str
    operand: str
    read: str  # C++: the value of a number `stored`
    arrays: tuple[tuple[str, str, str], ...]  # name, pointer, stride: are copies of 16 bytes right?
    resident: tuple[CopyView, ...]
    staged: tuple[CopyView, ...]
    products: tuple[ProductView, ...]
    sums: tuple[AddView, ...]
    spanned: bool
    refers: bool  # are sums kept about a reference?

    @property
    def careful(self) -> bool:
        """May rows have to be made once more?"""
        return self.refers or any(s.careful for s in self.sums)


class MmaPrinter:
    """Prints one sweep of a kernel that mma.sync serves."""

    def __init__(
        self, kernel: Kernel, sweep: Sweep, schedule: TileSchedule, dialect: CudaDialect
    ) -> None:
        self.kernel, self.sweep, self.schedule = kernel, sweep, schedule
        self.dialect = dialect
        self.plan = mma.plan_of(kernel, sweep, schedule.words)

    def view(self, fold: FoldView, sums: Sequence[VectorSum]) -> MmaView:
        operand = mma.operand_of(self.kernel)
        assert operand
        tables = (*self.plan.resident, *self.plan.staged)
        arrays = dict.fromkeys(t.array for t in tables)
        return MmaView(
            plan=self.plan, type=C_TYPES[operand], operand=operand,
            read=self.dialect.load("stored", dtype_of(operand)),
            arrays=tuple(self._array(self.kernel.param(n)) for n in arrays),
            resident=tuple(map(self._copy, self.plan.resident)),
            staged=tuple(map(self._copy, self.plan.staged)),
            products=tuple(map(self._product, mma.sources_of(self.sweep))),
            sums=tuple(self._add(view, one, operand)
                       for view, one in zip(fold.sums, sums, strict=True)),
            spanned=self.sweep.span != (None, None), refers=fold.reference is not None,
        )

    def _array(self, param: Param) -> tuple[str, str, str]:
        return param.name, f"given.{array_name(param)}", f"given.{param.name}_stride"

    def _copy(self, table: mma.WordTable) -> CopyView:
        param = self.kernel.param(table.array)
        array, stride = f"given.{array_name(param)}", f"given.{param.name}_stride"
        when, numbers = "", str(table.length)
        chunked = not self.plan.at_once and table not in self.plan.resident
        if table.role == "rows":
            start, there = f"{array} + block.row * {stride}", "block.row_end - block.row"
        else:
            start, there = f"{array} + begin * {stride}", "given.n_cols - begin"
        if table.role == "summed":
            if parts_of(self.kernel, self.schedule) > 1:
                start += f" + block.part * {self.schedule.most_numbers}"
                numbers += f" - block.part * {self.schedule.most_numbers}"
            when = f"number + {self.plan.depth} >= {self.plan.length}" if chunked else ""
        elif chunked:
            start, numbers = f"{start} + number", f"{numbers} - number"
            when = f"number < {table.length}" if table.length < self.plan.length else ""
        return CopyView(table.name, table.at, table.count, table.depth, start, stride, there,
                        numbers, when, f"{param.name}_in_sixteens")

    def _product(self, source: FromVectors) -> ProductView:
        (row,), (column,) = source.rows, source.columns
        length = self.kernel.param(row).k
        of_columns = self._table(f"{source.name}_{column}")
        start, stride = f"given.{row}_in + block.row * given.{row}_stride", f"given.{row}_stride"
        held: tuple[str, ...] = ()
        rows = f"{source.name}_held"
        if self.plan.held:
            held = (start, stride, "block.row_end - block.row", str(length))
        else:
            table = self._table(f"{source.name}_{row}")
            place = f"resident + {table.at}" if table in self.plan.resident else f"at + {table.at}"
            if table in self.plan.resident and not self.plan.at_once:
                place += " + number"
            rows = f"TableRows<{table.depth}>({place} + warp_row * {table.depth + mma.PAD})"
        when = f"number < {length}" if length < self.plan.length and not self.plan.at_once else ""
        return ProductView(source.name, source.note, of_columns.depth // mma.STEP, when, rows, held,
                           f"at + {of_columns.at}", of_columns.depth, f"given.{row}_in", stride,
                           f"given.{column}_in", f"given.{column}_stride", length)

    def _table(self, name: str) -> mma.WordTable:
        return next(t for t in (*self.plan.resident, *self.plan.staged) if t.name == name)

    def _add(self, view: SumView, one: VectorSum, operand: str) -> AddView:
        (weight,) = one.weights
        table = self._table(f"{one.array}_summed")
        bounded = weight.value == Lit(1.0) or (view.moves and not view.zero_wins)
        param, start, length = self.kernel.param(one.array), "", str(one.length)
        if parts_of(self.kernel, self.schedule) > 1:
            before = f"part * {self.schedule.most_numbers}"
            start, length = f" + {before}", f"{length} - {before}"
        return AddView(one.name, weight.name, f"at + {table.at}", view.held, table.depth,
                       careful=self.sweep.masks or (operand == "float16" and not bounded),
                       start=f"given.{array_name(param)}{start}",
                       stride=f"given.{param.name}_stride", length=length)
