"""The dot of a row and one column, taken from the elements where a tile of them goes by.

Made by itself it takes a few µs at the end, while everything else waits: 4096 numbers of a vector
that no other row asked for. Among the elements it is there already: one more component of the
state, the sum of where(column == label, element, 0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusegen.ir.expr import Lit, Var, call
from fusegen.ir.kernel import (
    COLUMN,
    N_COLS,
    FromVectors,
    InnerStep,
    Kernel,
    Let,
    Program,
    Step,
    Sweep,
)
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.monoid import Folded

MOST_ROWS = 512  # more have a share of the time so small that looking for columns takes longer


def may_pick(kernel: Kernel) -> bool:
    """Is one of the row values a dot with one column, and is nothing in the sweep made of it?"""
    return bool(_picks(kernel))


def with_picked(program: Program) -> Program:
    """The program with these as components of the state."""
    kernels = tuple(_picked(k) if k.sweeps else k for k in program.kernels)
    return replace(program, kernels=kernels)


def _picks(kernel: Kernel) -> tuple[InnerStep, ...]:
    (sweep,) = kernel.sweeps
    made = [s for s in sweep.loads if isinstance(s, FromVectors)]
    found = tuple(s for s in kernel.prelude
                  if isinstance(s, InnerStep) and len(made) == 1 and _is_element(s, made[0]))
    late = {s.name for s in _late(kernel.prelude, found)}
    used = names_in((sweep.lets, sweep.monoid, sweep.only, sweep.span, sweep.counted))
    return () if late & used else found


def _is_element(step: InnerStep, source: FromVectors) -> bool:
    """Is it the source's dot, of one column?"""
    return step.is_dot and (step.rows, step.columns) == (source.rows, source.columns)


def _late(prelude: Sequence[Step], picks: Sequence[InnerStep]) -> list[Step]:
    """These, and steps that are made of them."""
    known: set[str] = set()
    found = []
    for step in prelude:
        if step in picks or known & names_in(step):
            known.add(step.name)
            found.append(step)
    return found


def _picked(kernel: Kernel) -> Kernel:
    picks = _picks(kernel)
    late = _late(kernel.prelude, picks)
    (sweep,) = kernel.sweeps
    (source,) = [s for s in sweep.loads if isinstance(s, FromVectors)]
    element = Var(source.name, "float", varying=True)
    folded = tuple(
        Folded(_component(p), "sum", call("where", call("eq", COLUMN, p.at[0][1]), element,
                                          Lit(0.0)), "float") for p in picks)
    steps = [_read(s) if s in picks else s for s in late]
    prelude = tuple(s for s in kernel.prelude if s not in late)
    return replace(kernel, prelude=prelude, sweeps=(_with(sweep, folded, steps),))


def _with(sweep: Sweep, folded: tuple[Folded, ...], steps: Sequence[Step]) -> Sweep:
    monoid = replace(sweep.monoid, folded=(*sweep.monoid.folded, *folded))
    return replace(sweep, monoid=monoid, steps=(*steps, *sweep.steps))


def _component(pick: InnerStep) -> str:
    return f"{pick.name}_picked"


def _read(pick: Step) -> Let:
    """NaN without such a column."""
    assert isinstance(pick, InnerStep)
    index = pick.at[0][1]
    there = call("and", call("ge", index, Lit(0, "int")), call("lt", index, N_COLS))
    value = call("where", there, Var(f"state.{_component(pick)}", "float"), Lit(float("nan")))
    return Let(pick.name, value, pick.note)
