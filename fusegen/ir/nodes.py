"""The nodes of a pipeline's graph: frozen, each with the line of the user's file that made it."""

from __future__ import annotations

from typing import assert_never

from fusegen.ir import walk
from fusegen.ir.dtypes import DType
from fusegen.ir.loc import Loc
from fusegen.ir.operator import Operator
from fusegen.ir.sorts import Axis, Fold
from fusegen.ir.varying import Formula

OF_ROWS = (Axis.PER_ROW, Axis.ROW_VECTOR, Axis.SCALAR)
"""Inputs with one value, or vector, in a row."""


class _Base(walk.Known):
    __slots__ = ()
    loc: Loc

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self.loc.short}>"


@walk.node_class
class Input(_Base):
    name: str
    axis: Axis
    loc: Loc
    formula: Formula = ""  # of a scalar: what it is, and
    magnitude: int = 0  # what is known of it: see varying.magnitude_of

    @property
    def per_row(self) -> bool:
        """Has it one value in a row?"""
        return self.axis in OF_ROWS


@walk.node_class
class Literal(_Base):
    value: float | int | bool  # of exactly these types: `literals.plain` makes them
    loc: Loc


@walk.node_class
class Length(_Base):
    """Number of columns of the row."""

    loc: Loc


@walk.node_class
class Index(_Base):
    """Column number of the element, from 0, in a row that has `sections` equal parts, of at least
    `least` columns each."""

    loc: Loc
    sections: int = 1
    least: int = 1


@walk.node_class
class RowNumber(_Base):
    """Number of the row, from 0, among those of its last axis."""

    loc: Loc


@walk.node_class
class Map(_Base):
    """An elementwise operation of `ops.OPS`."""

    op: str
    args: tuple[Node, ...]
    loc: Loc


@walk.node_class
class Cast(_Base):
    dtype: DType
    arg: Node
    loc: Loc


@walk.node_class
class Reduce(_Base):
    """A base reduction over the row of an element, or over the K entries of a list."""

    fold: Fold
    arg: Node
    loc: Loc


@walk.node_class
class Inner(_Base):
    """The sum over a vector's index: Σ_i arg[i]."""

    arg: Node
    loc: Loc


@walk.node_class
class TopK(_Base):
    """Values and column numbers of the K greatest (or least), best first; see `Part`."""

    arg: Node
    k: int
    loc: Loc
    largest: bool = True


@walk.node_class
class Part(_Base):
    """One of a TopK's two lists."""

    top: TopK
    field: str  # "values" | "indices"
    loc: Loc


@walk.node_class
class Take(_Base):
    """The element `arg` at column `index` (a row value or a list of them)."""

    arg: Node
    index: Node
    loc: Loc


@walk.node_class
class Own(_Base):
    """The user's own monoid folded over a row; `args` are the lifted elements, by field."""

    operator: Operator
    args: tuple[Node, ...]
    loc: Loc


@walk.node_class
class Field(_Base):
    """One number of the state that an Own leaves."""

    own: Own
    name: str
    loc: Loc


Node = (
    Input | Literal | Length | Index | RowNumber | Map | Cast | Reduce | Inner | TopK | Part | Take
    | Own | Field
)
Reduction = Reduce | TopK | Own


def operands(node: Node) -> tuple[Node, ...]:
    match node:
        case Input() | Literal() | Length() | Index() | RowNumber():
            return ()
        case Map(args=args) | Own(args=args):
            return args
        case Field(own=own):
            return (own,)
        case Cast(arg=arg) | Reduce(arg=arg) | Inner(arg=arg) | TopK(arg=arg):
            return (arg,)
        case Part(top=top):
            return (top,)
        case Take(arg=arg, index=index):
            return (arg, index)
        case _:
            assert_never(node)
