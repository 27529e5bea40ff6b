"""Which element values have a line of their own: what sweeps use twice is computed once in each.

What one sweep uses and another, too, has one name in both, whether or not the user gave it one: by
this those who keep values know what need not be made again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from fusegen.compile.fusion import Fusion
from fusegen.ir import graph as g
from fusegen.ir.derivation import Commuted, Dependent, Derivation
from fusegen.ir.expr import variables


def used_twice(
    graph: g.Graph, fusion: Fusion, derivation: Derivation, stored: Collection[g.Node]
) -> frozenset[g.Node]:
    """Before anything is spelled. `stored`: elements that are read back where they are not
    written."""
    uses, made = Counter[g.Node](), set[g.Node]()
    for stage in fusion.stages:
        roots = [n for r in stage.folds for n in _roots(r, graph, fusion, derivation)]
        stack, read = [*roots, *stage.stores], {*stored} - {*stage.stores}
        uses.update(stack)
        while stack:
            node = stack.pop()
            if node in made or node in read:
                continue
            made.add(node)
            uses.update(g.operands(node))
            stack += [a for a in g.operands(node) if g.extent(a) is g.Extent.ELEMENT]
    return frozenset(node for node, count in uses.items() if count > 1)


def _roots(
    node: g.Reduction, graph: g.Graph, fusion: Fusion, derivation: Derivation
) -> list[g.Node]:
    """The element nodes that folding this reduction evaluates."""
    match fusion.modes[node], derivation[graph.names[node]]:
        case "merged", Dependent(shifts=shifts, basis=basis):
            wanted = [s.atom for s in shifts]
            wanted += [v.name for b in basis for v in variables(b.lift).values() if v.varying]
            return [graph[n] for n in wanted if n in graph.by_name]
        case "commuted", Commuted(atom=atom):
            return [graph[atom]]
        case _:
            return [a for a in g.operands(node) if not isinstance(a, g.Literal)]
