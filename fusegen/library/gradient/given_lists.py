"""Top-K with its columns given: a text whose lists are K row values each, which has a gradient.

The columns that a top-K chose do not move with its input (where they would, two elements are
equal). With them as inputs the text holds no list any more: values are `take`s, sums over a list
are sums of K row values. fg.grad differentiates it as it does cross entropy.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir import walk
from fusegen.ir.errors import TraceError
from fusegen.ir.kinds import assumed_dtypes, infer_kinds
from fusegen.ir.names import Taken
from fusegen.lang import lang as fg
from fusegen.lang.value import PerRow, Value, builder, lift
from fusegen.pipeline.pipeline import Pipeline
from fusegen.rewrite.adjoint.transplant import Text, scalars_of, varying_parameters
from fusegen.rewrite.build import rebuilt

MOST = 64  # entries of a list: each is a term of every column's gradient

_OVER_A_LIST: Mapping[g.Fold, Callable[[Value, Value], Value]] = {
    g.Fold.SUM: lambda a, b: a + b, g.Fold.MEAN: lambda a, b: a + b,
    g.Fold.PROD: lambda a, b: a * b, g.Fold.MAX: fg.maximum, g.Fold.MIN: fg.minimum,
}


class Picked(Pipeline):
    """A pipeline's float outputs, its top-K columns given.

    Arrays: those of the pipeline that are present, then K per-row columns for each of `tops`.
    Outputs, flat: a list as K row values, others as they are; `positions` and `sizes` say which of
    the pipeline's outputs, and how many values (0: no list). Constants: those that vary.
    """

    def __init__(self, pipeline: Pipeline, graph: g.Graph) -> None:
        kinds = infer_kinds(graph, assumed_dtypes(graph, "float32"))
        self.positions = tuple(i for i, n in enumerate(graph.outputs) if kinds[n] == "float")
        self._graph, self._outputs = graph, [graph.outputs[i] for i in self.positions]
        self.tops = tuple(n for n in _needed(self._outputs) if isinstance(n, g.TopK))
        for top in self.tops:
            if top.k > MOST:
                raise TraceError(f"a list of {top.k} has no gradient here", where=top.loc,
                                 why=f"One of up to {MOST} has.",
                                 fix="Differentiate what comes before fg.topk.")
        self.sizes = tuple(_length(n) for n in self._outputs)
        theirs = inspect.signature(pipeline.fn).parameters
        own = [theirs[i.name].replace(default=Parameter.empty) for i in graph.inputs]
        constants = varying_parameters(graph)
        taken = Taken(p.name for p in (*own, *constants))
        columns = [Parameter(taken.free(f"column_{k}"), Parameter.POSITIONAL_OR_KEYWORD,
                             annotation=PerRow) for top in self.tops for k in range(top.k)]
        text = Text(pipeline.name, pipeline.__doc__ or "", pipeline.fn,
                    [*own, *columns, *constants], self._text)
        super().__init__(text, allow_cancellation=pipeline.allow_cancellation)

    @property
    def together(self) -> list[tuple[int, ...]]:
        """Positions of the outputs: those that are one list's are one group."""
        starts = itertools.accumulate((max(size, 1) for size in self.sizes), initial=0)
        return [tuple(range(a, b)) for a, b in itertools.pairwise(starts)]

    def _text(self, *arrays: Value, **constants: Any) -> Any:
        graph, rest = self._graph, iter(arrays[len(self._graph.inputs) :])
        known = scalars_of(graph, constants) | {
            i: lift(a) for i, a in zip(graph.inputs, arrays, strict=False)}
        columns = {top: [lift(next(rest)) for _ in range(top.k)] for top in self.tops}
        lists: dict[g.Node, list[g.Node]] = {}
        for node in _needed(self._outputs):
            if node in known:
                continue
            if g.extent(node) is g.Extent.LIST:
                lists[node] = _entries(node, known, lists, columns)
            elif isinstance(node, g.Reduce) and node.arg in lists:
                known[node] = _folded(node, lists[node.arg])
            else:
                known[node] = rebuilt(node, known.__getitem__)
                if node in graph.named:
                    builder().labels.setdefault(known[node], graph.names[node])
        return tuple(Value(n) for out in self._outputs for n in lists.get(out) or [known[out]])

    def recipe(self) -> tuple[Any, ...]:
        raise TypeError(f"{self.name} is of one process")


