"""Numbers that a row's own vectors say (|x|², of cosines), as parts of a state.

Results may need such a number when vectors are no longer there. Every piece of a row computes it,
so a state holds it as the greatest of all columns' values: NaN stays NaN.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from fusegen.ir.expr import Expr, Var, substitute
from fusegen.ir.kernel import InnerStep, Kernel, Let, Step, Sweep
from fusegen.ir.kernel_walk import names_in, with_values
from fusegen.ir.monoid import Folded
from fusegen.ir.names import Taken


def with_kept_numbers(kernel: Kernel, taken: Taken) -> Kernel:
    """The kernel whose results take of a row's vectors what the state of its folding sweep holds of
    them, as far as it can: of a row that may have no column left by a mask it would hold nothing.
    """
    (sweep,) = (s for s in kernel.sweeps if not s.monoid.is_empty)
    if sweep.only is not None or sweep.span != (None, None):
        return kernel
    wanted = names_in(tuple(
        (s.steps, s.row_stores, s.list_stores) for s in kernel.sweeps))
    again = _again(kernel.prelude, wanted)
    if not any(isinstance(s, InnerStep) for s in again):
        return kernel
    names: dict[str, Expr] = {}
    parts, steps = list[Folded](), list[Let]()
    for step in again:
        own = taken.free(f"row_{step.name}")
        if isinstance(step, Let):
            value = substitute(step.expr, names)
        else:
            parts.append(Folded(own, "max", Var(step.name), "float"))
            value = Var(f"state.{own}")
        steps.append(Let(own, value, step.note))
        names[step.name] = Var(own, value.kind)
    return replace(kernel, sweeps=tuple(
        _late(one, names, tuple(parts), tuple(steps), joins=one is sweep)
        for one in kernel.sweeps))


def _again(prelude: Collection[Step], wanted: Collection[str]) -> tuple[Let | InnerStep, ...]:
    """Those of the steps that results need, of what a row's vectors say and what is made of it."""
    made: dict[str, Let | InnerStep] = {}
    for step in prelude:
        match step:
            case InnerStep(at=()):
                made[step.name] = step
            case Let() if names_in(step) & {*made}:
                made[step.name] = step
    used, kept = {*wanted}, list[Let | InnerStep]()
    for one in reversed(made.values()):
        if one.name in used:
            kept.append(one)
            used |= names_in(one) if isinstance(one, Let) else set()
    return tuple(reversed(kept))


def _late(
    sweep: Sweep, names: Mapping[str, Expr], parts: tuple[Folded, ...], steps: tuple[Let, ...], *,
    joins: bool,
) -> Sweep:
    """A sweep whose results take the numbers of the state; `joins`: it folds them, too."""
    late = replace(
        sweep, steps=with_values(sweep.steps, names),
        row_stores=with_values(sweep.row_stores, names),
        list_stores=with_values(sweep.list_stores, names))
    if not joins:
        return late
    monoid = replace(sweep.monoid, folded=(*sweep.monoid.folded, *parts))
    return replace(late, monoid=monoid, steps=(*steps, *late.steps))
