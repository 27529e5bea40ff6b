"""The graph of a pipeline: frozen nodes, each with the line of the user's file that made it.

Nodes are shared: the tracer builds every distinct operation once, so identity is equality.
An element node has one value per position, a row node one per row, a list node K per row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, assert_never
from weakref import WeakKeyDictionary

from fusegen.dtypes import DType
from fusegen.errors import InternalError
from fusegen.loc import Loc
from fusegen.own_operator import Operator


class Extent(Enum):
    """How many values a node has."""

    ROW = "row value"
    ELEMENT = "element"
    LIST = "list"


class Axis(Enum):
    """Which axes an input array has."""

    ELEMENT = "element"
    PER_COLUMN = "per column"
    PER_ROW = "per row"


class Fold(Enum):
    """The base monoids: reductions that need nothing but their element."""

    MAX = "max"
    MIN = "min"
    SUM = "sum"
    PROD = "prod"
    MEAN = "mean"
    ARGMAX = "argmax"
    ARGMIN = "argmin"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Input:
    name: str
    axis: Axis
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Literal:
    value: float | int | bool
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Length:
    """Number of columns of the row."""

    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Index:
    """Column number of the element, from 0, in a row that has `sections` equal parts."""

    loc: Loc
    sections: int = 1


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Map:
    """An elementwise operation of `ops.OPS`."""

    op: str
    args: tuple[Node, ...]
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Cast:
    dtype: DType
    arg: Node
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Reduce:
    """A base reduction over the row of an element, or over the K entries of a list."""

    fold: Fold
    arg: Node
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class TopK:
    """Values and column numbers of the K greatest (or least), best first; see `Part`."""

    arg: Node
    k: int
    loc: Loc
    largest: bool = True


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Part:
    """One of a TopK's two lists."""

    top: TopK
    field: str  # "values" | "indices"
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Take:
    """The element `arg` at column `index` (a row value or a list of them)."""

    arg: Node
    index: Node
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Own:
    """The user's own monoid folded over a row; `args` are the lifted elements, by field."""

    operator: Operator
    args: tuple[Node, ...]
    loc: Loc


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Field:
    """One number of the state that an Own leaves."""

    own: Own
    name: str
    loc: Loc


Node = Input | Literal | Length | Index | Map | Cast | Reduce | TopK | Part | Take | Own | Field
Reduction = Reduce | TopK | Own

Structure = int | tuple["Structure", ...] | dict[str, "Structure"]
"""How outputs are nested: leaves are positions in `Graph.outputs`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A traced pipeline. `nodes` is in topological order; every node has a unique name."""

    name: str
    loc: Loc
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Node, ...]
    output_names: tuple[str, ...]
    structure: Structure
    names: Mapping[Node, str]
    named: frozenset[Node]  # those that the user gave a name, or that a called pipeline returned
    constants: tuple[tuple[str, Any], ...]
    allow_cancellation: bool = False  # the user accepts read-outs in which digits may cancel

    def __getitem__(self, name: str) -> Node:
        for node, known in self.names.items():
            if known == name:
                return node
        raise KeyError(name)

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """Every reduction over a row, in topological order."""
        return tuple(n for n in self.nodes if isinstance(n, Reduction) and is_reduction(n))


def operands(node: Node) -> tuple[Node, ...]:
    match node:
        case Input() | Literal() | Length() | Index():
            return ()
        case Map(args=args) | Own(args=args):
            return args
        case Field(own=own):
            return (own,)
        case Cast(arg=arg) | Reduce(arg=arg) | TopK(arg=arg):
            return (arg,)
        case Part(top=top):
            return (top,)
        case Take(arg=arg, index=index):
            return (arg, index)
        case _:
            assert_never(node)


_EXTENTS: WeakKeyDictionary[Node, Extent] = WeakKeyDictionary()


def extent(node: Node) -> Extent:
    """How many values the node has. Remembered: shared nodes are reached by many ways."""
    known = _EXTENTS.get(node)
    if known is None:
        known = _EXTENTS[node] = _extent(node)
    return known


def _extent(node: Node) -> Extent:
    match node:
        case Input(axis=axis):
            return Extent.ROW if axis is Axis.PER_ROW else Extent.ELEMENT
        case Index():
            return Extent.ELEMENT
        case Literal() | Length() | Reduce() | Own() | Field():
            return Extent.ROW
        case TopK() | Part():
            return Extent.LIST
        case Take(index=index):
            return extent(index)
        case Cast(arg=arg):
            return extent(arg)
        case Map(args=args):
            found = {extent(a) for a in args}
            if {Extent.ELEMENT, Extent.LIST} <= found:
                raise InternalError("element and list in one operation")
            return next((e for e in (Extent.ELEMENT, Extent.LIST) if e in found), Extent.ROW)
        case _:
            assert_never(node)


def lists_of(node: Node) -> frozenset[TopK]:
    """The top-K results whose entries this list node belongs to (none for other extents)."""
    found: set[TopK] = set()
    todo, seen = [node], {node}
    while todo:
        match todo.pop():
            case Part(top=top) | (TopK() as top):
                found.add(top)
                inner: tuple[Node, ...] = ()
            case Take(index=index):
                inner = (index,)
            case Map(args=args):
                inner = args
            case Cast(arg=arg):
                inner = (arg,)
            case _:
                inner = ()
        todo += [n for n in inner if n not in seen]
        seen.update(inner)
    return frozenset(found)


def is_reduction(node: Node) -> bool:
    """Does this node fold a whole row? (Folds of a K-entry list do not.)"""
    if isinstance(node, Own):
        return True
    return isinstance(node, Reduce | TopK) and extent(node.arg) is Extent.ELEMENT


def is_column(node: Node) -> bool:
    """Is the value certainly the number of a column that the row has?"""
    match node:
        case Reduce(fold=Fold.ARGMAX | Fold.ARGMIN):
            return is_reduction(node)
        case Part(field=field):
            return field == "indices"
        case Cast(dtype=dtype, arg=arg):
            return dtype.kind == "int" and is_column(arg)  # calls check that columns fit the type
        case _:
            return False


def reductions_of(node: Node) -> tuple[Reduction, ...]:
    """Row reductions that `node` needs or is, without looking inside them; operands first."""
    found: dict[Reduction, None] = {}
    seen: set[Node] = set()

    def visit(n: Node) -> None:
        if n in seen:
            return
        seen.add(n)
        if isinstance(n, Reduction) and is_reduction(n):
            found[n] = None
            return
        for a in operands(n):
            visit(a)

    visit(node)
    return tuple(found)


def topological(outputs: tuple[Node, ...]) -> tuple[Node, ...]:
    """Every node the outputs need, operands first, in a stable order."""
    order: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(n, False) for n in reversed(outputs)]
    while stack:
        node, done = stack.pop()
        if node in order:
            continue
        if done:
            order[node] = None
            continue
        stack.append((node, True))
        stack.extend((a, False) for a in reversed(operands(node)) if a not in order)
    return tuple(order)
