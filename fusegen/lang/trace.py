"""Tracing: run the user's function once on symbolic values and write down what it does.

Locations come from the call stack, names from the function's own local variables.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from fusegen.ir import graph as g
from fusegen.ir.errors import TraceError
from fusegen.ir.literals import plain
from fusegen.ir.loc import Loc
from fusegen.ir.names import Taken, array_identifier, c_identifier
from fusegen.ir.nesting import alike
from fusegen.ir.varying import Book, Number, names_in, raw
from fusegen.lang.annotations import axis_of
from fusegen.lang.captured import watches_of
from fusegen.lang.checked import check_text
from fusegen.lang.lines import here, written_at
from fusegen.lang.owners import users
from fusegen.lang.signature import constants_key
from fusegen.lang.value import ACTIVE, Builder, Value, builder, lift


class Traceable(Protocol):
    """A decorated function, as the tracer needs to know it."""

    name: str
    fn: Callable[..., Any]
    allow_cancellation: bool
    like: tuple[str, ...]


@contextmanager
def tracing(build: Builder) -> Iterator[Builder]:
    """Operations go to this graph; when traced functions return, their locals name its nodes."""
    build.outer = ACTIVE.get()
    outer, before = ACTIVE.get(), sys.getprofile()
    try:  # whenever an interrupt comes, what follows is not taken for a part of this text
        ACTIVE.set(build)
        sys.setprofile(build.label)
        with written_at(None):
            yield build
    finally:
        ACTIVE.set(outer)
        if before is None or callable(before):
            sys.setprofile(before)
        else:
            before.enable()  # a profiler in C, such as cProfile's
        if outer is not None:
            outer.ran |= build.ran


def inline(fn: Callable[..., Any], args: Sequence[object], constants: dict[str, Any]) -> Any:
    """Call another pipeline's function inside the one being traced."""
    build = builder()
    build.codes.add(inspect.unwrap(fn).__code__)
    build.functions.append(fn)
    with calling(build, fn, args, constants, here()):
        result = fn(*args, **constants)
    for value in leaves(result):
        if isinstance(value, Value):
            build.returned.add(value.node)
    return result


@contextmanager
def calling(
    build: Builder, fn: Callable[..., Any], args: Sequence[object], constants: Mapping[str, Any],
    where: Loc,
) -> Iterator[None]:
    """Raises TraceError where a pipeline calls itself for ever, or calls are too deep."""
    # A pipeline's text depends on its constants and on which inputs are there, on nothing else.
    call = (fn, tuple(a is None for a in args), constants_key(constants))
    if call in build.inside:
        cycle = [*build.inside[build.inside.index(call):], call]
        shown = " → ".join(one[0].__name__ for one in cycle)
        raise TraceError(f"{fn.__name__} calls itself: {shown}", where=where,
                         why="With the same constants and inputs as before: it would never end.",
                         fix="Call it with other constants, and stop at one of them.")
    build.inside.append(call)
    try:
        yield
    except RecursionError:
        raise TraceError(f"{fn.__name__} calls too deeply", where=where,
                         why=f"Python stopped {len(build.inside)} pipelines down.",
                         fix="Write the text as a loop.") from None
    finally:
        build.inside.pop()


def is_tracing() -> bool:
    return ACTIVE.get() is not None


@contextmanager
def apart() -> Iterator[None]:
    """While a text is traced: a graph is made that has nothing of it."""
    outer = ACTIVE.get()
    try:
        ACTIVE.set(None)
        yield
    finally:
        ACTIVE.set(outer)


def trace(pipeline: Traceable, present: frozenset[str], constants: dict[str, Any]) -> g.Graph:
    """Trace the pipeline with the inputs `present` (the rest are None) and these constants.

    Raises TraceError, pointing at the user's line, for anything that is not a row pipeline.
    """
    fn = pipeline.fn
    code = inspect.unwrap(fn).__code__
    where = Loc(code.co_filename, code.co_firstlineno, f"def {fn.__name__}(…)")
    book = book_of(constants)
    build = Builder(codes={code})
    inputs = _inputs(fn, present, where)
    args = [None if node is None else build.add(node) for node in inputs.values()]
    outputs: list[g.Node] = []
    with tracing(build):
        with calling(build, fn, args, constants, where):
            result = fn(*args, **constants)
        structure = _flatten(result, outputs, where, build)
    there = tuple(node for node in inputs.values() if node is not None)
    nodes = g.topological((*there, *outputs))
    names = unique_names(nodes, build)
    if book is not None and any("type" in code.co_names for code in build.ran if users(code)):
        for name in constants:
            book.settle(name, "the text may ask for its type")
    graph = g.Graph(
        name=c_identifier(pipeline.name), loc=where, inputs=there, nodes=nodes,
        outputs=tuple(outputs), output_names=_output_names(structure, outputs, names),
        structure=structure, names=names,
        named=frozenset(n for n in nodes if n in build.labels or n in build.returned),
        constants=tuple(sorted((n, raw(v)) for n, v in constants.items())),
        varying=frozenset(n for n, v in constants.items() if type(v) is Number),
        guards=() if book is None else tuple(book.guards),
        captured=build.watches + watches_of([fn, *build.functions], build.ran),
        allow_cancellation=pipeline.allow_cancellation, like=pipeline.like,
    )
    check_text(graph)
    return graph


