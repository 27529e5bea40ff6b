"""Positive numbers stand outside of greatest elements, and of distances from these.

  max c·x = c · max x            c·x − max c·x = c · (x − max x)            for c > 0

So logits at a temperature are compared as they are, and an exponential about their greatest takes
one product more than of the logits themselves, whether the text divides them or what lies between
them. Roundings are monotone: the greatest is the text's, bit for bit; and of a distance one
product is rounded where the text rounds two elements. A greatest multiple that elements meet
otherwise, as where those equal to it are chosen, is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.ir.derivation import Base, Basis, Commuted, Dependent, Derivation, Entry, Shifted
from fusegen.ir.dtypes import Kind
from fusegen.ir.expr import Call, Expr, Lit, Var, walk
from fusegen.ir.literals import exact
from fusegen.ir.monoid import move_name
from fusegen.ir.names import Taken
from fusegen.lang.trace import unique_names
from fusegen.lang.value import ACTIVE, Builder
from fusegen.rewrite.build import at_element, call_it, fold, literal, op, rebuilt
from fusegen.rewrite.exponent import constant

_MOST = Fraction(2**60)
"""Of a factor and of its inverse: no product leaves the range that the text's would not."""


@dataclass(frozen=True, slots=True)
class Multiple:
    """factor · base."""

    base: g.Node
    factor: Fraction


def scales_outside(
    graph: g.Graph, derivation: Derivation, kinds: Mapping[g.Node, Kind]
) -> tuple[g.Graph, Derivation]:
    """A graph with its derivation, rewritten; they themselves where there is no such number."""
    about = {s.pivot for e in derivation if isinstance(e, Dependent) for s in e.shifts}
    about -= {p for r in derivation.repairs for p in r.pivots}
    found = ((n, _peak(n, derivation, graph)) for n in graph.reductions if graph.names[n] in about)
    peaks: dict[g.Node, Multiple] = {n: m for n, m in found if m and kinds[m.base] == "float"}
    users = _users(graph)
    peaks = {n: m for n, m in peaks.items() if m.factor == 1 or _is_only_a_pivot(n, users, graph)}
    if not peaks or any(isinstance(n, g.Inner) for n in graph.nodes):
        return graph, derivation
    build = Builder()
    for node in graph.nodes:
        build.add(node)
        build.labels[node] = graph.names[node]
    token = ACTIVE.set(build)
    try:
        return _Outside(graph, derivation, peaks, build).run()
    finally:
        ACTIVE.reset(token)


def _peak(node: g.Reduction, derivation: Derivation, graph: g.Graph) -> Multiple | None:
    """What a plain maximum is taken of."""
    if not isinstance(node, g.Reduce) or node.fold is not g.Fold.MAX:
        return None
    plain = isinstance(derivation[graph.names[node]], Base)
    return _multiple(node.arg) if plain else None


def _users(graph: g.Graph) -> Mapping[g.Node, list[g.Node]]:
    found: dict[g.Node, list[g.Node]] = {n: [] for n in graph.nodes}
    for node in graph.nodes:
        for arg in g.operands(node):
            found[arg].append(node)
    return found


def _is_only_a_pivot(
    peak: g.Node, users: Mapping[g.Node, list[g.Node]], graph: g.Graph
) -> bool:
    """Do elements meet it in exponents alone?"""

    def in_exponents(node: g.Node) -> bool:
        return node not in graph.outputs and all(
            isinstance(u, g.Map) and (
                u.op == "exp" or (u.op in ("mul", "div") and _multiple(u).base is not u
                                  and in_exponents(u)))
            for u in users[node])

    met = (u for u in users[peak] if g.extent(u) is g.Extent.ELEMENT)
    return all(isinstance(u, g.Map) and u.op == "sub" and in_exponents(u) for u in met)


