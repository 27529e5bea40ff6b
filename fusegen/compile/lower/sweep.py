"""One sweep under construction: what it loads, folds and stores."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import islice

from fusegen.compile.fusion import Fusion, Stage
from fusegen.compile.lower.forgetting import forgetful
from fusegen.compile.lower.readout import by_choice, weighed
from fusegen.compile.lower.rows import RowScope, SweepParts
from fusegen.compile.lower.state import StateBuilder, type_names
from fusegen.compile.lower.unusable import without_pivot
from fusegen.ir import graph as g
from fusegen.ir import walk
from fusegen.ir.derivation import Commuted, Dependent, Derivation, Own
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import ONE, Expr, Lit, Var, call, is_long, substitute, variables
from fusegen.ir.expressions import Names, convert, expression, operation, turned
from fusegen.ir.kernel import N_COLS, ElementStore, FromMemory, Let, Param, Sweep
from fusegen.ir.names import Taken

_MIRROR = {
    g.Fold.MAX: g.Fold.MIN, g.Fold.MIN: g.Fold.MAX,
    g.Fold.ARGMAX: g.Fold.ARGMIN, g.Fold.ARGMIN: g.Fold.ARGMAX,
}


@dataclass
class SweepBuilder:
    """Lowers the reductions and stores of one stage."""

    names: Names
    fusion: Fusion
    derivation: Derivation
    scope: RowScope
    parts: SweepParts
    stored: dict[g.Node, Param]  # materialised element values
    lines: Collection[g.Node]  # what has a line of its own, whether or not it has a name
    state: StateBuilder = field(init=False)
    elements: dict[g.Node, Expr] = field(default_factory=dict)  # spelled so far
    lets: dict[g.Node, Let] = field(default_factory=dict)  # those with a line of their own
    loads: dict[str, None] = field(default_factory=dict)  # arrays, as they are met
    notes: dict[str, str] = field(default_factory=dict)  # component → the user's line

    def __post_init__(self) -> None:
        graph = self.names.graph
        self.state = StateBuilder(Taken(graph.names.values()), type_names(graph))

    def fold(self, stage: Stage) -> None:
        """Put the stage's reductions into the state, and their row values into the scope."""
        for node in sorted(stage.folds, key=lambda n: not self._is_count(n)):
            before = [len(part) for part in self.state.parts]
            self._fold_one(node)
            # Components are shared: a line belongs to the first reduction that needs one.
            for part, known in zip(self.state.parts, before, strict=True):
                for name in islice(reversed(part), len(part) - known):
                    self.notes[name] = self.names.note(node)

    def _is_count(self, node: g.Reduction) -> bool:
        """Does it count, as merged sums may that ask for numbers? They take what is there."""
        return isinstance(node, g.Reduce) and node.fold is g.Fold.SUM and (
            self.names.kinds[node] == "int" and not g.reductions_of(node.arg))

    # ---- elements ----

    def element(self, node: g.Node) -> Expr:
        """The element expression of a node; shared and named ones get a line of their own."""
        for n in walk.in_order((node,), self._operands, self.elements.__contains__):
            self.elements[n] = self._element(n)
        return self.elements[node]

    def _operands(self, node: g.Node) -> tuple[g.Node, ...]:
        row = g.extent(node) is g.Extent.ROW
        return () if row or node in self.stored else g.operands(node)

    def _element(self, node: g.Node) -> Expr:
        if g.extent(node) is g.Extent.ROW:
            return self.scope.value(node)
        if node in self.stored:
            self.scope.param(self.stored[node])
            self.loads[self.stored[node].name] = None
            return Var(self.stored[node].name, self.names.kinds[node], varying=True)
        if isinstance(node, g.Input):
            self.loads[self.scope.element_param(node).name] = None
            return self.names.var(node)
        inner = [self.elements[a] for a in g.operands(node)]
        one = isinstance(node, g.Inner)  # of one number: see lower/vectors.py
        spelled = inner[0] if one else operation(node, inner, self.names)
        own_line = one or (isinstance(node, g.Map | g.Cast) and (
            node in self.names.graph.named or node in self.lines or is_long(spelled)
        ))
        if not own_line:
            return spelled
        self.lets[node] = Let(self.names.of(node), spelled, self.names.note(node))
        return self.names.var(node)

    # ---- reductions ----

    def _fold_one(self, node: g.Reduction) -> None:
        """Its components, and how its row value is read out of them. Read-outs are functions: they
        run when the value is asked for, which puts what they are made of into the row's steps."""
        name = self.names.of(node)
        entry = self.derivation[name]
        if isinstance(node, g.Own):
            assert isinstance(entry, Own)
            self._fold_own(node, entry)
            return
        match self.fusion.modes[node], entry:
            case "merged", Dependent():
                self._fold_merged(node, entry)
            case "commuted", Commuted():
                self._fold_commuted(node, entry)
            case _, _ if isinstance(node, g.TopK):
                lift = self.element(node.arg)
                best = self.state.top(name, node.k, lift if node.largest else turned(lift))
                self.scope.lists[node] = (best, None, True)
            case _:
                assert isinstance(node, g.Reduce)
                value = self.state.plain(node, name, self.element(node.arg))
                self.scope.readouts[node] = lambda: value

    def _fold_own(self, node: g.Own, entry: Own) -> None:
        lifts = tuple(
            convert(self.element(a), f.kind)
            for f, a in zip(node.operator.fields, node.args, strict=True)
        )
        held = self.state.monoid(node, entry.name, lifts, ordered=entry.ordered)
        for part in self.names.graph.nodes:
            if isinstance(part, g.Field) and part.own is node:
                self.scope.readouts[part] = self._member(held.name, part)

    def _member(self, own: str, part: g.Field) -> Callable[[], Expr]:
        return lambda: Var(f"state.{own}.{part.name}", self.names.kinds[part])

    def _fold_commuted(self, node: g.Reduce | g.TopK, entry: Commuted) -> None:
        """max f(x) = f(max x) where f rises, f(min x) where it falls: the atom x is folded, and f
        is computed of what is left. A list of the greatest f(x) holds −x where f falls."""
        atom = self.names.graph[entry.atom]
        held = self.element(atom)
        if isinstance(node, g.TopK):
            lift = held if entry.increasing else call("neg", held)
            best = self.state.top(entry.name, node.k, lift if node.largest else turned(lift))
            self.scope.lists[node] = (best, atom, entry.increasing)
            return
        fold = node.fold if entry.increasing else _MIRROR[node.fold]
        inner = g.Reduce(fold, atom, node.loc)
        value = self.state.plain(inner, f"{entry.name}_{entry.atom}", held)
        if node.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN):
            self.scope.readouts[node] = lambda: value
        else:
            self.scope.readouts[node] = lambda: self.scope.at_element(node.arg, atom, value)

    def _fold_merged(self, node: g.Reduce | g.TopK, entry: Dependent) -> None:
        """Sums over elements as they are from the pivots of the elements so far. What the text asks
        of the final row values is in the read-out: its coefficients, and what holds without a
        pivot."""
        graph = self.names.graph
        for s in entry.shifts:
            unit = ""
            if s.unit:
                unit = self.state.pivot(s.unit, "scale", self._running(graph[s.unit])).name
            pivot = self.state.pivot(s.pivot, s.action, self._running(graph[s.pivot]), unit)
            self.state.relative(s.name, convert(self.element(graph[s.atom]), "float"), pivot,
                                self._spell(s.factor))
        total = self.state.merged(entry, self._spell, self._given(entry),
                                  forgetful=forgetful(entry, graph),
                                  whole=self.names.kinds[node] == "int")
        mean = isinstance(node, g.Reduce) and node.fold is g.Fold.MEAN

        def value(part: Expr) -> Expr:
            found = self._spell(part)
            return call("div", found, call("to_float", N_COLS)) if mean else found

        taken = self.state.counted(entry)

        def readout() -> Expr:
            found = numbers()
            return found if taken is None else \
                call("where", call("eq", taken, _zero(taken)), _zero(found), found)

        def numbers() -> Expr:
            usable = self.state.usable(entry, lambda name: self.scope.value(graph[name]))
            if usable is None:
                return value(total)
            pivots = {s.pivot: graph[s.pivot] for s in entry.shifts}
            other = without_pivot(entry, pivots, self.scope.value, weighed)
            moving = {f"state.{name}" for name in self.state.moving}
            return by_choice(total, self._spell, lambda part: call(
                "where", usable, value(part), self._spell(other)), value,
                lambda part: not moving.isdisjoint(variables(part)))

        self.scope.readouts[node] = readout

    def _given(self, entry: Dependent) -> dict[str, Expr]:
        """What transports are made of beside moves: numbers of the call and of the row, which are
        known before it is folded. Every merge has them at hand."""
        known = self.names.graph.by_name
        used = dict.fromkeys(n for b in entry.basis for _, f in b.transport for n in variables(f))
        return {n: convert(self.scope.value(known[n]), "float") for n in used if n in known}

    def _running(self, node: g.Node) -> Expr:
        return convert(self._so_far(node), "float")

    def _so_far(self, node: g.Node) -> Expr:
        """A pivot's value over the elements folded so far; what earlier sweeps finished is."""

        def leaf(n: g.Node) -> Expr | None:
            if 0 < self.fusion.finish[n] < self.parts.number:
                return self.scope.value(n)
            if g.is_reduction(n):
                if not isinstance(n, g.Reduce):
                    raise InternalError("a list cannot be a pivot")
                entry = self.derivation[self.names.of(n)]
                if isinstance(entry, Dependent):
                    return self._merged_so_far(n, entry)
                return self.state.so_far(n, self.names.of(n), self.element(n.arg))
            if isinstance(n, g.Length):
                return self.state.fold("sum", ONE, "count", own=False)
            return self.scope.value(n) if isinstance(n, g.Input) else None

        return expression(node, self.names, leaf)

    def _merged_so_far(self, node: g.Reduce, entry: Dependent) -> Expr:
        total = self.state.running(entry, lambda name: self._so_far(self.names.graph[name]))
        if node.fold is g.Fold.MEAN:
            return call("div", total, self.state.fold("sum", ONE, "count", own=False))
        return total

    def _spell(self, expr: Expr) -> Expr:
        """Graph names in a derived expression, in this sweep's own terms."""
        known = self.names.graph.by_name
        put: dict[str, Expr] = {}
        for var in variables(expr).values():
            if var.name in known and var.name not in self.state.relatives:
                node = known[var.name]
                row = g.extent(node) is not g.Extent.ELEMENT
                held = self.scope.value(node) if row else self.element(node)
                put[var.name] = convert(held, var.kind)
        return substitute(expr, put)

    # ---- stores ----

    def store(self, node: g.Node, params: Iterable[Param]) -> tuple[ElementStore, ...]:
        value = self.element(node.arg if isinstance(node, g.Cast) else node)
        note = self.names.note(node)
        value = convert(value, self.names.kinds[node])
        return tuple(ElementStore(self.scope.param(p).name, value, note) for p in params)

    def build(self, stores: tuple[ElementStore, ...]) -> Sweep:
        return Sweep(
            number=self.parts.number, loads=tuple(map(FromMemory, self.loads)),
            lets=tuple(self.lets.values()), monoid=self.state.build(),
            notes=tuple(self.notes.items()), steps=tuple(self.parts.steps),
            element_stores=stores, row_stores=tuple(self.parts.row_stores),
            list_stores=tuple(self.parts.list_stores),
        )


def _zero(like: Expr) -> Lit:
    return Lit(0, "int") if like.kind == "int" else Lit(0.0)
