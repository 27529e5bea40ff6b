"""Sums about maxima, with elements that are measured in steps: what the derivation says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fusegen.ir import graph as g
from fusegen.ir.derivation import Base, Basis, Commuted, Dependent, Derivation, Entry, Shifted
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.monoid import move_name
from fusegen.ir.names import Taken
from fusegen.rewrite.scales.factor import Factor, Multiple, multiple, taken_apart


@dataclass(frozen=True, slots=True)
class Steps:
    """How many steps an element is from a maximum: factor times the distance of their bases.
    outer: the part of it that stands before the distance in the sums; there it is the element's
    own."""

    peak: g.Node
    factor: Factor
    outer: Factor


def steps_of(
    entry: Dependent, s: Shifted, graph: g.Graph, peaks: Mapping[g.Node, Multiple], *,
    constants: bool,
) -> Steps | None:
    """None where elements are measured as they are."""
    pivot = graph[s.pivot]
    if s.action != "shift" or s.unit or pivot not in peaks:
        return None
    element, known = multiple(graph[s.atom]), peaks[pivot]
    if element != known:
        return None
    outer = _common({s.name, move_name(s.pivot, "shift")}, entry.basis, graph)
    factor = outer * known.factor
    return Steps(pivot, factor, outer) if factor.moves_out(constants=constants) else None


def _common(names: set[str], basis: tuple[Basis, ...], graph: g.Graph) -> Factor:
    """What stands before a distance wherever it is used, or 1."""
    exprs = [b.lift for b in basis] + [f for b in basis for _, f in b.transport]
    found = {c for e in exprs for c in _factors(e, names, graph)}
    return found.pop() if len(found) == 1 else Factor()


def _factors(expr: Expr, names: set[str], graph: g.Graph) -> Iterator[Factor]:
    factor, inner = taken_apart(expr, graph.by_name.get)
    if isinstance(inner, Var):
        if inner.name in names:
            yield factor
    elif isinstance(inner, Call):
        for arg in inner.args:
            yield from _factors(arg, names, graph)


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The text's graph, and what has become of its nodes."""

    text: g.Graph
    graph: g.Graph
    new: Mapping[g.Node, g.Node]
    greatest: Mapping[g.Node, g.Node]
    peaks: Mapping[g.Node, Multiple]
    steps: Mapping[tuple[str, str], Steps]  # by entry and shift
    factors: Mapping[Factor, g.Node]

    def derivation(self, text: Derivation) -> Derivation:
        """Of the new graph: its maxima, and sums about them."""
        names = [self.graph.names[n] for n in self.graph.reductions]
        taken = Taken(self.graph.names.values())
        known = {e.name: e for e in text}
        entries = (self._entry(known[n], taken) if n in known else Base(n) for n in names)
        return replace(text, entries=tuple(entries))

    def _entry(self, entry: Entry, taken: Taken) -> Entry:
        match entry:
            case Dependent(shifts=shifts):
                for s in shifts:
                    steps = self.steps.get((entry.name, s.name))
                    entry = entry if steps is None else self._in_steps(entry, s, steps, taken)
            case Commuted(atom=atom):
                element = multiple(self.text[atom])
                if any(element.base is peak.base for peak in self.peaks.values()):
                    entry = replace(entry, atom=self.graph.names[self.new[element.base]])
        return entry

    def _in_steps(self, entry: Dependent, s: Shifted, steps: Steps, taken: Taken) -> Dependent:
        pivot, element = self.text[s.pivot], multiple(self.text[s.atom])
        peak = self.graph.names[self.greatest[pivot]]
        name = s.name if steps.outer.is_one else taken.free(f"{s.name}_scaled")
        node = self.factors[steps.factor]
        factor = Lit(node.value) if isinstance(node, g.Literal) else Var(self.graph.names[node])
        put: dict[str, Expr] = {
            s.name: Var(name, "float", varying=True),
            move_name(s.pivot, "shift"): steps.factor.times(
                Var(move_name(peak, "shift")), self.graph.names),
        }
        basis = tuple(
            Basis(self._without(b.lift, put, steps.outer),
                  tuple((k, self._without(f, put, steps.outer)) for k, f in b.transport))
            for b in entry.basis
        )
        shift = Shifted(name, self.graph.names[self.new[element.base]], peak, "shift",
                        factor=factor)
        return replace(entry, basis=basis,
                       shifts=tuple(shift if other is s else other for other in entry.shifts))

    def _without(self, expr: Expr, put: Mapping[str, Expr], outer: Factor) -> Expr:
        """An expression of distances in steps."""
        factor, inner = taken_apart(expr, self.text.by_name.get)
        if isinstance(inner, Var) and inner.name in put and factor == outer:
            return put[inner.name]
        if isinstance(expr, Call):
            return Call(expr.op, tuple(self._without(a, put, outer) for a in expr.args))
        return put.get(expr.name, expr) if isinstance(expr, Var) else expr
