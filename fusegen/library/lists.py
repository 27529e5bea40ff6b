"""Gradients of lists: the columns that a call's top-Ks chose are saved, the values are not.

The rest is the gradient of a text that is given these columns: fusegen.library.grad_lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.ir import graph as g
from fusegen.library.backward import Call
from fusegen.library.framework import Framework
from fusegen.library.grad_lists import Picked, columns_of, has_lists
from fusegen.pipeline.pipeline import Pipeline


@dataclass(frozen=True, eq=False)
class Lists:
    """A call with lists, and the same call with its columns given."""

    origin: Call
    picked: Picked
    chosen: Pipeline  # returns the columns
    framework: Framework

    @property
    def call(self) -> Call:
        """Of the text that is given the columns. Its rows are as the call's, without keepdims."""
        return replace(self.origin, pipeline=self.picked, constants={}, keepdims=False)

    def columns(self, arrays: Mapping[str, Any], outputs: Sequence[Any]) -> list[Any]:
        """The columns of every top-K, as lists: results of the call, else found again."""
        graph = self._graph(arrays)
        made = {_chooser(n): o for n, o in zip(graph.outputs, outputs, strict=True)}
        if all(top in made for top in self.picked.tops):
            return [made[top] for top in self.picked.tops]
        again = replace(self.origin, pipeline=self.chosen, constants={})
        found = again.run([arrays[n] for n in self.chosen.signature.arrays])
        return list(found)

    def named(self, columns: Sequence[Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The columns as `picked` takes them: one array of row values for each entry."""
        rows = self._rows(arrays)
        entries = [e for c, top in zip(columns, self.picked.tops, strict=True)
                   for e in self._split(c, top.k, rows)]
        names = self.picked.signature.arrays
        return dict(zip(names[len(names) - len(entries) :], entries, strict=True))

    def cotangents(self, given: Sequence[Any], arrays: Mapping[str, Any]) -> list[Any]:
        """The cotangents as `picked` has outputs."""
        rows, found = self._rows(arrays), []
        for position, size in zip(self.picked.positions, self.picked.sizes, strict=True):
            found += self._split(given[position], size, rows) if size else [given[position]]
        return found

    def _split(self, array: Any, k: int, rows: Rows) -> list[Any]:
        """A list's K entries, each in the shape of the rows."""
        sizes, places = tail_of(rows, "list", k)
        at = places[-1]
        assert sizes[-1] == k
        before = (slice(None),) * at
        return [array[(*before, i)].reshape(rows.lead) for i in range(k)]

    def _rows(self, arrays: Mapping[str, Any]) -> Rows:
        graph = self._graph(arrays)
        own = {i.name: arrays[i.name] for i in graph.inputs}
        return self.framework.rows_in(graph.inputs, own, self.origin.axis,
                                      self.origin.keepdims)

    def _graph(self, arrays: Mapping[str, Any]) -> g.Graph:
        present = frozenset(n for n in self.origin.pipeline.signature.arrays if n in arrays)
        return self.origin.pipeline.traced(present, dict(self.origin.constants)).graph


def lists_of(call: Call, arrays: Mapping[str, Any], framework: Framework) -> Lists | None:
    """None for a call whose gradient meets no list. Raises TraceError for lists that are long."""
    pipeline = call.pipeline
    traced = pipeline.traced(frozenset(arrays), dict(call.constants))
    key = ("picked", traced.digest)
    found: tuple[Any, ...] | None = pipeline.derived.get(key)
    if found is None:
        found = ()
        if has_lists(traced.graph):
            picked = Picked(pipeline, traced.graph)
            found = picked, columns_of(pipeline, picked)
        pipeline.derived.put(key, found)
    return Lists(call, found[0], found[1], framework) if found else None


def _chooser(node: g.Node) -> g.Node | None:
    """The top-K whose columns an output is, whatever type they have."""
    while isinstance(node, g.Cast):
        node = node.arg
    return node.top if isinstance(node, g.Part) and node.field == "indices" else None