def _inputs(
    fn: Callable[..., Any], present: frozenset[str], where: Loc
) -> dict[str, g.Input | None]:
    """The parameters that are arrays, in order; None for those that are not there."""
    return {
        name: g.Input(name, axis_of(fn, name, p.annotation), where) if name in present else None
        for name, p in inspect.signature(fn).parameters.items() if p.kind is not p.KEYWORD_ONLY
    }


def varying(constants: Mapping[str, Any], names: Collection[str]) -> tuple[dict[str, Any], Book]:
    """The constants with some of them as `Number`s, and what is noted of these."""
    book = Book(here, Value)
    return {n: Number(v, n, book) if n in names else v for n, v in constants.items()}, book


def book_of(constants: Mapping[str, Any]) -> Book | None:
    """Where the Numbers among the constants note what is asked of them; None without any."""
    return next((v.book for v in constants.values() if type(v) is Number), None)


def leaves(result: object) -> Iterator[object]:
    """What a function returned, without its nesting, in the order of `Graph.outputs`."""
    if isinstance(result, tuple | list):
        for item in result:
            yield from leaves(item)
    elif isinstance(result, dict):
        for item in result.values():
            yield from leaves(item)
    else:
        yield result


def _flatten(
    result: object, outputs: list[g.Node], where: Loc, build: Builder
) -> Any:
    if isinstance(result, tuple | list):
        return alike(result, [_flatten(item, outputs, where, build) for item in result])
    if isinstance(result, dict):
        for key in result:
            if isinstance(key, Value):
                raise TraceError(f"a pipeline value, {key!r}, is a key of the returned dict",
                                 where=where, why="Results are found by their keys.",
                                 fix="Use strings or numbers.")
        return {k: _flatten(v, outputs, where, build) for k, v in result.items()}
    if type(result) is Number or plain(result) is not None:
        result = Value(lift(result))
    if not isinstance(result, Value):
        raise TraceError(
            f"the pipeline returns {type(result).__name__}", where=where,
            why="Outputs are pipeline values, or a tuple or dict of them.",
            fix="Does every path of the function end in a return?" if result is None else "",
        )
    outputs.append(lift(result))
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
                    found[inner] = str(key)
                visit(inner)
        elif isinstance(part, tuple | list):
            for inner in part:
                visit(inner)

    visit(structure)
    taken = Taken((name for n, name in names.items() if isinstance(n, g.Input)), names.values())
    wishes = (array_identifier(found[i]) for i in range(len(outputs)))
    return tuple(taken.free(w if w not in taken else f"{w}_result") for w in wishes)


def unique_names(
    nodes: tuple[g.Node, ...], build: Builder, kept: Collection[str] = ()
) -> dict[g.Node, str]:
    """The user's names first, then names made from what the node does; `kept`: names that only a
    node that has one by now may have."""
    names: dict[g.Node, str] = {}
    taken = Taken(joined=any(isinstance(n, g.Take) or _is_given_vector(n) for n in nodes))
    for node in sorted(nodes, key=lambda n: getattr(n, "formula", "") != ""):
        if isinstance(node, g.Input):
            names[node] = taken.free(array_identifier(_input_name(node, build)))
    for known in (True, False):
        for name in () if known else kept:
            taken.add(name)
        for node in nodes:
            if node in names or (node in build.labels) is not known:
                continue
            wish = c_identifier(build.labels[node] if known else _described(node, names))
            names[node] = taken.free(wish)
    return names


def _is_given_vector(node: g.Node) -> bool:
    return isinstance(node, g.Input) and node.axis in g.VECTORS


def _input_name(node: g.Input, build: Builder) -> str:
    """Its own; of what Python made of constants, the local variable's."""
    if isinstance(node.formula, str):
        return node.name
    return build.labels.get(node) or "_".join(["of", *sorted(names_in(node.formula))])


def _described(node: g.Node, names: dict[g.Node, str]) -> str:
    match node:
        case g.Reduce(fold=fold, arg=arg):
            inner = arg.op if isinstance(arg, g.Map) else names.get(arg, "")
            return f"{fold.value}_{inner}" if re.fullmatch(r"[a-z]\w{0,7}", inner) else fold.value
        case g.Inner(arg=g.Map(op="mul", args=(a, b))):
            return "dot" if a is not b else "sqdist" if isinstance(a, g.Map) else "norm2"
        case g.TopK():
            return "top"
        case g.Part(field=field_name):
            return field_name
        case g.Own(operator=operator):
            return f"{operator.name}_state"
        case g.Field(own=own, name=name):
            return f"{own.operator.name}_{name}"
        case g.Map(op=op):
            return op
        case _:
            return type(node).__name__.lower()
