"""One kernel under construction: its parameters, its sweeps, and where each row value is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fusegen.compile.fusion import Fusion
from fusegen.ir import graph as g
from fusegen.ir import walk
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import Expr, Lit, Var, call
from fusegen.ir.expressions import Line, Names, convert, expression, operation, turned_back
from fusegen.ir.kernel import (
    Entries,
    Gather,
    Let,
    ListFold,
    ListStore,
    Param,
    RowStore,
    Shape,
    Step,
)
from fusegen.ir.monoid import FoldName, KBest

_LIST_FOLDS: dict[g.Fold, FoldName] = {
    g.Fold.MAX: "max", g.Fold.MIN: "min", g.Fold.SUM: "sum", g.Fold.PROD: "prod",
    g.Fold.MEAN: "sum",
}


@dataclass
class SweepParts:
    """What a sweep will consist of besides its state."""

    number: int
    steps: list[Step] = field(default_factory=list)
    row_stores: list[RowStore] = field(default_factory=list)
    list_stores: list[ListStore] = field(default_factory=list)


@dataclass
class RowScope:
    """Row and list values inside one kernel.

    `values` are row values already emitted here; `readouts` are those that a sweep of this kernel
    yields; `lists` the top-K states of its sweeps with the expression of the element they hold.
    """

    names: Names
    fusion: Fusion
    dtypes: Mapping[str, DType]
    compute: DType
    crossing: Callable[[g.Node], Param]  # where a row value of another kernel comes from
    params: dict[str, Param] = field(default_factory=dict)
    prelude: list[Step] = field(default_factory=list)
    sweeps: dict[int, SweepParts] = field(default_factory=dict)
    values: dict[g.Node, Expr] = field(default_factory=dict)
    met: set[g.Node] = field(default_factory=set)  # those, and list values looked into
    readouts: dict[g.Node, Callable[[], Expr]] = field(default_factory=dict)
    lists: dict[g.TopK, tuple[KBest, g.Node | None, bool]] = field(default_factory=dict)

    def param(self, param: Param) -> Param:
        return self.params.setdefault(param.name, param)

    def value(self, node: g.Node) -> Expr:
        """A row value, emitted where it becomes known; crosses kernels if made in another."""
        for n in walk.in_order((node,), self._operands, self.met.__contains__):
            if n in self.met:
                continue  # a read-out on the way has asked for it
            self.met.add(n)
            if g.extent(n) is g.Extent.ROW:
                self.values[n] = self._value(n)
        return self.values[node]

    def _operands(self, node: g.Node) -> tuple[g.Node, ...]:
        """What must be known, or be looked into, before the value is."""
        match node:
            case g.Map() | g.Cast() | g.Inner():
                return () if self._is_brought(node) else g.operands(node)
            case g.Take(index=index):
                is_row = g.extent(node) is g.Extent.ROW
                return () if is_row and self._is_foreign(node) else (index,)
            case g.Reduce(arg=arg) if not (g.is_reduction(node) or self._is_foreign(node)):
                return (arg,)
            case _:
                return ()

    def _value(self, node: g.Node) -> Expr:
        match node:
            case g.Literal() | g.Length():
                return operation(node, [], self.names)
            case g.Input():
                return self._input(node)
            case g.Map() | g.Cast() if self._is_brought(node):
                return self._import(node)
            case g.Map() | g.Cast():
                return self._map(node)
            case g.Inner(arg=arg):
                return self._emit(node, self.values[arg])  # of one number: see lower/vectors.py
            case g.Reduce() | g.Field() if node in self.readouts:
                return self._emit(node, self.readouts[node]())
            case g.Reduce() | g.Field() | g.Take() if self._is_foreign(node):
                return self._import(node)
            case g.Reduce():
                return self._list_fold(node)
            case g.Take():
                return self._take(node)
            case _:
                raise InternalError(f"{self.names.of(node)} is not a row value")

    def _input(self, node: g.Input) -> Expr:
        if node.axis is g.Axis.SCALAR:
            self.param(Param(self.names.of(node), self.compute, "scalar",
                             magnitude=node.magnitude))
        else:
            self.param(Param(self.names.of(node), self.dtypes[node.name], "row"))
        return self.names.var(node)

    def _map(self, node: g.Map | g.Cast) -> Expr:
        inner = operation(node, [self.values[a] for a in g.operands(node)], self.names)
        if isinstance(inner, Lit | Var):
            return inner
        return self._emit(node, inner)

    def _steps(self, node: g.Node) -> list[Step]:
        """The list of steps that runs as soon as the node's operands are known here."""
        sweep = self.sweeps.get(self.fusion.finish[node])
        return self.prelude if sweep is None else sweep.steps

    def _emit(self, node: g.Node, expr: Expr) -> Var:
        name = self.names.of(node)
        self._steps(node).append(Let(name, expr, self.names.note(node)))
        return Var(name, expr.kind)

    def _is_foreign(self, node: g.Node) -> bool:
        """Is it known after a sweep of another kernel? After sweep 0 is before any."""
        finish = self.fusion.finish[node]
        return finish > 0 and finish not in self.sweeps

    def _is_brought(self, node: g.Node) -> bool:
        """Is it a vector that another kernel makes? Elements are made of vectors, not of maths;
        arrays of vectors hold floats, and what conditions compare."""
        floats = self.names.kinds[node] == "float"
        return floats and node in self.names.graph.wide and self._is_foreign(node)

    def _import(self, node: g.Node) -> Var:
        param = self.param(self.crossing(node))
        return Var(param.name, self.names.kinds[node])

    # ---- lists ----

    def entry(self, node: g.Node, gathers: list[Let | Gather]) -> Expr:
        """A list value as an expression over one entry."""

        def leaf(n: g.Node) -> Expr | None:
            match n:
                case g.Part(top=top, field="indices"):
                    return Var(self.lists[top][0].column, "int", varying=True)
                case g.Part(top=top):
                    return self._entry_value(top)
                case g.Take(index=index) if g.extent(n) is g.Extent.LIST:
                    return self._gather(n, self.entry(index, gathers), gathers, varying=True)
                case _ if g.extent(n) is not g.Extent.LIST:
                    return self.value(n)
                case _:
                    return None

        return expression(node, self.names, leaf, self._line_in(gathers))

    def _line_in(self, lines: list[Let] | list[Let | Gather]) -> Line:
        def line(node: g.Node, expr: Expr) -> Expr:
            name = self.names.of(node)
            lines.append(Let(name, expr, self.names.note(node)))
            return Var(name, expr.kind, expr.varying)

        return line

    def _entry_value(self, top: g.TopK) -> Expr:
        """f(atom) for the entry's atom; the entry itself where nothing commuted."""
        best, atom, increasing = self.lists[top]
        held: Expr = Var(best.value, best.kind, varying=True)
        held = held if top.largest else turned_back(held)
        if atom is None:
            return held
        return self.at_element(top.arg, atom, held if increasing else call("neg", held))

    def at_element(self, node: g.Node, atom: g.Node, held: Expr) -> Expr:
        """An element expression evaluated at one known value of its atom."""

        def leaf(n: g.Node) -> Expr | None:
            if n is atom:
                return held
            return self.value(n) if g.extent(n) is g.Extent.ROW else None

        return expression(node, self.names, leaf)

    def entries(self, node: g.Node) -> tuple[Entries, Expr]:
        """The scope and expression of a list value."""
        (top,) = g.lists_of(node)
        gathers: list[Let | Gather] = []
        value = self.entry(node, gathers)
        return Entries(self.lists[top][0].name, top.k, tuple(gathers)), value

    def _list_fold(self, node: g.Reduce) -> Expr:
        if node.fold not in _LIST_FOLDS:
            raise InternalError(f"{node.fold.value} over a list")
        entries, value = self.entries(node.arg)
        name = self.names.of(node)
        mean = node.fold is g.Fold.MEAN
        value = convert(value, "float") if mean else value
        fold = ListFold(name, _LIST_FOLDS[node.fold], entries, value, self.names.note(node))
        self._steps(node).append(fold)
        total = Var(name, value.kind)
        return call("div", total, Lit(float(entries.k))) if mean else total

    # ---- gathers ----

    def _take(self, node: g.Take) -> Expr:
        steps = self._steps(node)
        index = self.value(node.index)  # its own steps come first
        gathers: list[Let | Gather] = []
        found = self._gather(node, index, gathers, varying=False)
        steps.extend(gathers)
        return found

    def _gather(
        self, node: g.Take, index: Expr, into: list[Let | Gather], *, varying: bool
    ) -> Expr:
        name = self.names.of(node)
        loads: dict[str, None] = {}

        def leaf(n: g.Node) -> Expr | None:
            match n:
                case g.Input() if g.extent(n) is g.Extent.ELEMENT:
                    loads[self.element_param(n).name] = None
                    return Var(self.names.of(n), self.names.kinds[n], varying=True)
                case g.Index():  # the column that is read, not the one that a sweep is at
                    return Var(f"{name}_at", "int", varying=True)
                case _ if g.extent(n) is g.Extent.ROW:
                    return self.value(n)
                case _:
                    return None

        lets: list[Let] = []
        value = expression(node.arg, self.names, leaf, self._line_in(lets))
        into.append(
            Gather(name, index, tuple(loads), tuple(lets), value, self.names.note(node))
        )
        return Var(name, value.kind, varying)

    def element_param(self, node: g.Input) -> Param:
        shape: Shape = "per_column" if node.axis is g.Axis.PER_COLUMN else "element"
        return self.param(Param(self.names.of(node), self.dtypes[node.name], shape))
