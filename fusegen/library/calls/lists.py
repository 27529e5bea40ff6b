"""Gradients of lists: the columns that a call's top-Ks chose are saved, the values are not.

The rest is the gradient of a text that is given these columns: library/gradient/given_lists.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusegen.backend.arrays.rows import Rows, tail_of
from fusegen.ir import graph as g
from fusegen.library.calls.backward import Call
from fusegen.library.calls.framework import Framework, Like
from fusegen.library.gradient.given_lists import Picked, columns_of, has_lists
from fusegen.pipeline.pipeline import Pipeline


@dataclass(frozen=True, eq=False)
class Lists:
    """Calls with lists, and the same calls with their columns given."""

    origin: Call
    picked: Picked
    chosen: Pipeline  # returns the columns
    graph: g.Graph
    rows: Rows
    framework: Framework

    @property
    def call(self) -> Call:
        """Of the text that is given the columns. Its rows are as the call's, without keepdims."""
        return replace(self.origin, pipeline=self.picked, keepdims=False,
                       constants=self._varying(self.origin.constants))

    def _varying(self, constants: Mapping[str, Any]) -> dict[str, Any]:
        return {n: constants[n] for n in self.graph.varying}

    def columns(
        self, constants: Mapping[str, Any], arrays: Mapping[str, Any], outputs: Sequence[Any]
    ) -> list[Any]:
        """The columns of every top-K, as lists: results of the call, else found again."""
        made = {_chooser(n): o for n, o in zip(self.graph.outputs, outputs, strict=True)}
        if all(top in made for top in self.picked.tops):
            return [made[top] for top in self.picked.tops]
        again = replace(self.origin, pipeline=self.chosen, constants=self._varying(constants))
        found = again.run([arrays[n] for n in self.chosen.signature.arrays])
        return list(found)

    @property
    def names(self) -> tuple[str, ...]:
        """What `picked` calls the entries of the columns."""
        arrays = self.picked.signature.arrays
        return arrays[len(arrays) - sum(top.k for top in self.picked.tops) :]

    @property
    def like(self) -> dict[str, Like]:
        """Of the entries."""
        return {n: Like(self.rows.lead, "int64") for n in self.names}

    def named(self, columns: Sequence[Any]) -> dict[str, Any]:
        """The columns as `picked` takes them: one array of row values for each entry."""
        entries = [e for c, top in zip(columns, self.picked.tops, strict=True)
                   for e in self._split(c, top.k)]
        return dict(zip(self.names, entries, strict=True))

    def cotangents(self, given: Sequence[Any]) -> list[Any]:
        """The cotangents as `picked` has outputs."""
        found: list[Any] = []
        for position, size in zip(self.picked.positions, self.picked.sizes, strict=True):
            found += self._split(given[position], size) if size else [given[position]]
        return found

    def _split(self, array: Any, k: int) -> Sequence[Any]:
        """A list's K entries, each in the shape of the rows."""
        sizes, places = tail_of(self.rows, "list", k)
        assert sizes[-1] == k
        first = self.framework.fronted(array, places[-1])
        return self.framework.entries(first.reshape(k, *self.rows.lead))


def lists_of(call: Call, like: Mapping[str, Any], framework: Framework) -> Lists | None:
    """None for a call whose gradient meets no list. like: arrays of these shapes. Raises
    TraceError for lists that are long."""
    pipeline, traced = call.pipeline, call.of(like)
    key = ("picked", traced.digest, traced.graph.guards)
    found: tuple[Any, ...] | None = pipeline.derived.get(key)
    if found is None:
        found = ()
        if has_lists(traced.graph):
            picked = Picked(pipeline, traced.graph)
            found = picked, columns_of(pipeline, picked), traced.graph
        pipeline.derived.put(key, found)
    if not found:
        return None
    picked, chosen, graph = found  # the trace that `picked` is of: the text may be traced again
    rows = framework.rows_in(graph.inputs, like, call.axis, call.keepdims)
    return Lists(call, picked, chosen, graph, rows, framework)


def _chooser(node: g.Node) -> g.Node | None:
    """The top-K whose columns an output is, whatever type they have."""
    while isinstance(node, g.Cast):
        node = node.arg
    return node.top if isinstance(node, g.Part) and node.field == "indices" else None
