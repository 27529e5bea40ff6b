"""Where a backward text is cut into stages: values of whole rows that one makes for the next.

Kernels do not go on with vectors of finished rows (compile/lower/told.py), and make all sums of
vectors in one sweep, the last: what comes before them is made by stages before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from fusegen.ir import graph as g
from fusegen.ir.errors import PipelineError

_MOST = 4


def cuts_of(
    outputs: Sequence[g.Node], backwards: Collection[g.Node], held: Callable[[g.Node], bool], *,
    kept: bool,
) -> list[list[g.Node]]:
    """What stages before the last one make. backwards: nodes that a cotangent takes part in; held:
    is there an array that holds it? kept: is all that has no cotangent made by the first?"""
    def forward(node: g.Node) -> bool:
        return node not in backwards and held(node)

    cuts = [_needed(_finished(outputs, forward))] if kept else []
    known = {n for cut in cuts for n in cut}
    while late := _late_vectors(outputs, known, forward):
        ready = [n for n in late if not _late_vectors([n], known, forward)]
        if not ready or len(cuts) == _MOST:
            raise PipelineError(
                "a gradient goes on with vectors of whole rows", where=late[0].loc,
                why="Its stages do not come to an end.",
                fix="Split the text in two, and differentiate each.")
        beside = [n for n in _finished(outputs, forward)
                  if not g.is_vector(n) and not _late_vectors([n], known, forward)]
        cuts.append([n for n in _needed([*ready, *beside]) if n not in known])
        known |= {*cuts[-1]}
    return [cut for cut in cuts if cut]


def numbers_of(outputs: Sequence[g.Node], known: set[g.Node]) -> list[g.Node]:
    """The numbers of whole rows that outputs are made of."""
    found = _finished(outputs, lambda n: not g.is_vector(n), known)
    return [n for n in _needed(found) if n not in known]


def _is_finished(node: g.Node) -> bool:
    """Is it a value of a whole row?"""
    return g.extent(node) is g.Extent.ROW and bool(g.reductions_of(node))


def _finished(
    roots: Iterable[g.Node], here: Callable[[g.Node], bool], done: Iterable[g.Node] = ()
) -> tuple[g.Node, ...]:
    """The largest values of whole rows that the roots are made of and that are `here`."""
    return g.outermost(roots, lambda node: _is_finished(node) and here(node), done)


def _needed(values: Iterable[g.Node]) -> list[g.Node]:
    """The values, or what those that are numbers are made of where that is fewer: m and l of m,
    1 / l and m + log l."""
    found = dict.fromkeys(values)
    numbers = [n for n in found if not g.is_vector(n)]
    made_of = dict.fromkeys(n for number in numbers for n in _reductions(number))
    if len(made_of) < len(numbers):
        return [*(n for n in found if g.is_vector(n)), *made_of]
    return [*found]


def _reductions(node: g.Node) -> list[g.Node]:
    """The values of a whole row that arithmetic makes the value of."""
    if isinstance(node, g.Map | g.Cast):
        return [n for a in g.operands(node) if _is_finished(a) for n in _reductions(a)]
    return [node]


def _late_vectors(
    roots: Sequence[g.Node], known: set[g.Node], forward: Callable[[g.Node], bool]
) -> list[g.Node]:
    """Vectors of whole rows that sums over their index, or elements, are made of."""
    found: dict[g.Node, None] = {}
    for node in g.topological(roots, known.__contains__):
        wide = isinstance(node, g.Inner) or (
            g.is_vector(node) and g.extent(node) is g.Extent.ELEMENT)
        if wide and node not in known:
            for operand in g.operands(node):
                found |= dict.fromkeys(_vectors_of_rows(operand, known, forward))
    return [*found]


def _vectors_of_rows(
    node: g.Node, known: set[g.Node], forward: Callable[[g.Node], bool]
) -> list[g.Node]:
    """The vectors of finished rows in what is a vector of the row."""
    if node in known or not (g.is_vector(node) and _is_finished(node)):
        return []
    if isinstance(node, g.Map | g.Cast) and not forward(node):
        return [n for a in g.operands(node) for n in _vectors_of_rows(a, known, forward)]
    return [node]
