"""A value that the first sweep makes of every element, and later ones need in place of what it is
made of: a residual's sum, a capped logit. Threads that hold a row have registers for it instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from fusegen.backend.cuda.schedule.cuda import MAX_ITEMS, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Band, Registers
from fusegen.backend.cuda.schedule.operations import of_value
from fusegen.backend.emit.terms import expressions, over_value, same_items
from fusegen.ir.expr import Var, variables
from fusegen.ir.kernel import FromMemory, Kernel, Let, Program, Sweep
from fusegen.ir.kernel_walk import used_in

_HEAVY = 9.0
"""Machine instructions from which on a value of one array is not made again: a quotient. A value of
several arrays saves their registers, whatever it takes."""


@dataclass(frozen=True, slots=True)
class KeptValue:
    """What is kept: the last of these lets, of these arrays; and sweeps over it."""

    lets: tuple[Let, ...]
    loads: tuple[str, ...]
    sweeps: tuple[Sweep, ...]
    heavy: bool  # does making it again take long?


@lru_cache(maxsize=256)
def kept_value(kernel: Kernel) -> KeptValue | None:
    """The value of a kernel that is worth it, of which later sweeps need nothing else."""
    if not kernel.sweeps:
        return None
    maker, *later = kernel.sweeps
    plain = all(isinstance(s, FromMemory) for sweep in kernel.sweeps for s in sweep.loads)
    alike = all(s.monoid.is_empty and same_items(maker, s) for s in later)
    if not (later and plain and alike and _sums_and_extrema(maker)):
        return None
    folded = used_in(maker, (f.lift for f in maker.monoid.folded))[0]
    for let in (let for let in reversed(maker.lets) if let.name in folded):
        names, lets = used_in(maker, [Var(let.name, "float", varying=True)])
        loads = tuple(s.name for s in maker.loads if s.name in names)
        heavy = take_long(lets)
        if not (heavy or len(loads) > 1) or let.expr.kind != "float":
            continue
        sweeps = tuple(over_value(s, let) for s in kernel.sweeps)
        rest = (used_in(s, expressions(s))[0] for s in sweeps[1:])
        if not any(used & {*loads} for used in rest):
            return KeptValue(tuple(lets), loads, sweeps, heavy)
    return None


@lru_cache(maxsize=256)
def made_again(sweep: Sweep) -> frozenset[str]:
    """Values that take long and that a chunk's later loops want of its items once more: sums about
    pivots, of what the first loop has made to find these."""
    monoid = sweep.monoid
    first = used_in(sweep, [*(f.lift for f in monoid.folded), *(b.lift for b in monoid.best)])[0]
    wanted = {n for r in monoid.relatives for n in variables(r.atom)}
    wanted |= {n for m in monoid.moving for n in variables(m.lift)}
    found = set[str]()
    for let in reversed(sweep.lets):
        if let.name not in wanted:
            continue
        made = used_in(sweep, [Var(let.name, let.expr.kind, varying=True)])[1]
        if let.name in first and let.expr.kind == "float" and take_long(made):
            found.add(let.name)  # and what it is made of is not wanted for it
        else:
            wanted |= set(variables(let.expr))
    return frozenset(found)


def take_long(lets: Iterable[Let]) -> bool:
    """All that a value is made of, together."""
    return sum(of_value(one.expr) for one in lets) >= _HEAVY


def keeps_heavy(program: Program) -> bool:
    """Is there a value worth keeping that takes long to make?"""
    return any(value.heavy for value in map(kept_value, program.kernels) if value)


def keeps_more(program: Program) -> bool:
    """Do threads have to hold more beside such a value: other arrays, or several results?"""
    later = [s for value in map(kept_value, program.kernels) if value and value.heavy
             for s in value.sweeps[1:]]
    rows = {p.name for k in program.kernels for p in k.elements}
    return any(len(s.element_stores) > 1 or rows & {*s.streams} for s in later)


def keeps_value(schedule: CudaSchedule) -> bool:
    """Do threads hold so little of a row that they have registers for it?"""
    return isinstance(schedule.home, Registers | Band) and schedule.items <= MAX_ITEMS


def _sums_and_extrema(sweep: Sweep) -> bool:
    """Is its state made of numbers alone, element by element, of no columns?"""
    monoid = sweep.monoid
    return monoid.components == (*monoid.folded, *monoid.moving)
