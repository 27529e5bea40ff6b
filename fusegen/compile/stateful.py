"""Which programs have states that say all of a row, and what of a kernel a role needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fusegen.compile.kept_numbers import with_kept_numbers
from fusegen.compile.picks import picked
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.errors import PipelineError
from fusegen.ir.expr import Var
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
from fusegen.ir.kernel_walk import expressions_in, names_in, used_in
from fusegen.ir.names import Taken

Steps = tuple[Step, ...]
OF_ROWS: tuple[Shape, ...] = ("row", "row_vector", "column_vector")
"""Arrays that a finish does not have: of rows, and the vectors that their elements are made of."""


def folding_sweep(
    program: Program, graph: g.Graph, derivation: Derivation
) -> tuple[Kernel, Sweep]:
    """The kernel whose one folding sweep makes a state that holds all of a row there is to know,
    but for what results take of their row again: its inputs of one value, its elements for full
    rows. Raises PipelineError that says what such a state cannot hold.
    """
    name = graph.name
    folding = [(k, s) for k in program.kernels for s in k.sweeps if not s.monoid.is_empty]
    if len(folding) != 1:
        raise _several(graph, derivation, [s for _, s in folding])
    kernel, sweep = folding[0]
    early, used = needed(kernel.prelude, of_elements(sweep))
    if N_COLS.name in used:
        raise PipelineError(
            f"{name} has no states: an element is computed from the number of columns",
            where=graph.loc, why="How many there are is known when all pieces have met.")
    kernel = picked(kernel, sweep, early, names_of(kernel))
    if kernel.has_vectors:
        kernel = with_kept_numbers(kernel, names_of(kernel))
        _check_vectors(kernel, graph)
    _check_rows(kernel, early, graph)
    _check_pivots(kernel, sweep, graph)
    return kernel, next(s for s in kernel.sweeps if not s.monoid.is_empty)


def writes_rows(kernel: Kernel) -> bool:
    """Has a result a value for every element?"""
    return any(s.element_stores for s in kernel.sweeps)


def names_of(kernel: Kernel) -> Taken:
    """Every name that the kernel's functions know."""
    names = {p.name for p in kernel.params} | {s.name for s in steps_of(kernel)}
    for sweep in kernel.sweeps:
        m = sweep.monoid
        names |= {c.name for c in m.components} | {let.name for let in sweep.lets}
        names |= {p.name for p in m.pivots} | {r.name for r in m.relatives}
    return Taken(names)


def _check_rows(kernel: Kernel, early: Steps, graph: g.Graph) -> None:
    """Raises PipelineError where values need an element that their piece may not have. early: steps
    that elements need."""
    takes = [t for s in kernel.sweeps for store in s.row_stores for t in store.takes]
    of_one = [s for s in (*early, *kernel.prelude, *_ends(kernel), *takes)
              if isinstance(s, Gather) or (isinstance(s, InnerStep) and s.at)]
    if of_one:
        what = of_one[0].note or of_one[0].name
        raise PipelineError(
            f"{graph.name} has no states: {what} reads elements when the row is known",
            where=graph.loc, why="A piece does not have every column; a state holds elements at "
            "columns that are inputs of the row, and no others.")


def _check_vectors(kernel: Kernel, graph: g.Graph) -> None:
    """Raises PipelineError where results need vectors again, or scores that were never stored."""
    for node, label in zip(graph.outputs, graph.output_names, strict=True):
        if g.extent(node) is g.Extent.ELEMENT:
            raise PipelineError(
                f"{graph.name} has no states: its result {label} has a value for every element",
                where=node.loc, why="Elements that are made of vectors are not stored.",
                fix="Make states of a pipeline that returns row values and lists alone.")
    ends = [(s.steps, s.row_stores, s.list_stores) for s in kernel.sweeps]
    _, used = needed(kernel.prelude, tuple(ends))
    rows = [p.name for p in kernel.params if p.shape == "row_vector" and not p.output
            and p.name in used]
    if rows:
        raise PipelineError(
            f"{graph.name} has no states: it takes {', '.join(rows)} of each row for its results",
            where=graph.loc, why="A state does not hold the vectors of its row.")


def _check_pivots(kernel: Kernel, sweep: Sweep, graph: g.Graph) -> None:
    """Raises PipelineError where ⊕ itself needs an input of the row."""
    _, used = needed(kernel.prelude, (sweep.monoid.pivots, tuple(map(Var, sweep.monoid.held))))
    rows = [p.name for p in kernel.params if p.shape in ("row", "row_vector") and not p.output
            and p.name in used]
    if rows:
        raise PipelineError(
            f"{graph.name} has no states: merging them takes {', '.join(rows)} of each row",
            where=graph.loc, why="A state does not hold the inputs of its row.")


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
    """Without what happens once the row is folded, and what it writes of every element."""
    alone = replace(sweep, steps=(), row_stores=(), list_stores=(), element_stores=())
    if not sweep.element_stores:
        return alone
    folded = expressions_in((sweep.monoid, sweep.only, sweep.span))
    return replace(alone, lets=tuple(used_in(sweep, folded)[1]))


def needed(steps: Steps, part: Any) -> tuple[Steps, frozenset[str]]:
    """Those of the steps that the part needs, and every name that both use."""
    used, kept = names_in(part), []
    for step in reversed(steps):
        if step.name in used:
            used |= names_in(step)
            kept.append(step)
    return tuple(reversed(kept)), used
