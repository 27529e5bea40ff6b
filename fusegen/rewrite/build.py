"""Nodes made by rewriting: they carry the user's lines, and join the graph being traced."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import assert_never

from fusegen.ir import graph as g
from fusegen.ir.loc import Loc
from fusegen.lang.value import ACTIVE, Builder, builder


@contextmanager
def joining(graph: g.Graph) -> Iterator[Builder]:
    """Meanwhile new nodes join the graph's, which are labelled by their names."""
    build = Builder()
    for node in graph.nodes:
        build.add(node)
        build.labels[node] = graph.names[node]
    token = ACTIVE.set(build)
    try:
        yield build
    finally:
        ACTIVE.reset(token)


def op(name: str, loc: Loc, *args: g.Node) -> g.Node:
    return builder().add(g.Map(name, args, loc)).node


def literal(value: float | int, loc: Loc) -> g.Node:
    return builder().add(g.Literal(value, loc)).node


def length(loc: Loc) -> g.Node:
    return builder().add(g.Length(loc)).node


def fold(kind: g.Fold, arg: g.Node, loc: Loc) -> g.Node:
    """The reduction; of what is one number in all of a row, that number, or so many of it."""
    if g.extent(arg) is g.Extent.ROW and kind in (g.Fold.MAX, g.Fold.MIN, g.Fold.MEAN):
        return arg
    if g.extent(arg) is g.Extent.ROW and kind is g.Fold.SUM:
        return times(length(loc), arg, loc)
    return builder().add(g.Reduce(kind, arg, loc)).node


def is_one(node: g.Node) -> bool:
    return isinstance(node, g.Literal) and node.value == 1


def times(a: g.Node, b: g.Node, loc: Loc) -> g.Node:
    """a·b as a person would write it: 1·b is b, and (n / d)·b is (n·b) / d."""
    if is_one(a) or is_one(b):
        return b if is_one(a) else a
    if isinstance(a, g.Map) and a.op == "div":
        return op("div", loc, times(a.args[0], b, loc), a.args[1])
    return op("mul", loc, a, b)


def over(a: g.Node, b: g.Node, loc: Loc) -> g.Node:
    return a if is_one(b) else op("div", loc, a, b)


def call_it(node: g.Node, label: str) -> g.Node:
    """Suggest a name for a node that has none yet; returns the node."""
    builder().labels.setdefault(node, label)
    return node


def name_of(node: g.Node) -> str | None:
    """What the user calls the node, if anything."""
    return node.name if isinstance(node, g.Input) else builder().labels.get(node)


def rebuilt(node: g.Node, new: Callable[[g.Node], g.Node]) -> g.Node:
    """The node over new operands; the node itself where they are the old ones."""
    match node:
        case g.Input() | g.Literal() | g.Length() | g.Index() | g.RowNumber():
            made: g.Node = node
        case g.Map(args=args):
            made = dataclasses.replace(node, args=tuple(new(a) for a in args))
        case g.Own(args=args):
            made = dataclasses.replace(node, args=tuple(new(a) for a in args))
        case g.Field(own=own):
            state = new(own)
            assert isinstance(state, g.Own)
            made = dataclasses.replace(node, own=state)
        case g.Cast(arg=arg) | g.Reduce(arg=arg) | g.Inner(arg=arg) | g.TopK(arg=arg):
            made = dataclasses.replace(node, arg=new(arg))
        case g.Part(top=top):
            fresh = new(top)
            assert isinstance(fresh, g.TopK)
            made = dataclasses.replace(node, top=fresh)
        case g.Take(arg=arg, index=index):
            made = dataclasses.replace(node, arg=new(arg), index=new(index))
        case _:
            assert_never(node)
    return builder().add(made).node


def substituted(node: g.Node, old: g.Node, new: g.Node) -> g.Node:
    """The node with every `old` inside it replaced."""
    return put(node, {old: new})


def put(node: g.Node, instead: Mapping[g.Node, g.Node]) -> g.Node:
    """The node with others in place of some inside it, which are not looked into."""
    known = dict(instead)
    for part in g.topological((node,), known.__contains__):
        known[part] = rebuilt(part, known.__getitem__)
    return known[node]


def at_element(node: g.Node, element: g.Node, value: g.Node) -> g.Node:
    """The node where the element has this value; what is one value per row stays as it is."""
    known: dict[g.Node, g.Node] = {}
    for part in g.topological((node,)):
        per_row = g.extent(part) is g.Extent.ROW
        known[part] = value if part is element else part if per_row else \
            rebuilt(part, known.__getitem__)
    return known[node]