def _multiple(node: g.Node) -> Multiple:
    """What stands before an expression of floats."""
    match node:
        case g.Map(op="mul", args=(a, b)) if (c := _positive(b)):
            inner, by = _multiple(a), c
        case g.Map(op="mul", args=(a, b)) if (c := _positive(a)):
            inner, by = _multiple(b), c
        case g.Map(op="div", args=(a, b)) if (c := _positive(b)):
            inner, by = _multiple(a), 1 / c
        case _:
            return Multiple(node, Fraction(1))
    return Multiple(inner.base, inner.factor * by)


def _positive(node: g.Node) -> Fraction | None:
    found = constant(node)
    return found if found is not None and found > 0 else None


@dataclass
class _Outside:
    graph: g.Graph
    derivation: Derivation
    peaks: Mapping[g.Node, Multiple]  # of the text's maxima
    build: Builder
    new: dict[g.Node, g.Node] = field(default_factory=dict)  # in place of the text's nodes
    greatest: dict[g.Node, g.Reduce] = field(default_factory=dict)  # of a maximum's elements

    def run(self) -> tuple[g.Graph, Derivation]:
        for node in self.graph.nodes:
            made = self._made(node)
            self.new[node] = made
            self.build.labels.setdefault(made, self.graph.names[node])
        outputs = tuple(self.new[n] for n in self.graph.outputs)
        nodes = g.topological((*self.graph.read, *outputs))
        names = unique_names(nodes, self.build, self.graph.names.values())
        names |= {i: self.graph.names[i] for i in self.graph.read}
        named = frozenset(self.new[n] for n in self.graph.named) & frozenset(nodes)
        graph = replace(self.graph, nodes=nodes, outputs=outputs, names=names, named=named)
        return graph, self._derivation(graph)

    def _made(self, node: g.Node) -> g.Node:
        if node in self.peaks:
            base = self.new[self.peaks[node].base]
            peak = fold(g.Fold.MAX, base, node.loc)
            assert isinstance(node, g.Reduce)
            assert isinstance(peak, g.Reduce)
            self.greatest[node] = peak
            if base is not node.arg:
                call_it(peak, f"max_{self.graph.names[self.peaks[node].base]}")
            return at_element(self.new[node.arg], base, peak)
        match node:
            case g.Map(op="exp", args=(arg,)) if (distance := self._distance(arg)):
                return op("exp", node.loc, distance)
            case _:
                return rebuilt(node, self.new.__getitem__)

    def _distance(self, arg: g.Node) -> g.Node | None:
        """factor · (x − max x), where an exponent is that."""
        outer = _multiple(arg)
        match outer.base:
            case g.Map(op="sub", args=(a, b)):
                element, peak = _multiple(a), _multiple(b)
            case _:
                return None
        known = self.peaks.get(peak.base)
        if known is None or known.base is not element.base or \
                element.factor != peak.factor * known.factor:
            return None
        factor = outer.factor * element.factor
        if factor == 1 or not 1 / _MOST < factor < _MOST:
            return None
        x, loc = self.new[element.base], outer.base.loc
        below = op("sub", loc, x, self.greatest[peak.base])
        return op("mul", loc, below, literal(float(factor), loc))

    # ---- the derivation ----

    def _derivation(self, graph: g.Graph) -> Derivation:
        """Of the new graph: its maxima, and sums about them."""
        entries: dict[str, Entry] = {}
        left = {graph.names[n] for n in graph.reductions}
        for node in graph.reductions:
            name = graph.names[node]
            if name not in {e.name for e in self.derivation}:
                entries[name] = Base(name)
        taken = Taken(graph.names.values())
        for entry in self.derivation:
            if entry.name in left:
                entries[entry.name] = self._entry(entry, graph, taken)
        return replace(self.derivation,
                       entries=tuple(entries[graph.names[n]] for n in graph.reductions))

    def _entry(self, entry: Entry, graph: g.Graph, taken: Taken) -> Entry:
        match entry:
            case Dependent(shifts=shifts):
                for s in shifts:
                    entry = self._scaled(entry, s, graph, taken) or entry
            case Commuted(atom=atom):
                element = _multiple(self.graph[atom])
                if any(element.base is peak.base for peak in self.peaks.values()):
                    entry = replace(entry, atom=graph.names[self.new[element.base]])
        return entry

    def _scaled(
        self, entry: Dependent, s: Shifted, graph: g.Graph, taken: Taken
    ) -> Dependent | None:
        """The sums with elements measured in steps of the number; None where there is none."""
        pivot = self.graph[s.pivot]
        if s.action != "shift" or s.unit or pivot not in self.peaks:
            return None
        element, known = _multiple(self.graph[s.atom]), self.peaks[pivot]
        if element != known or (known.factor < 1 and not _in_exponents(s.name, entry.basis)):
            return None  # a distance may leave the range where that of scaled elements does not
        before = move_name(s.pivot, "shift")
        outer = _common(s.name, before, entry.basis)
        factor = outer * known.factor
        if factor == 1 or not 1 / _MOST < factor < _MOST:
            return None
        peak = graph.names[self.greatest[pivot]]
        name = s.name if outer == 1 else taken.free(f"{s.name}_scaled")
        after = move_name(peak, "shift")
        put = {s.name: Var(name, "float", varying=True), before: Var(after)}
        basis = tuple(
            Basis(_without(b.lift, put, outer),
                  tuple((k, _without(f, put, outer)) for k, f in b.transport))
            for b in entry.basis
        )
        shift = Shifted(name, graph.names[self.new[element.base]], peak, "shift",
                        factor=float(factor))
        return replace(entry, basis=basis,
                       shifts=tuple(shift if other is s else other for other in entry.shifts))


