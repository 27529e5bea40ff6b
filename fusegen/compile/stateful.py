"""Which programs have states that say all of a row, and what of a kernel a role needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.errors import PipelineError
from fusegen.ir.kernel import (
    N_COLS,
    Gather,
    InnerStep,
    Kernel,
    ListFold,
    Program,
    Shape,
    Step,
    Sweep,
)
from fusegen.ir.kernel_walk import names_in

Steps = tuple[Step, ...]
OF_ROWS: tuple[Shape, ...] = ("row", "row_vector", "column_vector")
"""Arrays that a finish does not have: of rows, and the vectors that their elements are made of."""


def folding_sweep(
    program: Program, graph: g.Graph, derivation: Derivation
) -> tuple[Kernel, Sweep]:
    """The kernel whose one folding sweep makes a state that holds all of a row there is to know.

    Raises PipelineError that says what such a state cannot hold.
    """
    name = graph.name
    for node, label in zip(graph.outputs, graph.output_names, strict=True):
        if g.extent(node) is g.Extent.ELEMENT:
            raise PipelineError(
                f"{name} has no states: its result {label} has a value for every element",
                where=node.loc, why="A state holds what one sweep knows of a row, not the row.",
                fix="Make states of a pipeline that returns row values and lists alone.")
    folding = [(k, s) for k in program.kernels for s in k.sweeps if not s.monoid.is_empty]
    if len(folding) != 1:
        raise _several(graph, derivation, [s for _, s in folding])
    kernel, sweep = folding[0]
    early, used = needed(kernel.prelude, of_elements(sweep))
    _check_rows(kernel, sweep, early, graph)
    if N_COLS.name in used:
        raise PipelineError(
            f"{name} has no states: an element is computed from the number of columns",
            where=graph.loc, why="How many there are is known when all pieces have met.")
    return kernel, sweep


def _check_rows(kernel: Kernel, sweep: Sweep, early: Steps, graph: g.Graph) -> None:
    """Raises PipelineError where results need more of their row than its state, or elements need
    other columns, which another piece may have. early: steps that elements need."""
    ends = [(s.steps, s.row_stores, s.list_stores) for s in kernel.sweeps]
    late, used = needed(kernel.prelude, (tuple(ends), sweep.monoid.pivots))
    rows = [p.name for p in kernel.params if p.shape in ("row", "row_vector") and not p.output
            and p.name in used]
    if rows:
        raise PipelineError(
            f"{graph.name} has no states: it takes {', '.join(rows)} of each row for its results",
            where=graph.loc, why="A state does not hold the inputs of its row.")
    takes = [t for s in kernel.sweeps for store in s.row_stores for t in store.takes]
    of_one = [s for s in (*early, *late, *_ends(kernel), *takes)
              if isinstance(s, Gather) or (isinstance(s, InnerStep) and s.at)]
    if of_one:
        what = of_one[0].note or of_one[0].name
        raise PipelineError(
            f"{graph.name} has no states: {what} reads elements when the row is known",
            where=graph.loc, why="States are read out where the row is no more, and a piece does "
            "not have every column.")


def _several(
    graph: g.Graph, derivation: Derivation, folding: list[Sweep]
) -> PipelineError:
    why = "\n".join(str(r) for r in derivation.refusals)
    kept = ", ".join(dict.fromkeys(c.name for s in folding[1:] for c in s.monoid.components))
    what = f"{kept} keeps a sweep of its own" if folding else "it reduces nothing"
    return PipelineError(
        f"{graph.name} has no states: {what}", where=graph.loc,
        why=why or "A state is what one sweep over the row makes.",
        fix="fg.stabilize, or allow_cancellation=True, may merge it; see explain().")


def steps_of(kernel: Kernel) -> Iterator[Any]:
    """Every step of a kernel, and of its lists' entries."""
    yield from kernel.prelude
    yield from _ends(kernel)


def _ends(kernel: Kernel) -> Iterator[Any]:
    """Steps of finished rows, and of their lists."""
    for sweep in kernel.sweeps:
        yield from sweep.steps
        entries = [s.entries for s in sweep.list_stores]
        entries += [s.entries for s in sweep.steps if isinstance(s, ListFold)]
        for one in entries:
            yield from one.steps


# ---- what of a kernel a role needs ----


def of_elements(sweep: Sweep) -> Sweep:
    """Without what happens once the row is folded."""
    return replace(sweep, steps=(), row_stores=(), list_stores=())


def needed(steps: Steps, part: Any) -> tuple[Steps, frozenset[str]]:
    """Those of the steps that the part needs, and every name that both use."""
    used, kept = names_in(part), []
    for step in reversed(steps):
        if step.name in used:
            used |= names_in(step)
            kept.append(step)
    return tuple(reversed(kept)), used
