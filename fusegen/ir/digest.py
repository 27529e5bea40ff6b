"""What tells nodes from one another, and graphs: the name under which things are kept."""

from __future__ import annotations

import hashlib
from typing import Any, assert_never

from fusegen.ir import graph as g
from fusegen.ir.errors import InternalError


def attributes(node: g.Node) -> tuple[Any, ...]:
    """What tells a node from others with the same operands; hashable, without the location."""
    match node:
        case g.Input(name=name, axis=g.Axis.SCALAR, formula=formula, magnitude=m):
            return ("scalar", name, repr(formula), m)
        case g.Input(name=name, axis=axis):
            return ("input", name, axis.value)
        case g.Literal(value=value):
            if type(value) not in (bool, int, float):
                raise InternalError(f"a literal of type {type(value).__name__}")
            return ("literal", type(value).__name__, repr(value))
        case g.Length() | g.RowNumber() | g.Inner() | g.Take():
            return (type(node).__name__.lower(),)
        case g.Index(sections=sections, least=least):
            return ("index", sections, least)
        case g.Map(op=op):
            return ("map", op)
        case g.Cast(dtype=dtype):
            return ("cast", dtype.name)
        case g.Reduce(fold=fold):
            return ("reduce", fold.value)
        case g.TopK(k=k, largest=largest):
            return ("topk", k, largest)
        case g.Part(field=field):
            return ("part", field)
        case g.Own(operator=operator):
            return ("own", operator.name, operator.key)
        case g.Field(name=name):
            return ("field", name)
        case _:
            assert_never(node)


def digest(graph: g.Graph) -> str:
    """A hash of all that generated source depends on: structure, names, lines; not folders."""
    parts = [graph.name, graph.loc.short, *_structure(graph)]
    parts += [repr((graph.names[n], n in graph.named, n.loc.short, n.loc.text))
              for n in graph.nodes]
    return _hashed(parts)


def meaning(graph: g.Graph) -> str:
    """A hash of what a graph computes, the same in every process that has its text: a function that
    came by value has neither its file's name nor, on another machine, its lines."""
    return _hashed(_structure(graph))


def _structure(graph: g.Graph) -> list[str]:
    number = {n: i for i, n in enumerate(graph.nodes)}
    parts = [repr(graph.output_names), repr((graph.allow_cancellation, graph.like))]
    parts += [repr((attributes(n), [number[a] for a in g.operands(n)])) for n in graph.nodes]
    parts.append(repr([number[n] for n in graph.outputs]))
    parts.append(repr([i.name for i in graph.inputs]))
    return parts


def _hashed(parts: list[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
