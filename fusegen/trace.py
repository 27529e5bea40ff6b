"""Tracing: run the user's function once on symbolic values and write down what it does.

Operations are shared as they are built (`exp(x - m)` written twice is one node); locations come
from the call stack, names from the function's own local variables.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NoReturn, Protocol

import numpy as np

from fusegen import graph as g
from fusegen.errors import TraceError
from fusegen.names import c_identifier
from fusegen.ops import OPS

_PACKAGE = Path(__file__).parent
_LANGUAGE_FILES = {str(_PACKAGE / f) for f in ("trace.py", "lang.py", "pipeline.py")}


@dataclass(eq=False)
class Value:
    """What pipeline functions compute with: a node of the graph being traced."""

    node: g.Node

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


class Traceable(Protocol):
    """A decorated function, as the tracer needs to know it."""

    name: str
    fn: Callable[..., Any]


@dataclass
class Builder:
    """The graph under construction."""

    nodes: dict[tuple[Any, ...], g.Node] = field(default_factory=dict)
    labels: dict[g.Node, str] = field(default_factory=dict)
    returned: set[g.Node] = field(default_factory=set)
    codes: set[CodeType] = field(default_factory=set)

    def add(self, node: g.Node) -> Value:
        key = (g.attributes(node), tuple(id(a) for a in g.operands(node)))
        return Value(self.nodes.setdefault(key, node))

    def label(self, frame: FrameType, event: str, _arg: object) -> None:
        """Profile hook: when a traced function returns, its locals name the nodes."""
        if event == "return" and frame.f_code in self.codes:
            for name, value in frame.f_locals.items():
                if isinstance(value, Value):
                    self.labels.setdefault(value.node, name)


_ACTIVE: ContextVar[Builder | None] = ContextVar("fusegen_builder", default=None)


def builder() -> Builder:
    found = _ACTIVE.get()
    if found is None:
        raise TraceError(
            "a fusegen operation was called outside a pipeline",
            why="fg.exp, fg.sum and the rest describe rows; they do not compute on arrays.",
            fix="Put it in a function decorated with @fg.pipeline and call that with arrays.",
        )
    return found


def here() -> g.Loc:
    """The nearest line of the stack that is not the language itself."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in _LANGUAGE_FILES:
        frame = frame.f_back
    if frame is None:
        return g.Loc("<unknown>", 0)
    file, line = frame.f_code.co_filename, frame.f_lineno
    return g.Loc(file, line, linecache.getline(file, line).strip())


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


@contextmanager
def _tracing(build: Builder) -> Iterator[None]:
    token = _ACTIVE.set(build)
    before = sys.getprofile()
    sys.setprofile(build.label)
    try:
        yield
    finally:
        sys.setprofile(before)
        _ACTIVE.reset(token)


def inline(fn: Callable[..., Any], args: Sequence[object], constants: dict[str, Any]) -> Any:
    """Call another pipeline's function inside the one being traced."""
    build = builder()
    build.codes.add(fn.__code__)
    result = fn(*args, **constants)
    for value in _leaves(result):
        if isinstance(value, Value):
            build.returned.add(value.node)
    return result


def is_tracing() -> bool:
    return _ACTIVE.get() is not None


def axis_of(annotation: object) -> g.Axis:
    """ELEMENT unless the annotation says PerColumn or PerRow, also as text or beside None."""
    shown = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    if not shown:
        shown = str(annotation)  # a union: "fusegen.trace.PerColumn | None"
    words = set(re.findall(r"\w+", shown))
    if "PerColumn" in words:
        return g.Axis.PER_COLUMN
    return g.Axis.PER_ROW if "PerRow" in words else g.Axis.ELEMENT


def trace(pipeline: Traceable, present: frozenset[str], constants: dict[str, Any]) -> g.Graph:
    """Trace the pipeline with the inputs `present` (the rest are None) and these constants.

    Raises TraceError, pointing at the user's line, for anything that is not a row pipeline.
    """
    fn = pipeline.fn
    code = fn.__code__
    where = g.Loc(code.co_filename, code.co_firstlineno, f"def {fn.__name__}(…)")
    build = Builder(codes={code})
    args: list[Value | None] = []
    inputs: list[g.Input] = []
    for name, parameter in inspect.signature(fn).parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY:
            continue
        if name not in present:
            args.append(None)
            continue
        node = g.Input(name, axis_of(parameter.annotation), where)
        inputs.append(node)
        args.append(build.add(node))
    with _tracing(build):
        result = fn(*args, **constants)
    outputs: list[g.Node] = []
    structure = _flatten(result, outputs, where, build)
    nodes = g.topological((*inputs, *outputs))
    names = _unique_names(nodes, build)
    graph = g.Graph(
        name=c_identifier(pipeline.name), loc=where, inputs=tuple(inputs), nodes=nodes,
        outputs=tuple(outputs), output_names=_output_names(structure, outputs, names),
        structure=structure, names=names,
        named=frozenset(n for n in nodes if n in build.labels or n in build.returned),
        constants=tuple(sorted(constants.items())),
    )  # fmt: skip
    _verify(graph)
    return graph


