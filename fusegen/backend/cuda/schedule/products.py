"""Elements of long vectors that are stored all the same: cuBLAS makes them, some rows at a time,
and a program over stored rows follows.

A dot of 4096 numbers is worth keeping: where no engine folds it as fast as a product is made,
writing it and reading it again is the smaller price. The program is the same, but for where its
elements come from: the dot of a row and one column, `fg.dot(h, fg.take(w, label))`, is one of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fusegen.backend.choices import PlainSchedule
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule
from fusegen.backend.problem import Problem
from fusegen.backend.target import CudaTarget
from fusegen.ir.dtypes import FLOAT32
from fusegen.ir.expr import Call, Var, call
from fusegen.ir.forms import Grouping
from fusegen.ir.kernel import (
    ElementStore,
    Entries,
    FromMemory,
    FromVectors,
    Gather,
    InnerStep,
    Kernel,
    Let,
    ListFold,
    Param,
    Program,
    Step,
    Sweep,
)
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import Monoid

PIECE_BYTES = 1 << 29  # of elements that are stored at a time
LEAST_LENGTH = 257  # of vectors; shorter ones have engines of their own
_TYPES = ("float16", "bfloat16", "float32")
_ROWS = 128  # that products take at a time: pieces are multiples


@dataclass(frozen=True, slots=True)
class Product:
    """Elements (n_rows, n_cols): the dots of a row's vector with all columns'."""

    row: Param
    column: Param
    scores: Param


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductSchedule(PlainSchedule):
    """How a program runs whose elements are stored, `piece_rows` rows at a time."""

    target: CudaTarget
    rows: CudaSchedule  # of the stored rows
    tile: TileSchedule | None = None  # of the kernel that makes the elements; None: cuBLAS does
    piece_rows: int
    factor: str = ""  # a number of the call that the product has already, where cuBLAS makes it
    reason: str

    @property
    def grouping(self) -> Grouping:
        """See `Schedule`."""
        return self.rows.grouping

    @property
    def algorithm(self) -> str:
        """See `Schedule`."""
        return self.rows.algorithm

    @property
    def stored(self) -> str:
        """See `Schedule`."""
        by = "by cuBLAS" if self.tile is None else f"in {self.tile.shape}"
        return f"{by}, and stored, {self.piece_rows} rows at a time: {self.reason}"

    def describe(self) -> str:
        """See `Schedule`."""
        return f"elements made {self.stored}; of these {self.rows.describe()}"


def pitch_of(n_cols: int) -> int:
    """Numbers from one stored row to the next: every row begins on a boundary."""
    return -(-n_cols // 4) * 4


def piece_rows(n_rows: int, n_cols: int) -> int:
    """Rows whose elements are stored at a time."""
    fit = PIECE_BYTES // (4 * pitch_of(n_cols))
    return max(1, min(n_rows, fit // _ROWS * _ROWS or fit))


def problem_of(problem: Problem, program: Program) -> Problem:
    """What is asked of the program over stored rows."""
    rows = piece_rows(problem.n_rows or 1, problem.n_cols or 1)
    alone = all(p.shape != "element" for p in (*program.inputs, *program.outputs))
    return replace(problem, n_rows=rows, batch_rows=None,
                   aligned=alone, in_phase=alone)


# ---- the program that stores rows ----


def storing(program: Program) -> Program:
    """What makes the elements."""
    made = product_of(program)
    assert made
    row, column = made.row, made.column
    to = replace(made.scores, name=f"{made.scores.name}_stored", output=True)
    dot = call("mul", Var(row.name, "float", varying=True), Var(column.name, "float", varying=True))
    source = FromVectors(made.scores.name, dot, (row.name,), (column.name,), "")
    store = ElementStore(to.name, Var(source.name, "float", varying=True))
    sweep = Sweep(number=1, loads=(source,), lets=(), monoid=Monoid(), element_stores=(store,))
    kernel = Kernel(name=f"{program.name}_elements", compute=FLOAT32, params=(row, column, to),
                    prelude=(), sweeps=(sweep,))
    return replace(program, kernels=(kernel,), inputs=(row, column), outputs=(to,), workspace=(),
                   proof=())


# ---- the program over stored rows ----


def product_of(program: Program) -> Product | None:
    """None: the program's elements are no dots of one long vector per row and column, or it asks
    more of vectors than these."""
    found = {s.name: (k, s) for k in program.kernels for w in k.sweeps for s in w.loads
             if isinstance(s, FromVectors)}
    if len(found) != 1 or any(map(_beyond, program.sweeps)):
        return None
    ((kernel, source),) = found.values()
    if not source.is_dot or kernel.compute != FLOAT32:
        return None
    row, column = kernel.param(source.rows[0]), kernel.param(source.columns[0])
    if row.dtype.number.name not in _TYPES or row.dtype.number != column.dtype.number:
        return None
    made = Product(row, column, Param(source.name, FLOAT32, "element"))
    over = _stored(program, made)
    left = {p.name for p in over.inputs if p.shape in ("row_vector", "column_vector")}
    outputs = {p.shape for p in program.outputs} | {p.shape for p in program.workspace}
    if row.k < LEAST_LENGTH or left or outputs & {"row_vector", "column_vector"}:
        return None
    return made


def _beyond(sweep: Sweep) -> bool:
    """Does it do what a program over stored rows does not?"""
    takes = any(s.takes for s in sweep.row_stores)
    return bool(sweep.vectors or takes or sweep.only is not None or sweep.span != (None, None))


def with_stored(program: Program, factor: str = "") -> Program:
    """The program over stored elements, which have been multiplied by `factor`."""
    made = product_of(program)
    assert made
    return _stored(program, made, factor)


def factor_of(program: Program) -> str:
    """A number of the call, never 0, by which every element is multiplied before anything else is
    made of it; "": there is none. A product multiplies as it stores, with the same rounding."""
    made = product_of(program)
    assert made
    name = made.scores.name
    if any(isinstance(s, InnerStep) for k in program.kernels
           for s in (*k.prelude, *(t for w in k.sweeps for t in w.steps))):
        return ""  # a dot with one column is an element as it is
    scalars = {p.name for p in program.inputs if p.shape == "scalar" and p.magnitude}
    found: set[str] = set()
    for sweep in program.sweeps:
        scaled = {n: let for let in sweep.lets if (n := _factor_in(let, name))}
        found |= scaled.keys()
        lets = tuple(let for let in sweep.lets if let not in scaled.values())
        if name in names_in(replace(sweep, loads=(), lets=lets)):
            return ""
    return found.pop() if len(found) == 1 and found <= scalars else ""


def _factor_in(let: Let, element: str) -> str:
    match let.expr:
        case Call(op="rounded_mul", args=(Var(name=name), Var(name=factor))) if name == element:
            return factor
    return ""


def _stored(program: Program, made: Product, factor: str = "") -> Program:
    kernels = tuple(_kernel(k, made, factor) for k in program.kernels)
    used = {p.name for k in kernels for p in k.params}
    inputs = [_over_one_batch(p) for p in program.inputs if p.name in used]
    return replace(program, kernels=kernels, inputs=(*inputs, made.scores))


def _kernel(kernel: Kernel, made: Product, factor: str) -> Kernel:
    prelude = tuple(_step(s, made) for s in kernel.prelude)
    sweeps = tuple(_sweep(w, made, factor) for w in kernel.sweeps)
    met = {made.row.name, made.column.name, factor} - names_in((prelude, sweeps)) - {
        n for w in sweeps for n in w.reads}
    params = [_over_one_batch(p) for p in kernel.params if p.name not in met]
    return replace(kernel, params=(*params, made.scores), prelude=prelude, sweeps=sweeps)


def _over_one_batch(param: Param) -> Param:
    """Numbers of columns, where all rows share them."""
    return replace(param, shape="per_column") if param.shape == "columns" else param


def _sweep(sweep: Sweep, made: Product, factor: str) -> Sweep:
    loads = tuple(FromMemory(made.scores.name) if isinstance(s, FromVectors) else s
                  for s in sweep.loads)
    stores = tuple(replace(s, entries=_entries(s.entries, made)) for s in sweep.list_stores)
    steps = tuple(_step(s, made) for s in sweep.steps)
    lets = tuple(replace(let, expr=Var(made.scores.name, "float", varying=True))
                 if factor and _factor_in(let, made.scores.name) else let for let in sweep.lets)
    return replace(sweep, loads=loads, lets=lets, steps=steps, list_stores=stores)


def _entries(entries: Entries, made: Product) -> Entries:
    found: Any = tuple(_step(s, made) for s in entries.steps)
    return replace(entries, steps=found)


def _step(step: Step, made: Product) -> Step:
    """The dot with one column's vector is an element."""
    match step:
        case InnerStep(rows=(row,), at=((column, index),)) if step.is_dot and \
                (row, column) == (made.row.name, made.column.name):
            scores = made.scores.name
            return Gather(step.name, index, (scores,), (), Var(scores, "float", varying=True),
                          step.note)
        case ListFold():
            return replace(step, entries=_entries(step.entries, made))
        case Let() | Gather() | InnerStep():
            return step
