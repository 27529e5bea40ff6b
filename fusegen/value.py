"""Symbolic values: what a pipeline's function computes with while it is traced.

Every operation adds a node to the graph of the active `Builder`; equal operations share a node.
"""

from __future__ import annotations

import linecache
import sys
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn

import numpy as np

from fusegen import graph as g
from fusegen.digest import attributes
from fusegen.errors import TraceError
from fusegen.loc import Loc
from fusegen.ops import OPS

_PACKAGE = Path(__file__).parent
_LANGUAGE_FILES = {
    str(_PACKAGE / f)
    for f in ("value.py", "trace.py", "lang.py", "positions.py", "own.py", "pipeline.py")
}


@dataclass(eq=False, repr=False)
class Value:
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
    def __or__(self, other: Operand) -> Value: return apply("or", self, other)
    def __invert__(self) -> Value: return apply("not", self)
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        _refuse("Python cannot branch on a pipeline value",
                "Its truth differs from row to row and is not known while tracing.",
                "Use fg.where(condition, a, b); combine conditions with & | ~.")

    def __iter__(self) -> NoReturn:
        _refuse("a pipeline value cannot be iterated or unpacked",
                "It stands for a whole row, list or row value, not for a sequence.",
                "Reduce it (fg.sum, fg.topk, …) or work on it elementwise.")

    def __getitem__(self, key: object) -> NoReturn:
        _refuse("a pipeline value cannot be indexed with [ ]", "Rows are not sliced in Python.",
                "Use fg.take(x, index) for the element at a column.")

    def __array_ufunc__(self, ufunc: Any, *args: Any, **kwargs: Any) -> NoReturn:
        name = getattr(ufunc, "__name__", "function")
        _refuse(f"NumPy's {name} was called on a pipeline value", "",
                f"Use fg.{name} or the Python operator." if name in OPS else "Use fusegen's own.")

    def __float__(self) -> NoReturn:
        _refuse("a pipeline value is not a Python number", "Its value is known only on the device.",
                "Use fusegen's operations (fg.exp, fg.where, …) instead of Python's or math's.")


class PerColumn(Value):
    """Annotates an input of shape (n_cols,), the same for every row."""


class PerRow(Value):
    """Annotates an input with one value per row."""


Operand = Value | int | float | bool


@dataclass
class Builder:
    """The graph under construction."""

    nodes: dict[tuple[Any, ...], g.Node] = field(default_factory=dict)
    labels: dict[g.Node, str] = field(default_factory=dict)
    returned: set[g.Node] = field(default_factory=set)
    codes: set[CodeType] = field(default_factory=set)
    at: Loc | None = None  # the line that new nodes belong to, where it is not the caller's

    def add(self, node: g.Node) -> Value:
        key = (attributes(node), tuple(id(a) for a in g.operands(node)))
        return Value(self.nodes.setdefault(key, node))

    def label(self, frame: FrameType, event: str, _arg: object) -> None:
        """Profile hook: when a traced function returns, its locals name the nodes."""
        if event == "return" and frame.f_code in self.codes:
            for name, value in frame.f_locals.items():
                if isinstance(value, Value):
                    self.labels.setdefault(value.node, name)


ACTIVE: ContextVar[Builder | None] = ContextVar("fusegen_builder", default=None)


def builder() -> Builder:
    found = ACTIVE.get()
    if found is None:
        raise TraceError(
            "a fusegen operation was called outside a pipeline",
            why="fg.exp, fg.sum and the rest describe rows; they do not compute on arrays.",
            fix="Put it in a function decorated with @fg.pipeline and call that with arrays.",
        )
    return found


def here() -> Loc:
    """The nearest line of the stack that is not the language itself."""
    active = ACTIVE.get()
    if active is not None and active.at is not None:
        return active.at
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _LANGUAGE_FILES:
        frame = frame.f_back
    if frame is None:
        return Loc("<unknown>", 0)
    file, line = frame.f_code.co_filename, frame.f_lineno
    return Loc(file, line, linecache.getline(file, line).strip())


def _refuse(what: str, why: str, fix: str) -> NoReturn:
    raise TraceError(what, where=here(), why=why, fix=fix)


def lift(value: object) -> g.Node:
    """The node of a Value, or a literal for a Python or NumPy number."""
    if isinstance(value, Value):
        return value.node
    builder()  # outside a pipeline, that is the mistake, not the operand
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float):
        return builder().add(g.Literal(value, here())).node
    _refuse(f"{type(value).__name__} is not something a pipeline can compute with",
            "Operands are pipeline values and Python numbers.",
            "Pass arrays as parameters of the pipeline; annotate fg.PerColumn or fg.PerRow "
            "where they are not (rows, columns).")  # fmt: skip


def apply(op: str, *args: object) -> Value:
    """Record the elementwise operation `op`; operands may be numbers."""
    nodes = tuple(lift(a) for a in args)
    extents = {g.extent(n) for n in nodes}
    if {g.Extent.ELEMENT, g.Extent.LIST} <= extents:
        _refuse(f"{op} mixes an element value with a top-K list",
                "One has n_cols entries per row, the other K.",
                "Use fg.take(x, indices) to pick the list's elements.")  # fmt: skip
    if len({top for n in nodes for top in g.lists_of(n)}) > 1:
        _refuse(f"{op} mixes the lists of two different top-K results",
                "Their entries belong to different columns.", "Return both lists.")  # fmt: skip
    match op, nodes:
        case "div", (g.Reduce(fold=g.Fold.SUM, arg=arg), g.Length()):
            return builder().add(g.Reduce(g.Fold.MEAN, arg, here()))
    return builder().add(g.Map(op, nodes, here()))
