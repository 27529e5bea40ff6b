"""A graph with positive numbers outside of its maxima, and the derivation of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from fusegen.ir import graph as g
from fusegen.ir.derivation import Base, Dependent, Derivation
from fusegen.ir.dtypes import Kind
from fusegen.ir.loc import Loc
from fusegen.ir.names import Taken
from fusegen.lang.trace import unique_names
from fusegen.lang.value import Builder
from fusegen.rewrite.build import at_element, fold, joining, op, rebuilt
from fusegen.rewrite.scales.factor import Factor, Multiple, multiple
from fusegen.rewrite.scales.sums import Rewritten, Steps, steps_of


def scales_outside(
    graph: g.Graph, derivation: Derivation, kinds: Mapping[g.Node, Kind], *, constants: bool
) -> tuple[g.Graph, Derivation]:
    """A graph with its derivation, rewritten; they themselves where there is no such number.
    constants: may numbers be those that kernels are given?"""
    peaks = _peaks(graph, derivation, kinds)
    steps = _steps(graph, derivation, peaks, constants=constants)
    about = [(e.name, s) for e in derivation if isinstance(e, Dependent) for s in e.shifts]
    # Multiples that any sum is about otherwise stay where they are.
    left = {s.pivot for name, s in about if (name, s.name) not in steps}
    peaks = {n: m for n, m in peaks.items() if m.factor.is_one or graph.names[n] not in left}
    steps = {key: found for key, found in steps.items() if found.peak in peaks}
    if not steps or any(isinstance(n, g.Inner) for n in graph.nodes):
        return graph, derivation
    with joining(graph) as build:
        return _Outside(graph, derivation, peaks, steps, build, constants).run()


def _steps(
    graph: g.Graph, derivation: Derivation, peaks: Mapping[g.Node, Multiple], *, constants: bool
) -> dict[tuple[str, str], Steps]:
    """Of which sums, by entry and shift, elements are measured in steps."""
    return {
        (entry.name, s.name): found for entry in derivation if isinstance(entry, Dependent)
        for s in entry.shifts
        if (found := steps_of(entry, s, graph, peaks, constants=constants))
    }


def _peaks(
    graph: g.Graph, derivation: Derivation, kinds: Mapping[g.Node, Kind]
) -> dict[g.Node, Multiple]:
    """What plain maxima are taken of, those that sums are about."""
    about = {s.pivot for e in derivation if isinstance(e, Dependent) for s in e.shifts}
    about -= {p for r in derivation.repairs for p in r.pivots}
    users = _users(graph)
    found: dict[g.Node, Multiple] = {}
    for node in graph.reductions:
        if graph.names[node] not in about or not isinstance(node, g.Reduce) or \
                node.fold is not g.Fold.MAX or \
                not isinstance(derivation[graph.names[node]], Base):
            continue
        known = multiple(node.arg)
        if kinds[known.base] == "float" and (known.factor.is_one or (
            known.factor.is_moderate and _is_only_a_pivot(node, users, graph))
        ):
            found[node] = known
    return found


def _users(graph: g.Graph) -> Mapping[g.Node, list[g.Node]]:
    found: dict[g.Node, list[g.Node]] = {n: [] for n in graph.nodes}
    for node in graph.nodes:
        for arg in g.operands(node):
            found[arg].append(node)
    return found


def _is_only_a_pivot(
    peak: g.Reduce, users: Mapping[g.Node, list[g.Node]], graph: g.Graph
) -> bool:
    """Do elements meet it in exponents alone? And is a product that it is the greatest of met
    nowhere else? It would be rounded by itself no more."""

    def in_exponents(node: g.Node) -> bool:
        return node not in graph.outputs and all(
            isinstance(u, g.Map) and (u.op == "exp" or (
                u.op in ("mul", "div") and multiple(u).base is not u and in_exponents(u)))
            for u in users[node])

    met = [u for u in users[peak] if g.extent(u) is g.Extent.ELEMENT]
    alone = all(u is peak or u in met for u in users[peak.arg]) and peak.arg not in graph.outputs
    product = isinstance(peak.arg, g.Map) and peak.arg.op == "mul"
    return (alone or not product) and all(
        isinstance(u, g.Map) and u.op == "sub" and in_exponents(u) for u in met)


@dataclass
class _Outside:
    graph: g.Graph
    derivation: Derivation
    peaks: Mapping[g.Node, Multiple]  # of the text's maxima
    steps: Mapping[tuple[str, str], Steps]
    build: Builder
    constants: bool
    new: dict[g.Node, g.Node] = field(default_factory=dict)  # in place of the text's nodes
    greatest: dict[g.Node, g.Node] = field(default_factory=dict)  # of a maximum's elements
    factors: dict[Factor, g.Node] = field(default_factory=dict)
    taken: Taken = field(init=False)

    def __post_init__(self) -> None:
        self.taken = Taken(self.graph.names.values())

    def run(self) -> tuple[g.Graph, Derivation]:
        for node in self.graph.nodes:
            made = self._made(node)
            self.new[node] = made
            self.build.labels.setdefault(made, self.graph.names[node])
        for (name, _), found in self.steps.items():
            self._factor(found.factor, self.graph[name].loc)
        # Names are what the derivation knows nodes by: none may be lost.
        if len({*self.new.values()}) < len(self.new):
            return self.graph, self.derivation
        graph = self._graph()
        rewritten = Rewritten(self.graph, graph, self.new, self.greatest, self.peaks, self.steps,
                              self.factors)
        return graph, rewritten.derivation(self.derivation)

    def _graph(self) -> g.Graph:
        outputs = tuple(self.new[n] for n in self.graph.outputs)
        nodes = g.topological((*self.graph.read, *outputs, *self.factors.values()))
        names = unique_names(nodes, self.build, self.graph.names.values())
        names |= {new: self.graph.names[n] for n, new in self.new.items() if new in names}
        named = frozenset(self.new[n] for n in self.graph.named) & frozenset(nodes)
        return replace(self.graph, nodes=nodes, outputs=outputs, names=names, named=named)

    def _factor(self, factor: Factor, loc: Loc) -> g.Node:
        node = self.factors.setdefault(factor, factor.node(loc))
        self._call(node, factor.name)
        return node

    def _call(self, node: g.Node, wish: str) -> None:
        """New nodes take no name that a node of the text has."""
        if node not in self.build.labels:
            self.build.labels[node] = self.taken.free(wish)

    def _made(self, node: g.Node) -> g.Node:
        if node in self.peaks:
            assert isinstance(node, g.Reduce)
            base = self.new[self.peaks[node].base]
            peak = self.greatest[node] = fold(g.Fold.MAX, base, node.loc)
            self._call(peak, f"max_{self.graph.names[self.peaks[node].base]}")
            return at_element(self.new[node.arg], base, peak)
        match node:
            case g.Map(op="exp", args=(arg,)) if (distance := self._distance(arg)):
                return op("exp", node.loc, distance)
            case _:
                return rebuilt(node, self.new.__getitem__)

    def _distance(self, arg: g.Node) -> g.Node | None:
        """factor · (x − max x), where an exponent is that."""
        outer = multiple(arg)
        match outer.base:
            case g.Map(op="sub", args=(a, b)):
                element, peak = multiple(a), multiple(b)
            case _:
                return None
        known = self.peaks.get(peak.base)
        if known is None or known.base is not element.base or \
                element.factor != peak.factor * known.factor:
            return None
        factor = outer.factor * element.factor
        if not factor.moves_out(constants=self.constants):
            return None
        x, loc = self.new[element.base], outer.base.loc
        below = op("sub", loc, x, self.greatest[peak.base])
        return op("mul", loc, below, self._factor(factor, loc))