def _in_exponents(name: str, basis: tuple[Basis, ...]) -> bool:
    """Are sums of an element's distance sums of its exponential, which is 0 far away?"""

    def uses(expr: Expr) -> bool:
        return any(isinstance(e, Var) and e.name == name for e in walk(expr))

    return all(
        any(isinstance(e, Call) and e.op == "exp" and uses(e) for e in walk(b.lift))
        for b in basis if uses(b.lift)
    )


def _common(name: str, move: str, basis: tuple[Basis, ...]) -> Fraction:
    """What stands before an element's distance wherever it is used, or 1."""
    exprs = [b.lift for b in basis] + [f for b in basis for _, f in b.transport]
    found = {c for e in exprs for c in _factors(e, {name, move})}
    return found.pop() if len(found) == 1 else Fraction(1)


def _factors(expr: Expr, names: set[str]) -> Iterator[Fraction]:
    """Before every use of these names."""
    factor, inner = _taken_apart(expr)
    if isinstance(inner, Var):
        if inner.name in names:
            yield factor
    elif isinstance(inner, Call):
        for arg in inner.args:
            yield from _factors(arg, names)


def _taken_apart(expr: Expr) -> tuple[Fraction, Expr]:
    """factor · expression."""
    match expr:
        case (Call(op="mul", args=(Lit(value=c), inner))
              | Call(op="mul", args=(inner, Lit(value=c)))):
            factor, inner = _taken_apart(inner)
            return factor * exact(c), inner
        case Call(op="div", args=(inner, Lit(value=c))):
            factor, inner = _taken_apart(inner)
            return factor / exact(c), inner
        case _:
            return Fraction(1), expr


def _without(expr: Expr, put: Mapping[str, Var], factor: Fraction) -> Expr:
    """An expression with new names for distances that are measured in steps of 1 / factor."""
    if not any(isinstance(e, Var) and e.name in put for e in walk(expr)):
        return expr
    match _taken_apart(expr):
        case by, Var(name=name) if by == factor and name in put:
            return put[name]
    match expr:
        case Var(name=name):
            return put.get(name, expr)
        case Call(op=op_, args=args):
            return Call(op_, tuple(_without(a, put, factor) for a in args))
        case _:
            return expr
