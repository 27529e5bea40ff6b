"""The graph of a pipeline: frozen nodes, each with the line of the user's file that made it.

Nodes are shared: the tracer builds every distinct operation once, so identity is equality.
An element node has one value per position, a row node one per row, a list node K per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

from fusegen.ir import walk
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import InternalError
from fusegen.ir.loc import Loc
from fusegen.ir.operator import Operator
from fusegen.ir.shared import lazy
from fusegen.ir.sorts import Axis as Axis
from fusegen.ir.sorts import Extent as Extent
from fusegen.ir.sorts import Fold as Fold
from fusegen.ir.varying import Formula, Guard
from fusegen.ir.watches import Watches

_T = TypeVar("_T")


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
        return self.axis in (Axis.PER_ROW, Axis.SCALAR)


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
    """Column number of the element, from 0, in a row that has `sections` equal parts."""

    loc: Loc
    sections: int = 1


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


Node = Input | Literal | Length | Index | Map | Cast | Reduce | TopK | Part | Take | Own | Field
Reduction = Reduce | TopK | Own

Structure = int | tuple["Structure", ...] | list["Structure"] | dict[Any, "Structure"]
"""How the user's function nests its outputs; leaves are positions in `Graph.outputs`."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
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
    captured: Watches = field(default_factory=Watches)  # on globals, closures, attributes
    allow_cancellation: bool = False  # the user accepts read-outs in which digits may cancel
    like: tuple[str, ...] = ()  # the input whose type each output takes; empty: as types ask for
    varying: frozenset[str] = frozenset()  # constants that it is for many values of: those with
    guards: tuple[Guard, ...] = ()  # the same answers

    def __repr__(self) -> str:
        return f"<graph {self.name} of {len(self.nodes)} nodes>"

    def __getitem__(self, name: str) -> Node:
        return self.by_name[name]

    @lazy
    def by_name(self) -> Mapping[str, Node]:
        return {name: node for node, name in self.names.items()}

    @lazy
    def scalars(self) -> tuple[Input, ...]:
        """Numbers that come with a call: no arrays, and no part of `inputs`."""
        return tuple(n for n in self.nodes if isinstance(n, Input) and n.axis is Axis.SCALAR)

    @property
    def read(self) -> tuple[Input, ...]:
        """All that comes with a call."""
        return (*self.inputs, *self.scalars)

    @lazy
    def reductions(self) -> tuple[Reduction, ...]:
        """Every reduction over a row, in topological order."""
        return tuple(n for n in self.nodes if isinstance(n, Reduction) and is_reduction(n))


def arrays_in(nodes: Iterable[Node]) -> tuple[Input, ...]:
    """The arrays among the nodes."""
    return tuple(n for n in nodes if isinstance(n, Input) and n.axis is not Axis.SCALAR)


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


def topological(
    outputs: Iterable[Node], done: Callable[[Node], bool] = lambda _: False
) -> tuple[Node, ...]:
    """Every node the outputs need that is not `done`, operands first, in a stable order."""
    return walk.in_order(outputs, operands, done)


def asked_once(rule: Callable[[Node], _T]) -> Callable[[Node], _T]:
    """The rule, which may ask itself about operands, as a function asked once of every node."""
    return walk.asked_once(rule, operands)


@asked_once
def extent(node: Node) -> Extent:
    """How many values the node has."""
    match node:
        case Input(axis=axis):
            return Extent.ROW if axis in (Axis.PER_ROW, Axis.SCALAR) else Extent.ELEMENT
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


@asked_once
def lists_of(node: Node) -> frozenset[TopK]:
    """The top-K results whose entries this list node belongs to (none for other extents)."""
    match node:
        case Part(top=top) | (TopK() as top):
            return frozenset((top,))
        case Take(index=arg) | Cast(arg=arg):
            return lists_of(arg)
        case Map(args=args):
            return frozenset().union(*map(lists_of, args))
        case _:
            return frozenset()


def is_reduction(node: Node) -> bool:
    """Does this node fold a whole row? (Folds of a K-entry list do not.)"""
    if isinstance(node, Own):
        return True
    return isinstance(node, Reduce | TopK) and extent(node.arg) is Extent.ELEMENT


@asked_once
def _has_reductions(node: Node) -> bool:
    return is_reduction(node) or any(map(_has_reductions, operands(node)))


def reductions_of(node: Node) -> tuple[Reduction, ...]:
    """Row reductions that `node` needs or is, without looking inside them; operands first."""
    found: dict[Reduction, None] = {}
    seen: set[Node] = set()
    todo = [node]
    while todo:
        n = todo.pop()
        if n in seen or not _has_reductions(n):
            continue
        seen.add(n)
        if isinstance(n, Reduction) and is_reduction(n):
            found[n] = None
        else:
            todo += reversed(operands(n))
    return tuple(found)
