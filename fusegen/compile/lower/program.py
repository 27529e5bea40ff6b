"""The whole program: kernels, the arrays between them, and what each element costs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Literal

from fusegen.compile.fusion import Fusion, Stage
from fusegen.compile.lower.lines import used_twice
from fusegen.compile.lower.rows import RowScope, SweepParts
from fusegen.compile.lower.sweep import SweepBuilder
from fusegen.ir import dtypes as dt
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import DTypeError, PipelineError
from fusegen.ir.expressions import Names
from fusegen.ir.forms import Grouping
from fusegen.ir.kernel import ElementStore, Kernel, ListStore, Param, Program, RowStore
from fusegen.ir.kinds import compute_dtype, infer_kinds
from fusegen.ir.monoid import Monoid
from fusegen.ir.products import shared_products


def lower(
    graph: g.Graph, derivation: Derivation, fusion: Fusion, dtypes: Mapping[str, DType],
    grouping: Grouping,
) -> Program:
    """Lower to kernels for arrays of these types (by input name)."""
    return _Lowering(graph, derivation, fusion, dtypes, grouping).run()


class _Lowering:
    def __init__(
        self, graph: g.Graph, derivation: Derivation, fusion: Fusion,
        dtypes: Mapping[str, DType], grouping: Grouping,
    ) -> None:
        self.graph, self.fusion, self.dtypes = graph, fusion, dtypes
        # Known zeros hold digits that inputs of 16 bits do not have.
        narrow = all(d.kind == "float" and d.itemsize < 4 for d in dtypes.values())
        self.derivation = derivation.without_zeros if narrow else derivation
        kinds = infer_kinds(graph, dtypes)
        self.names = Names(graph, kinds, shared_products(graph, kinds))
        self.compute = compute_dtype(graph, dtypes)
        # Sweeps that share a launch share the row's values; a row that blocks share, or that every
        # reduction reads again, has a launch for each, and its values lie in memory in between.
        whole = grouping == "rows" and fusion.form != "unfused"
        stages = fusion.stages
        self.groups = [stages] if whole else [(s,) for s in stages]
        self.crossing: dict[g.Node, Param] = {}
        self.stored = {  # elements that are written once, and read by later sweeps
            n: Param(f"{graph.names[n]}_stored", self._kept_dtype(n), "element")
            for n in graph.nodes if n in fusion.materialised
        }
        self.lines = used_twice(graph, fusion, self.derivation, self.stored)
        self.outputs = tuple(
            self._output(node, name, like)
            for node, name, like in zip_longest(graph.outputs, graph.output_names, graph.like)
        )

    def run(self) -> Program:
        """States first, then what is stored: to ask for a row value puts it where it is first
        known, and notes it in `crossing` where another kernel knows it."""
        scopes = [self._scope(group) for group in self.groups]
        builders = [
            [self._sweep(stage, scope) for stage in group]
            for group, scope in zip(self.groups, scopes, strict=True)
        ]
        stores = [
            [self._element_stores(stage, b) for stage, b in zip(group, row, strict=True)]
            for group, row in zip(self.groups, builders, strict=True)
        ]
        self._store_results(scopes)
        self._store_crossing(scopes)
        kernels = tuple(
            self._kernel(i, scope, row, kept)
            for i, (scope, row, kept) in enumerate(zip(scopes, builders, stores, strict=True))
        )
        inputs = {p.name: p for k in kernels for p in k.params}
        made = {p.name for p in (*self.outputs, *self.crossing.values(), *self.stored.values())}
        return Program(
            name=self.graph.name, loc=self.graph.loc, form=self.fusion.form, kernels=kernels,
            inputs=tuple(p for n, p in inputs.items() if n not in made), outputs=self.outputs,
            workspace=(*self.stored.values(), *self.crossing.values()),
            proof=self._proof(),
        )

    # ---- building blocks ----

    def _scope(self, group: tuple[Stage, ...]) -> RowScope:
        scope = RowScope(self.names, self.fusion, self.dtypes, self.compute, self._cross)
        scope.sweeps = {stage.number: SweepParts(stage.number) for stage in group}
        return scope

    def _sweep(self, stage: Stage, scope: RowScope) -> SweepBuilder:
        builder = SweepBuilder(
            self.names, self.fusion, self.derivation, scope, scope.sweeps[stage.number],
            {n: p for n, p in self.stored.items() if n not in stage.stores},
            self.lines,
        )
        builder.fold(stage)
        return builder

    def _element_stores(self, stage: Stage, builder: SweepBuilder) -> tuple[ElementStore, ...]:
        found: list[ElementStore] = []
        for node in stage.stores:
            params = [p for n, p in zip(self.graph.outputs, self.outputs, strict=True) if n is node]
            if node in self.stored:
                kept = self.stored[node]
                params.append(Param(kept.name, kept.dtype, "element", output=True))
            found += builder.store(node, params)
        return tuple(found)

    def _home(self, scopes: list[RowScope], finish: int) -> tuple[RowScope, SweepParts]:
        """Where a value is known: after sweep `finish`, or, if it needs none, in the first."""
        for scope in scopes:
            if finish in scope.sweeps:
                return scope, scope.sweeps[finish]
        first = scopes[0]
        return first, next(iter(first.sweeps.values()))

    def _store_results(self, scopes: list[RowScope]) -> None:
        for node, param in zip(self.graph.outputs, self.outputs, strict=True):
            if param.shape == "element":
                continue
            scope, parts = self._home(scopes, self.fusion.finish[node])
            scope.param(param)
            note = self.names.note(node)
            if param.shape == "list":
                entries, value = scope.entries(node)
                parts.list_stores.append(ListStore(param.name, entries, value, note))
            else:
                parts.row_stores.append(RowStore(param.name, scope.value(node), note))

    def _store_crossing(self, scopes: list[RowScope]) -> None:
        done: set[g.Node] = set()  # a value that crosses may be made of others that do
        while todo := [n for n in self.crossing if n not in done]:
            for node in todo:
                done.add(node)
                scope, parts = self._home(scopes, self.fusion.finish[node])
                kept = self.crossing[node]
                scope.param(Param(kept.name, kept.dtype, "row", output=True))
                note = self.names.note(node)
                parts.row_stores.append(RowStore(kept.name, scope.value(node), note))

    def _kernel(
        self, number: int, scope: RowScope, builders: list[SweepBuilder],
        stores: list[tuple[ElementStore, ...]],
    ) -> Kernel:
        sweeps = tuple(b.build(s) for b, s in zip(builders, stores, strict=True))
        suffix = "" if len(self.groups) == 1 else f"_{number + 1}_{_purpose(sweeps[0].monoid)}"
        return Kernel(
            name=f"{self.graph.name}{suffix}", compute=self.compute,
            params=tuple(scope.params.values()), prelude=tuple(scope.prelude), sweeps=sweeps,
        )

    # ---- arrays ----

    def _kept_dtype(self, node: g.Node) -> DType:
        kind = self.names.kinds[node]
        return self.compute if kind == "float" else dt.INT64 if kind == "int" else dt.BOOL

    def _cross(self, node: g.Node) -> Param:
        """Where a row value travels between kernels; noted when a later one first asks for it."""
        kept = Param(f"{self.graph.names[node]}_kept", self._kept_dtype(node), "row")
        return self.crossing.setdefault(node, kept)

    def _output(self, node: g.Node, name: str, like: str | None) -> Param:
        dtype = self._result_dtype(node) if like is None else self.dtypes[like]
        if like is not None and dtype.kind != "float":
            raise DTypeError(f"{like} holds {dtype} values: it has no gradient", where=node.loc)
        extent = g.extent(node)
        if isinstance(node, g.TopK):
            raise PipelineError("a top-K result is (values, indices)", where=node.loc)
        if extent is g.Extent.LIST:
            (top,) = g.lists_of(node)
            return Param(name, dtype, "list", output=True, k=top.k)
        shape: Literal["element", "row"] = "element" if extent is g.Extent.ELEMENT else "row"
        return Param(name, dtype, shape, output=True)

    def _result_dtype(self, node: g.Node) -> DType:
        """As the input for floats and for picked integers; int64 for computed ones."""
        kind = self.names.kinds[node]
        if isinstance(node, g.Cast):
            return node.dtype
        if kind == "bool":
            return dt.BOOL
        if kind == "float":
            return self._float_dtype()
        match node:
            case g.Input(name=name):
                return self.dtypes[name]
            case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=arg):
                return self._result_dtype(arg)
            case g.Part(top=top, field="values"):
                return self._result_dtype(top.arg)
            case _:
                return dt.INT64

    def _float_dtype(self) -> DType:
        """Of results: that of all float elements, if it is one. Sums of float64 stay so."""
        if self.compute == dt.FLOAT64:
            return dt.FLOAT64
        found = {
            self.dtypes[i.name] for i in self.graph.inputs
            if i.axis is g.Axis.ELEMENT and self.dtypes[i.name].kind == "float"
        }
        return found.pop() if len(found) == 1 else dt.FLOAT32

    def _proof(self) -> tuple[tuple[str, str], ...]:
        if self.fusion.form in ("unfused", "safe"):
            return (("as written, nothing merged", "text"),)  # whatever could be
        found: list[tuple[str, str]] = [(o.name, o.status) for o in self.derivation.obligations]
        found += [(r.what, "own sweep") for r in self.derivation.refusals]
        return tuple(dict.fromkeys(found))


def _purpose(monoid: Monoid) -> str:
    return monoid.components[0].name if monoid.components else "map"
