"""Kernel IR: exactly what a template may see, for every backend.

A kernel visits rows; for each row it makes one or more sweeps over the columns. A sweep folds a
`Monoid`, then its steps compute row values, then it stores. Later sweeps may use every row value of
earlier ones. Expressions name things; nothing below this layer decides anything about meaning.

Names an expression can use:
  element scope   the sweep's loads and lets, `column` (int), and row scope
  row scope       `state.<component>` right after the sweep, row params, lets of the prelude and of
                  steps so far, `n_cols`
  list scope      `<list>_value`, `<list>_column` of the entry, lets of the scope, and row scope
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.dtypes import DType
from fusegen.errors import InternalError
from fusegen.expr import Expr, Var
from fusegen.loc import Loc
from fusegen.monoid import Monoid

COLUMN = Var("column", "int", varying=True)
N_COLS = Var("n_cols", "int")

Shape = Literal["element", "per_column", "row", "list"]


@dataclass(frozen=True, slots=True)
class Param:
    """An array the kernel reads or writes; `row` and `list` arrays are contiguous.

    Shapes: element (n_rows, n_cols) with a row stride, per_column (n_cols,), row (n_rows,),
    list (n_rows, k).
    """

    name: str
    dtype: DType
    shape: Shape
    output: bool = False
    k: int = 1


@dataclass(frozen=True, slots=True)
class Let:
    """`name = expr`; `note` is the user's line, shown at the end of the emitted one."""

    name: str
    expr: Expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class Gather:
    """`name = value at column index`, NaN out of range. `loads` are element params read there
    under their own names; `lets` are element values computed from them."""

    name: str
    index: Expr
    loads: tuple[str, ...]
    lets: tuple[Let, ...]
    value: Expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class Entries:
    """The scope of one list entry: what is computed for each of the K entries of list `top`."""

    top: str
    k: int
    steps: tuple[Let | Gather, ...] = ()


@dataclass(frozen=True, slots=True)
class ListFold:
    """A row value: `fold` of an expression over the K entries."""

    name: str
    fold: Literal["max", "min", "sum", "prod"]
    entries: Entries
    value: Expr
    note: str = ""


Step = Let | Gather | ListFold


@dataclass(frozen=True, slots=True)
class ElementStore:
    """`param[row, column] = value`, in this very sweep."""

    param: str
    value: Expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class RowStore:
    param: str
    value: Expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class ListStore:
    param: str
    entries: Entries
    value: Expr
    note: str = ""


Store = ElementStore | RowStore | ListStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One traversal of the row."""

    number: int  # counted from 1 over the whole program
    algorithm: str  # what the field calls it, for the banner
    loads: tuple[str, ...]
    lets: tuple[Let, ...]
    monoid: Monoid
    notes: tuple[tuple[str, str], ...] = ()  # component of the state → the user's line
    steps: tuple[Step, ...] = ()
    element_stores: tuple[ElementStore, ...] = ()
    row_stores: tuple[RowStore, ...] = ()
    list_stores: tuple[ListStore, ...] = ()

    @property
    def stores(self) -> tuple[Store, ...]:
        """Everything this sweep writes."""
        return (*self.element_stores, *self.row_stores, *self.list_stores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One launch: its sweeps share the row's values."""

    name: str
    compute: DType  # what "float" means: float32 or float64
    params: tuple[Param, ...]
    prelude: tuple[Step, ...]  # row values known before the first sweep
    sweeps: tuple[Sweep, ...]

    def param(self, name: str) -> Param:
        return next(p for p in self.params if p.name == name)

    @property
    def elements(self) -> tuple[Param, ...]:
        """Arrays with a row stride, in parameter order."""
        return tuple(p for p in self.params if p.shape == "element")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The launches of a pipeline in order, and the arrays that live between them."""

    name: str
    loc: Loc
    form: str
    kernels: tuple[Kernel, ...]
    inputs: tuple[Param, ...]
    outputs: tuple[Param, ...]
    workspace: tuple[Param, ...]
    proof: tuple[str, ...]  # lines for the banner: what was proved, what was refused

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        return tuple(s for k in self.kernels for s in k.sweeps)

    @property
    def reads_per_element(self) -> int:
        """Element arrays read, summed over sweeps: the paper's memory accesses, loads."""
        return sum(
            k.param(name).shape == "element" for k in self.kernels for s in k.sweeps
            for name in s.loads
        )  # fmt: skip

    @property
    def writes_per_element(self) -> int:
        """Element arrays written, summed over sweeps."""
        return sum(len(s.element_stores) for s in self.sweeps)


def verify_program(program: Program) -> None:
    """Sweeps are numbered in order, and touch only arrays that their kernel has."""
    if [s.number for s in program.sweeps] != list(range(1, len(program.sweeps) + 1)):
        raise InternalError(f"{program.name}: sweeps are not numbered in order")
    for kernel in program.kernels:
        _verify_kernel(kernel)


def _verify_kernel(kernel: Kernel) -> None:
    outputs = {p.name for p in kernel.params if p.output}
    inputs = {p.name for p in kernel.params} - outputs
    for sweep in kernel.sweeps:
        wrong = ({*sweep.loads} - inputs) | ({s.param for s in sweep.stores} - outputs)
        if wrong:
            raise InternalError(f"{kernel.name}, sweep {sweep.number}: unknown {sorted(wrong)}")
