"""Kernel IR: exactly what a template may see, for every backend.

A kernel visits rows; for each row it makes one or more sweeps over the columns. A sweep folds a
`Monoid`, then its steps compute row values, then it stores. Later sweeps may use every row value of
earlier ones. Expressions name things; nothing below this layer decides anything about meaning.

Names an expression can use:
  element scope   the sweep's sources and lets, `column` (int), and row scope
  row scope       `state.<component>` right after the sweep, row params, lets of the prelude and of
                  steps so far, `n_cols`
  list scope      `<list>_value`, `<list>_column` of the entry, `entry` (its number, the best is 0),
                  lets of the scope, and row scope

Programs of one role alone (`compile/roles.py`) take or leave states, whose bytes are laid out by
`state_layout`: their fields are row values and lists whose rows are a state apart (`Param.pitch`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fusegen.ir.dtypes import DType
from fusegen.ir.expr import Expr
from fusegen.ir.forms import Role
from fusegen.ir.loc import Loc
from fusegen.ir.monoid import Monoid
from fusegen.ir.sources import COLUMN as COLUMN
from fusegen.ir.sources import ENTRY as ENTRY
from fusegen.ir.sources import FIRST_COLUMN as FIRST_COLUMN
from fusegen.ir.sources import N_COLS as N_COLS
from fusegen.ir.sources import ROW as ROW
from fusegen.ir.sources import FromMemory as FromMemory
from fusegen.ir.sources import FromVectors as FromVectors
from fusegen.ir.sources import Layout as Layout
from fusegen.ir.sources import Source as Source
from fusegen.ir.sources import is_dot

Shape = Literal["element", "per_column", "columns", "row", "list", "states", "scalar", "row_vector",
                "column_vector"]


@dataclass(frozen=True, slots=True)
class Param:
    """An array the kernel reads or writes; `row` and `list` arrays are contiguous, but for those
    that are fields of states.

    Shapes: element (n_rows, n_cols) with a row stride, per_column (n_cols,), row (n_rows,),
    list (n_rows, k); states (n_cols, n_rows, k), k bytes each, as a merge reads them. A scalar is
    no array but a number of the call, in 8 bytes that begin with it, where others have an address.
    Vectors of k numbers: row_vector (n_rows, k), column_vector (batches, n_cols, k), a batch for
    n_rows / batches neighbouring rows; beside them one number per column is columns (batches,
    n_cols).
    """

    name: str
    dtype: DType
    shape: Shape
    output: bool = False
    k: int = 1
    pitch: int = 0  # elements from one row's to the next, where that is not as many as a row has
    field: str = ""  # of a state, that it holds; of a scalar, what it says of the row
    magnitude: int = 0  # of a scalar, which merges are proved for: see varying.magnitude_of

    @property
    def step(self) -> int:
        """Elements of a `row`, `list` or `row_vector` array from one row's to the next."""
        return self.pitch or (self.k if self.shape in ("list", "row_vector") else 1)


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
    steps: tuple[Let | Gather | InnerStep, ...] = ()


@dataclass(frozen=True, slots=True)
class ListFold:
    """A row value: `fold` of an expression over the K entries."""

    name: str
    fold: Literal["max", "min", "sum", "prod"]
    entries: Entries
    value: Expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class InnerStep:
    """A row value: `name = Σ_i value`, over numbers i of the row's vectors, and of those of one
    column each, `at` array and column number: NaN where there is no such column."""

    name: str
    value: Expr
    rows: tuple[str, ...]
    at: tuple[tuple[str, Expr], ...] = ()
    note: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Arrays that it takes one column's vector of."""
        return tuple(name for name, _ in self.at)

    @property
    def is_dot(self) -> bool:
        """Is it the product of one vector of the row with one column's?"""
        return is_dot(self.value, self.rows, self.columns)


Step = Let | Gather | ListFold | InnerStep


@dataclass(frozen=True, slots=True)
class ElementStore:
    """`param[row, column] = value`, in this very sweep."""

    param: str
    value: Expr
    note: str = ""


@dataclass(frozen=True, slots=True)
class RowStore:
    """Of a vector, number by number; `takes`: vectors of one column that its value is over."""

    param: str
    value: Expr
    note: str = ""
    takes: tuple[Gather, ...] = ()


@dataclass(frozen=True, slots=True)
class ListStore:
    param: str
    entries: Entries
    value: Expr
    note: str = ""


Store = ElementStore | RowStore | ListStore


Span = tuple[Expr | None, Expr | None]
"""Columns from one row value to before another; None: from the first, to the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One traversal of the row."""

    number: int  # counted from 1 over the whole program
    loads: tuple[Source, ...]
    lets: tuple[Let, ...]
    monoid: Monoid
    notes: tuple[tuple[str, str], ...] = ()  # component of the state → the user's line
    steps: tuple[Step, ...] = ()
    element_stores: tuple[ElementStore, ...] = ()
    row_stores: tuple[RowStore, ...] = ()
    list_stores: tuple[ListStore, ...] = ()
    vectors: tuple[str, ...] = ()  # arrays of vectors that its components are made of
    only: Expr | None = None  # over columns and row values: other elements contribute nothing
    span: Span = (None, None)  # and so do those before the first and from the second column on
    counted: Expr | None = None  # over what is loaded, too: vectors of others are not looked at

    @property
    def reads(self) -> tuple[str, ...]:
        """Every array that items come from, and vectors, each once."""
        items = (name for source in self.loads for name in source.reads)
        return tuple(dict.fromkeys((*items, *self.vectors)))

    @property
    def masks(self) -> bool:
        """Are there elements whose vectors are not looked at?"""
        asked = (*self.span, self.only, self.counted)
        return any(e is not None for e in asked)

    @property
    def streams(self) -> tuple[str, ...]:
        """Arrays whose rows go by as they lie in memory."""
        return tuple(s.param for s in self.loads if isinstance(s, FromMemory))

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
    def has_vectors(self) -> bool:
        """Are its elements made of vectors, or does it sum up some?"""
        return any(p.shape in ("row_vector", "column_vector") for p in self.params)

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
    proof: tuple[tuple[str, str], ...]  # for the banner: what, and whether it was proved or refused
    role: Role = "call"

    @property
    def sweeps(self) -> tuple[Sweep, ...]:
        return tuple(s for k in self.kernels for s in k.sweeps)

    @property
    def has_vectors(self) -> bool:
        """Has one of its kernels?"""
        return any(kernel.has_vectors for kernel in self.kernels)

    @property
    def reads_per_element(self) -> int:
        """Element arrays read, summed over sweeps: the paper's memory accesses, loads."""
        return sum(
            k.param(name).shape == "element" for k in self.kernels for s in k.sweeps
            for name in s.reads
        )

    @property
    def writes_per_element(self) -> int:
        """Element arrays written, summed over sweeps."""
        return sum(len(s.element_stores) for s in self.sweeps)
