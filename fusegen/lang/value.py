"""Symbolic values: what a pipeline's function computes with while it is traced.

Every operation adds a node to the graph of the active `Builder`; equal operations share a node.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.digest import attributes
from fusegen.ir.errors import TraceError
from fusegen.ir.literals import fits_float, plain
from fusegen.ir.ops import OPS, of_ufunc
from fusegen.ir.varying import Number, raw, written
from fusegen.ir.watches import Watches
from fusegen.lang.advice import remedy, shown
from fusegen.lang.lines import here
from fusegen.lang.refused import Refusals, foreign, refuse


@dataclass(eq=False, repr=False)
class Value(Refusals):
    """What pipeline functions compute with: a node of the graph being traced."""

    node: g.Node

    def __repr__(self) -> str:
        what = " ".join(str(part) for part in attributes(self.node)[:2])
        extent = g.extent(self.node).value
        return f"<fusegen value: {what[:60]}, {extent}, {self.node.loc.short}>"

    def __add__(self, other: Operand) -> Value: return apply("add", self, other)
    def __radd__(self, other: Operand) -> Value: return apply("add", other, self)
    def __sub__(self, other: Operand) -> Value: return apply("sub", self, other)
    def __rsub__(self, other: Operand) -> Value: return apply("sub", other, self)
    def __mul__(self, other: Operand) -> Value: return apply("mul", self, other)
    def __rmul__(self, other: Operand) -> Value: return apply("mul", other, self)
    def __truediv__(self, other: Operand) -> Value: return apply("div", self, other)
    def __rtruediv__(self, other: Operand) -> Value: return apply("div", other, self)
    def __pow__(self, other: Operand) -> Value: return apply("pow", self, other)
    def __rpow__(self, other: Operand) -> Value: return apply("pow", other, self)
    def __neg__(self) -> Value: return apply("neg", self)
    def __pos__(self) -> Value: return self
    def __abs__(self) -> Value: return apply("abs", self)
    def __lt__(self, other: Operand) -> Value: return apply("lt", self, other)
    def __le__(self, other: Operand) -> Value: return apply("le", self, other)
    def __gt__(self, other: Operand) -> Value: return apply("gt", self, other)
    def __ge__(self, other: Operand) -> Value: return apply("ge", self, other)
    def __eq__(self, other: object) -> Value: return apply("eq", self, other)  # type: ignore
    def __ne__(self, other: object) -> Value: return apply("ne", self, other)  # type: ignore
    def __and__(self, other: Operand) -> Value: return apply("and", self, other)
    def __rand__(self, other: Operand) -> Value: return apply("and", other, self)
    def __or__(self, other: Operand) -> Value: return apply("or", self, other)
    def __ror__(self, other: Operand) -> Value: return apply("or", other, self)
    def __invert__(self) -> Value: return apply("not", self)
    __hash__ = object.__hash__

    def __xor__(self, other: Operand) -> Value: return (self | other) & ~(self & other)
    def __rxor__(self, other: Operand) -> Value: return self ^ other

    def __round__(self, digits: object = None) -> Value:
        return apply("round", self) if digits is None else refuse(
            "a pipeline value is rounded to whole numbers", "",
            "Write fg.round(x * 100) / 100 for two digits.")

    def __floor__(self) -> Value: return apply("floor", self)
    def __ceil__(self) -> Value: return apply("ceil", self)

    def __format__(self, spec: str) -> str:
        if spec:
            refuse(f"a pipeline value cannot be formatted as {spec!r}",
                   "Its numbers are known only on the device.", "Print the results instead.")
        return repr(self)

    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Value:
        """NumPy's elementwise functions mean the operations of the same name."""
        op = of_ufunc(ufunc.__name__)
        if op is None or method != "__call__" or kwargs:
            foreign("NumPy", ufunc.__name__ if method == "__call__" else f"ufunc.{method}")
        return apply(op, *args)


class PerColumn(Value):
    """Annotates an input of shape (n_cols,), the same for every row; beside vectors (…, n_cols),
    whose leading axes broadcast against those of the rows but the last."""


class PerRow(Value):
    """Annotates an input with one value per row."""


class RowVector(Value):
    """Annotates an input of shape (…rows, d): a vector of d numbers for each row."""


class ColumnVector(Value):
    """Annotates an input of shape (…, n_cols, d): a vector of d numbers for each column. Leading
    axes broadcast against those of the rows but the last."""


Operand = Value | int | float | bool


