"""Moving text between graphs: nodes of a finished graph, added again to the one under construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import Parameter, Signature, signature
from typing import Any, assert_never

from fusegen.ir import graph as g
from fusegen.ir.errors import InternalError
from fusegen.ir.varying import computed
from fusegen.lang.trace import Traceable
from fusegen.lang.value import builder, lift


def transplant(
    nodes: Sequence[g.Node], leaves: Mapping[g.Node, g.Node], graph: g.Graph
) -> list[g.Node]:
    """Nodes of `graph` in the active builder, with `leaves` in place of what they stood on."""
    moved = moved_nodes(nodes, leaves, graph)
    return [moved[node] for node in nodes]


def moved_nodes(
    nodes: Sequence[g.Node], leaves: Mapping[g.Node, g.Node], graph: g.Graph
) -> dict[g.Node, g.Node]:
    """As `transplant`: what every node has become."""
    build = builder()
    moved = dict(leaves)

    for node in g.topological(nodes, moved.__contains__):
        moved[node] = build.add(_with_operands(node, moved.__getitem__)).node
        if node in graph.named:
            build.labels.setdefault(moved[node], graph.names[node])
    return moved


def scalars_of(graph: g.Graph, constants: Mapping[str, Any]) -> dict[g.Node, g.Node]:
    """What its scalars are for these constants, Numbers or not, in the active builder."""
    return {s: lift(computed(s.formula, constants)) for s in graph.scalars}


def varying_parameters(graph: g.Graph) -> list[Parameter]:
    """The constants that a text made of the graph has still; by default those of the graph."""
    usual = dict(graph.constants)
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=usual[name])
            for name in sorted(graph.varying)]


def parameters_of(forward: Traceable, defaults: Mapping[str, Any]) -> list[Parameter]:
    """Those of a text that a pipeline's gradient has too, with `defaults` for its constants."""
    own = signature(forward.fn).parameters.values()
    return [p.replace(default=defaults.get(p.name, p.default)) for p in own]


def _with_operands(node: g.Node, visit: Callable[[g.Node], g.Node]) -> g.Node:
    match node:
        case g.Literal() | g.Length() | g.Index() | g.RowNumber():
            return node
        case g.Input(axis=g.Axis.SCALAR):
            return node
        case g.Map(args=args):
            return replace(node, args=tuple(visit(a) for a in args))
        case g.Own(args=args):
            return replace(node, args=tuple(visit(a) for a in args))
        case g.Field(own=own):
            state = visit(own)
            assert isinstance(state, g.Own)
            return replace(node, own=state)
        case g.Cast(arg=arg) | g.Reduce(arg=arg) | g.Inner(arg=arg) | g.TopK(arg=arg):
            return replace(node, arg=visit(arg))
        case g.Part(top=top):
            moved = visit(top)
            assert isinstance(moved, g.TopK)
            return replace(node, top=moved)
        case g.Take(arg=arg, index=index):
            return replace(node, arg=visit(arg), index=visit(index))
        case g.Input():
            raise InternalError(f"input {node.name} was not given")
        case _:
            assert_never(node)


class Text:
    """A function that fusegen made: what a Pipeline asks of one that a user wrote.

    It stands at `origin`, whose text it shows and whose local variables name its nodes.
    """

    def __init__(
        self, name: str, doc: str, origin: Callable[..., Any], parameters: Sequence[Parameter],
        body: Callable[..., Any],
    ) -> None:
        self.__name__ = self.__qualname__ = name
        self.__doc__ = doc
        self.__module__ = origin.__module__
        self.__code__ = origin.__code__
        self.__wrapped__ = origin
        self.__signature__ = Signature(list(parameters))
        self._body = body

    def __call__(self, *arrays: Any, **constants: Any) -> Any:
        return self._body(*arrays, **constants)
