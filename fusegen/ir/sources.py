"""Where a sweep's items come from, and the names that every expression of a kernel may use."""

from __future__ import annotations

from dataclasses import dataclass

from fusegen.ir.expr import Call, Expr, Var

COLUMN = Var("column", "int", varying=True)
N_COLS = Var("n_cols", "int")
ROW = Var("row", "int")
ENTRY = Var("entry", "int", varying=True)
FIRST_COLUMN = Var("first_column", "int")
"""Number, in the whole row, of a piece's first column; of a call's it is 0."""


@dataclass(frozen=True, slots=True)
class FromMemory:
    """Items are the elements of an array's row, each at its own column."""

    param: str

    @property
    def name(self) -> str:
        """What expressions over elements call an item."""
        return self.param

    @property
    def reads(self) -> tuple[str, ...]:
        """Arrays that it takes the items from."""
        return (self.param,)


@dataclass(frozen=True, slots=True)
class FromVectors:
    """Items are sums over the index of the row's and the columns' vectors, made where they are
    folded: item = Σ_i value, over numbers i of the vectors, each under its array's name, and row
    scope."""

    name: str
    value: Expr
    rows: tuple[str, ...]  # arrays of a vector per row
    columns: tuple[str, ...]  # and per column
    note: str = ""
    parts: str = ""  # as what each float32 vector lies in its array for products, if not as it is

    @property
    def reads(self) -> tuple[str, ...]:
        """Arrays that it takes the items from."""
        return (*self.rows, *self.columns)

    @property
    def is_dot(self) -> bool:
        """Is an item the product of one vector of the row with one of the column?"""
        return is_dot(self.value, self.rows, self.columns)


def is_dot(value: Expr, rows: tuple[str, ...], columns: tuple[str, ...]) -> bool:
    """Is the sum over the index of vectors of a row and of a column the dot of one of each?"""
    match value:
        case Call(op="mul", args=(Var(name=a), Var(name=b))):
            return len(rows) == len(columns) == 1 and {a, b} == {*rows, *columns}
        case _:
            return False


Source = FromMemory | FromVectors
"""Where a sweep's items come from: something with a `name` and with the arrays that it `reads`.
Each backend knows how to print one in `emit/sources.py`, and asks no other module about it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Which element of an array the item at `column` of a row is: its row and column there, over
    `column`, `row`, `n_cols` and the row's values."""

    row: Expr = ROW
    column: Expr = COLUMN

    @property
    def is_plain(self) -> bool:
        """Is every item the element at its own place, so that neighbours stay neighbours?"""
        return self.row == ROW and self.column == COLUMN