def columns_of(pipeline: Pipeline, picked: Picked) -> Pipeline:
    """What returns the columns that the pipeline's top-Ks choose, in the order of `tops`."""
    graph = picked._graph
    theirs = inspect.signature(pipeline.fn).parameters
    own = [theirs[i.name].replace(default=Parameter.empty) for i in graph.inputs]
    own += varying_parameters(graph)

    def text(*arrays: Value, **constants: Any) -> Any:
        known = scalars_of(graph, constants) | {
            i: lift(a) for i, a in zip(graph.inputs, arrays, strict=True)}
        for node in g.topological(picked.tops):
            if node not in known:
                known[node] = rebuilt(node, known.__getitem__)
        found = []
        for top in picked.tops:
            moved = known[top]
            assert isinstance(moved, g.TopK)
            found.append(builder().add(g.Part(moved, "indices", top.loc)))
        return tuple(found)

    made = Text(f"{pipeline.name}_columns", f"Columns of {pipeline.name}.", pipeline.fn, own, text)
    return Pipeline(made, allow_cancellation=pipeline.allow_cancellation)


def has_lists(graph: g.Graph) -> bool:
    """Does an output of floats take part in a top-K?"""
    kinds = infer_kinds(graph, assumed_dtypes(graph, "float32"))
    floats = [n for n in graph.outputs if kinds[n] == "float"]
    return any(isinstance(n, g.TopK) for n in _needed(floats))


def _needed(outputs: list[g.Node]) -> tuple[g.Node, ...]:
    """Nodes that outputs need when the columns are known; operands first. What only chooses
    columns is not among them, but where a condition asks for it too."""
    def inner(node: g.Node) -> tuple[g.Node, ...]:
        match node:
            case g.TopK():
                return ()
            case g.Part(top=top, field="values"):
                return (top, top.arg)
            case _:
                return g.operands(node)

    return walk.in_order(outputs, inner, lambda _: False)


def _length(node: g.Node) -> int:
    """Of a list; 0 for what is none."""
    return next(iter(g.lists_of(node))).k if g.extent(node) is g.Extent.LIST else 0


def _entries(
    node: g.Node, known: Mapping[g.Node, g.Node], lists: Mapping[g.Node, list[g.Node]],
    columns: Mapping[g.TopK, list[g.Node]],
) -> list[g.Node]:
    """The K row values that a list node stands for."""
    build = builder()
    match node:
        case g.TopK():
            return columns[node]
        case g.Part(top=top, field="indices"):
            return columns[top]
        case g.Part(top=top):
            return [build.add(g.Take(known[top.arg], c, node.loc)).node for c in columns[top]]
        case g.Cast(dtype=dtype, arg=arg) if dtype.kind == "int":
            return lists[arg]  # narrower columns are for memory
        case g.Take(arg=arg, index=index):
            return [build.add(g.Take(known[arg], c, node.loc)).node for c in lists[index]]
        case _:
            def entry(k: int) -> g.Node:
                return rebuilt(node, lambda a: lists[a][k] if a in lists else known[a])

            return [entry(k) for k in range(_length(node))]


def _folded(node: g.Reduce, entries: list[g.Node]) -> g.Node:
    """A fold over a list, entry by entry."""
    step = _OVER_A_LIST.get(node.fold)
    if step is None:
        raise TraceError(f"the {node.fold.value} of a list has no gradient", where=node.loc)
    total = functools.reduce(step, map(Value, entries))
    return (total / len(entries)).node if node.fold is g.Fold.MEAN else total.node
