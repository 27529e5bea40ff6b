"""The graph of a pipeline: frozen nodes, each with the line of the user's file that made it.

Nodes are shared: the tracer builds every distinct operation once, so identity is equality.
An element node has one value per position, a row node one per row, a list node K per row. A value
is a number, or a vector of numbers (`is_vector`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

from fusegen.ir import walk
from fusegen.ir.errors import InternalError
from fusegen.ir.loc import Loc
from fusegen.ir.nodes import OF_ROWS as OF_ROWS
from fusegen.ir.nodes import Cast as Cast
from fusegen.ir.nodes import Field as Field
from fusegen.ir.nodes import Index as Index
from fusegen.ir.nodes import Inner as Inner
from fusegen.ir.nodes import Input as Input
from fusegen.ir.nodes import Length as Length
from fusegen.ir.nodes import Literal as Literal
from fusegen.ir.nodes import Map as Map
from fusegen.ir.nodes import Node as Node
from fusegen.ir.nodes import Own as Own
from fusegen.ir.nodes import Part as Part
from fusegen.ir.nodes import Reduce as Reduce
from fusegen.ir.nodes import Reduction as Reduction
from fusegen.ir.nodes import RowNumber as RowNumber
from fusegen.ir.nodes import Take as Take
from fusegen.ir.nodes import TopK as TopK
from fusegen.ir.nodes import operands as operands
from fusegen.ir.shared import lazy
from fusegen.ir.sorts import VECTORS as VECTORS
from fusegen.ir.sorts import Axis as Axis
from fusegen.ir.sorts import Extent as Extent
from fusegen.ir.sorts import Fold as Fold
from fusegen.ir.varying import Guard
from fusegen.ir.watches import Watches

_T = TypeVar("_T")


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
    components: frozenset[str] = frozenset()  # inputs that stand for any one number of a vector
    made: frozenset[str] = frozenset()  # and those that stand for sums over the vectors' index

    def __repr__(self) -> str:
        return f"<graph {self.name} of {len(self.nodes)} nodes>"

    def __getitem__(self, name: str) -> Node:
        return self.by_name[name]

    @lazy
    def by_name(self) -> Mapping[str, Node]:
        return {name: node for node, name in self.names.items()}

    @lazy
    def wide(self) -> frozenset[Node]:
        """The nodes that stand for any one number of a vector; see `components`."""
        found: set[Node] = set()
        for node in self.nodes:
            own = isinstance(node, Input) and node.name in self.components
            met = any(a in found for a in operands(node))
            if own or (met and not isinstance(node, Inner)):
                found.add(node)
        return frozenset(found)

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


def have_vectors(inputs: Iterable[Input]) -> bool:
    """Does any of them hold vectors?"""
    return any(i.axis in VECTORS for i in inputs)


def arrays_in(nodes: Iterable[Node]) -> tuple[Input, ...]:
    """The arrays among the nodes."""
    return tuple(n for n in nodes if isinstance(n, Input) and n.axis is not Axis.SCALAR)


def topological(
    outputs: Iterable[Node], done: Callable[[Node], bool] = lambda _: False
) -> tuple[Node, ...]:
    """Every node the outputs need that is not `done`, operands first, in a stable order."""
    return walk.in_order(outputs, operands, done)


def outermost(
    roots: Iterable[Node], holds: Callable[[Node], bool], done: Iterable[Node] = ()
) -> tuple[Node, ...]:
    """The largest nodes that the roots are made of and of which this holds, in a stable order. What
    is `done` is not looked into."""
    found: list[Node] = []
    seen, todo = {*done}, deque(roots)
    while todo:
        node = todo.popleft()
        if node in seen:
            continue
        seen.add(node)
        if holds(node):
            found.append(node)
        else:
            todo += operands(node)
    return tuple(found)


def asked_once(rule: Callable[[Node], _T]) -> Callable[[Node], _T]:
    """The rule, which may ask itself about operands, as a function asked once of every node."""
    return walk.asked_once(rule, operands)


@asked_once
def extent(node: Node) -> Extent:
    """How many values the node has."""
    match node:
        case Input(axis=axis):
            return Extent.ROW if axis in OF_ROWS else Extent.ELEMENT
        case Index():
            return Extent.ELEMENT
        case Literal() | Length() | RowNumber() | Reduce() | Own() | Field():
            return Extent.ROW
        case TopK() | Part():
            return Extent.LIST
        case Take(index=index):
            return extent(index)
        case Cast(arg=arg) | Inner(arg=arg):
            return extent(arg)
        case Map(args=args):
            found = {extent(a) for a in args}
            if {Extent.ELEMENT, Extent.LIST} <= found:
                raise InternalError("element and list in one operation")
            return next((e for e in (Extent.ELEMENT, Extent.LIST) if e in found), Extent.ROW)
        case _:
            assert_never(node)


@asked_once
def is_vector(node: Node) -> bool:
    """Is each of its values a vector? A list has none."""
    match node:
        case Input(axis=axis):
            return axis in VECTORS
        case Map(args=args):
            return any(map(is_vector, args))
        case Cast(arg=arg) | Reduce(arg=arg) | Take(arg=arg):
            return is_vector(arg)
        case _:
            return False


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
