"""The truth about one reduction: can it be merged safely? Decided on data, not by the algebra."""

from __future__ import annotations

import random
from dataclasses import dataclass

from fusegen.ir import graph as g

from .oracle import uses_columns
from .rows import DESIGNS, plain_row
from .safety import Safety, judged
from .separable import MAX_RANK, monotone_in, sample_rows, separable

_ORDERED = (g.Fold.MAX, g.Fold.MIN, g.Fold.ARGMAX, g.Fold.ARGMIN)


@dataclass(frozen=True, slots=True)
class Truth:
    """`mergeable` None: not decided."""

    mergeable: bool | None
    why: str


def truth_of(
    graph: g.Graph, node: g.Reduce | g.TopK, known: frozenset[str], seed: int
) -> Truth:
    """`known`: the names of reductions whose values over a piece of a row are in the state."""
    if isinstance(node, g.TopK) or node.fold in _ORDERED:
        return _order(graph, node, seed)
    if node.fold not in (g.Fold.SUM, g.Fold.MEAN):
        return Truth(None, f"no judge for {node.fold.value}")
    safety = judged(graph, node, known, seed)
    if safety not in (Safety.NO_FORM, Safety.SAFE):
        return Truth(False, safety.value)
    rank = separable(node.arg, sample_rows(random.Random(seed), _inputs(graph)))
    if rank is not None and rank > MAX_RANK:
        return Truth(False, "not separable")
    if safety is Safety.SAFE:
        return Truth(True, safety.value)
    return Truth(None, "no samples" if rank is None else f"rank {rank}, but no form")


def _inputs(graph: g.Graph) -> tuple[str, ...]:
    return tuple(i.name for i in graph.inputs)


def _order(graph: g.Graph, node: g.Reduce | g.TopK, seed: int) -> Truth:
    rng = random.Random(seed)
    rows = [row for rows in sample_rows(rng, _inputs(graph)) for row in rows[:5]]
    # Far from 0 a saturating map is as good as constant.
    rows += [plain_row(rng, _inputs(graph), d) for d in DESIGNS if d != "far cluster"]
    atom = monotone_in(node.arg, rows, strict=uses_columns(graph, node))
    return Truth(atom is not None, "monotone" if atom else "not monotone")
