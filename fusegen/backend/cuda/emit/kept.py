"""What lanes keep from a row's sums to its results, in registers beside the row's items.

Exponentials that are summed and needed again; or, in place of the items of several arrays, a value
that all later sweeps make of these: a residual's sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fusegen.backend.cuda.emit.sources import LoadView, Reader, SourceView, printed
from fusegen.backend.cuda.schedule.cuda import MAX_ITEMS, CudaSchedule
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.cuda.schedule.homes.band import Band
from fusegen.backend.cuda.schedule.on_chip import pivots_first
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import (
    TERM,
    FromKept,
    expressions,
    over_terms,
    over_value,
    same_items,
    terms,
)
from fusegen.ir.expr import Var
from fusegen.ir.kernel import FromMemory, Kernel, Let, Program, Sweep
from fusegen.ir.kernel_walk import used_in

ITEMS = f"{TERM.name}_items"


@dataclass(frozen=True, slots=True)
class Keeps:
    """What a sweep keeps of every item: exponentials of a relative, or a let's value, which these
    lets and loads make."""

    relative: str = ""
    value: tuple[Let, ...] = ()
    loads: tuple[str, ...] = ()


def with_kept_terms(
    program: Program, schedule: CudaSchedule
) -> tuple[Program, Mapping[int, Keeps]]:
    """The program with kept terms in place of what computes them once more; of the sweeps that
    make them, by number, what these are."""
    kernels, makers = [], {}
    for kernel in program.kernels:
        for maker, relative, again in _candidates(kernel, schedule):
            sweeps = tuple(again if s.number == again.number else s for s in kernel.sweeps)
            kernel, makers[maker.number] = replace(kernel, sweeps=sweeps), Keeps(relative)
            break
        else:
            if found := _value(kernel, schedule):
                keeps, sweeps = found
                kernel, makers[kernel.sweeps[0].number] = replace(kernel, sweeps=sweeps), keeps
        kernels.append(kernel)
    return replace(program, kernels=tuple(kernels)), makers


def _candidates(kernel: Kernel, schedule: CudaSchedule) -> Iterator[tuple[Sweep, str, Sweep]]:
    """A sweep that makes terms, of what, and a later one over them."""
    for position, maker in enumerate(kernel.sweeps):
        if not pivots_first(maker, schedule):
            continue
        for term in terms(maker):
            for sweep in kernel.sweeps[position + 1 :]:
                plain = all(isinstance(s, FromMemory) for s in (*maker.loads, *sweep.loads))
                if not sweep.monoid.is_empty or not plain or not same_items(maker, sweep):
                    continue
                again = over_terms(sweep, term)
                if again is not None:
                    yield maker, term.relative, again


def _value(
    kernel: Kernel, schedule: CudaSchedule
) -> tuple[Keeps, tuple[Sweep, ...]] | None:
    """A value of several arrays, of which later sweeps need nothing else; and sweeps over it."""
    maker, *later = kernel.sweeps
    light = isinstance(schedule.home, Registers | Band) and schedule.items <= MAX_ITEMS
    plain = all(isinstance(s, FromMemory) for sweep in kernel.sweeps for s in sweep.loads)
    alike = all(s.monoid.is_empty and same_items(maker, s) for s in later)
    if not (light and later and plain and alike and _only_folds(maker)):
        return None
    folded = used_in(maker, (f.lift for f in maker.monoid.folded))[0]
    for let in (let for let in reversed(maker.lets) if let.name in folded):
        names, lets = used_in(maker, [Var(let.name, "float", varying=True)])
        loads = tuple(s.name for s in maker.loads if s.name in names)
        if len(loads) < 2 or let.expr.kind != "float":
            continue
        sweeps = tuple(over_value(s, let) for s in kernel.sweeps)
        rest = (used_in(s, expressions(s))[0] for s in sweeps[1:])
        if not any(used & {*loads} for used in rest):
            return Keeps(value=tuple(lets), loads=loads), sweeps
    return None


def _only_folds(sweep: Sweep) -> bool:
    """Is its state made element by element, of values that need no pivot and no column?"""
    return sweep.monoid.components == sweep.monoid.folded


@printed.register
def _from_kept(source: FromKept, reader: Reader) -> SourceView:
    real = reader.dialect.real
    item = Line(f"const {real} {TERM.name} = {ITEMS}[i];", frozenset([ITEMS]), TERM.name)
    load = LoadView(type=real, name=TERM.name, pointer="", kept=True, narrow=False, loader="")
    return SourceView(name=TERM.name, item=item, alone=item, load=load)