@dataclass
class Builder:
    """The graph under construction."""

    nodes: dict[tuple[Any, ...], g.Node] = field(default_factory=dict)
    made: dict[g.Node, int] = field(default_factory=dict)  # the values of `nodes`, numbered
    outer: Builder | None = None  # around it: a monoid's lift may use the pipeline's values
    labels: dict[g.Node, str] = field(default_factory=dict)
    scalars: dict[str, g.Node] = field(default_factory=dict)  # by the text of their formulas
    returned: set[g.Node] = field(default_factory=set)
    codes: set[CodeType] = field(default_factory=set)
    ran: set[CodeType] = field(default_factory=set)  # all that was executed
    functions: list[object] = field(default_factory=list)  # of the pipelines that were called
    inside: list[tuple[Any, ...]] = field(default_factory=list)  # calls that have not returned
    watches: Watches = field(default_factory=Watches)  # of graphs and monoids taken over

    def add(self, node: g.Node) -> Value:
        key = (attributes(node), tuple(id(a) for a in g.operands(node)))
        found = self.nodes.setdefault(key, node)
        self.made.setdefault(found, len(self.made))
        return Value(found)

    def knows(self, node: g.Node) -> bool:
        """Was the node made here, or around here?"""
        return node in self.made or (self.outer is not None and self.outer.knows(node))

    def label(self, frame: FrameType, event: str, _arg: object) -> None:
        """Profile hook: what runs is noted; a traced function's locals name the nodes."""
        if event == "call":
            self.ran.add(frame.f_code)
        if event == "return" and frame.f_code in self.codes:
            for name, value in frame.f_locals.items():
                if isinstance(value, Value):
                    self.labels.setdefault(value.node, name)
                elif type(value) is Number and repr(value.formula) in self.scalars:
                    self.labels.setdefault(self.scalars[repr(value.formula)], name)


ACTIVE: ContextVar[Builder | None] = ContextVar("fusegen_builder", default=None)


def builder() -> Builder:
    found = ACTIVE.get()
    if found is None:
        raise TraceError(
            "a fusegen operation was called outside a pipeline", where=here(),
            why="fg.exp, fg.sum and the rest describe rows; they do not compute on arrays.",
            fix="Put it in a function decorated with @fg.pipeline and call that with arrays.",
        )
    return found


def lift(value: object) -> g.Node:
    """The node of a Value, or a literal for a Python or NumPy number."""
    build = builder()  # outside a pipeline, that is the mistake, not the operand
    if isinstance(value, Value):
        if not build.knows(value.node):
            refuse("a value of another pipeline, or of an earlier trace, is used here",
                   f"It was made at {value.node.loc}, and means nothing outside its own text.",
                   "Call that pipeline inside this one, or pass its results as an array.")
        return value.node
    if type(value) is Number and build.outer is None:  # laws of monoids are of numbers
        magnitude = value.magnitude()
        if magnitude:
            return _scalar(value, magnitude)
        value = raw(value)
    number = plain(value)
    if number is not None:
        if not fits_float(number):
            refuse("no float is near this number", "The greatest float is about 1.8e308.", "")
        return build.add(g.Literal(number, here())).node
    refuse(f"{shown(value)} is not something a pipeline can compute with",
           "Operands are pipeline values and Python or NumPy numbers.", remedy(value))


def _scalar(value: Number, magnitude: int) -> g.Node:
    """A number of the call: a constant, or what Python makes of constants."""
    build, formula = builder(), value.formula
    name = formula if isinstance(formula, str) else written(formula)
    node = build.add(g.Input(name, g.Axis.SCALAR, here(), formula, magnitude)).node
    return build.scalars.setdefault(repr(formula), node)


def counted(node: g.Node) -> g.Node:
    """A condition as 0 or 1; other nodes as they are."""
    return apply("where", Value(node), 1, 0).node if is_condition(node) else node


def apply(op: str, *args: object) -> Value:
    """Record the elementwise operation `op`; operands may be numbers."""
    if op == "pow" and type(args[1]) is Number:
        args = (args[0], args[1].number("it is an exponent"))
    nodes = tuple(lift(a) for a in args)
    rule = OPS[op].rule
    if rule in ("arith", "float", "bool") and any(map(is_condition, nodes)):
        if op in ("eq", "ne") and all(map(is_condition, nodes)):
            a, b = map(Value, nodes)
            return (a & ~b) | (~a & b) if op == "ne" else (a & b) | (~a & ~b)
        nodes = tuple(map(counted, nodes))
    elif op == "where" and is_condition(nodes[1]) is not is_condition(nodes[2]):
        nodes = (nodes[0], *map(counted, nodes[1:]))
    extents = {g.extent(n) for n in nodes}
    if {g.Extent.ELEMENT, g.Extent.LIST} <= extents:
        refuse(f"{op} mixes an element value with a top-K list",
               "One has n_cols entries per row, the other K.",
               "Use fg.take(x, indices) to pick the list's elements.")
    if len({top for n in nodes for top in g.lists_of(n)}) > 1:
        refuse(f"{op} mixes the lists of two different top-K results",
               "Their entries belong to different columns.", "Return both lists.")
    match op, nodes:
        case "div", (g.Reduce(fold=g.Fold.SUM, arg=arg), g.Length()):
            return builder().add(g.Reduce(g.Fold.MEAN, arg, here()))
    return builder().add(g.Map(op, nodes, here()))