def _leaves(result: object) -> Iterator[object]:
    if isinstance(result, tuple | list):
        for item in result:
            yield from _leaves(item)
    elif isinstance(result, dict):
        for item in result.values():
            yield from _leaves(item)
    else:
        yield result


def _flatten(
    result: object, outputs: list[g.Node], where: g.Loc, build: Builder
) -> g.Structure:
    if isinstance(result, tuple | list):
        return tuple(_flatten(item, outputs, where, build) for item in result)
    if isinstance(result, dict):
        return {str(k): _flatten(v, outputs, where, build) for k, v in result.items()}
    if isinstance(result, bool | int | float):
        result = build.add(g.Literal(result, where))
    if not isinstance(result, Value):
        raise TraceError(
            f"the pipeline returns {type(result).__name__}", where=where,
            why="Outputs are pipeline values, or a tuple or dict of them.",
            fix="Does every path of the function end in a return?" if result is None else "",
        )  # fmt: skip
    outputs.append(result.node)
    return len(outputs) - 1


def _output_names(
    structure: g.Structure, outputs: list[g.Node], names: dict[g.Node, str]
) -> tuple[str, ...]:
    """dict keys where there are any, else the nodes' names; unique, and unlike any input's."""
    found = {i: names[n] for i, n in enumerate(outputs)}

    def visit(part: g.Structure) -> None:
        if isinstance(part, dict):
            for key, inner in part.items():
                if isinstance(inner, int):
                    found[inner] = c_identifier(key)
                visit(inner)
        elif isinstance(part, tuple):
            for inner in part:
                visit(inner)

    visit(structure)
    taken: set[str] = {n.name for n in names if isinstance(n, g.Input)}
    result = []
    for i in range(len(outputs)):
        name = _first_free(found[i] if found[i] not in taken else f"{found[i]}_out", taken)
        taken.add(name)
        result.append(name)
    return tuple(result)


def _first_free(name: str, taken: set[str]) -> str:
    if name not in taken:
        return name
    return next(f"{name}_{i}" for i in range(2, len(taken) + 3) if f"{name}_{i}" not in taken)


def _unique_names(nodes: tuple[g.Node, ...], build: Builder) -> dict[g.Node, str]:
    """The user's names first, then names made from what the node does."""
    names: dict[g.Node, str] = {n: c_identifier(n.name) for n in nodes if isinstance(n, g.Input)}
    taken = set(names.values())
    for known in (True, False):
        for node in nodes:
            if node in names or (node in build.labels) is not known:
                continue
            wish = c_identifier(build.labels[node]) if known else _described(node, names)
            names[node] = _first_free(wish, taken)
            taken.add(names[node])
    return names


def _described(node: g.Node, names: dict[g.Node, str]) -> str:
    match node:
        case g.Reduce(fold=fold, arg=arg):
            inner = arg.op if isinstance(arg, g.Map) else names.get(arg, "")
            return f"{fold.value}_{inner}" if re.fullmatch(r"[a-z]\w{0,7}", inner) else fold.value
        case g.TopK():
            return "top"
        case g.Part(field=field_name):
            return field_name
        case g.Map(op=op):
            return c_identifier(op)
        case _:
            return c_identifier(type(node).__name__.lower())


def _verify(graph: g.Graph) -> None:
    if not any(i.axis is g.Axis.ELEMENT for i in graph.inputs):
        raise TraceError(
            "the pipeline has no element input", where=graph.loc,
            fix="At least one parameter must be an array of rows (no annotation).",
        )  # fmt: skip
    roots = set(graph.outputs)
    for node in graph.nodes:
        if isinstance(node, g.Cast) and node not in roots and node.dtype.name not in (
            "float32", "float64", "int64", "bool",
        ):  # fmt: skip
            raise TraceError(
                f"cast to {node.dtype} in the middle of a pipeline", where=node.loc,
                why="Kernels compute in float32/float64, int64 and bool; narrower types exist "
                "only in memory, so this rounding would silently not happen.",
                fix="Cast the result that you return.",
            )  # fmt: skip
