"""What lanes keep from a row's sums to its results, in registers beside the row's items.

Exponentials that are summed and needed again; or, in place of items, a value that all later sweeps
make of these: a residual's sum, a capped logit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fusegen.backend.cuda.emit.sources import LoadView, Reader, SourceView, printed
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.kept_values import keeps_value, kept_value
from fusegen.backend.cuda.schedule.on_chip import pivots_first
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import (
    TERM,
    FromKept,
    over_terms,
    same_items,
    terms,
)
from fusegen.ir.kernel import FromMemory, Kernel, Let, Program, Sweep

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
        value = kept_value(kernel) if keeps_value(schedule) else None
        term = next(_candidates(kernel, schedule), None)
        if value and (value.heavy or not term):
            makers[kernel.sweeps[0].number] = Keeps(value=value.lets, loads=value.loads)
            kernel = replace(kernel, sweeps=value.sweeps)
        elif term:
            maker, relative, again = term
            sweeps = tuple(again if s.number == again.number else s for s in kernel.sweeps)
            kernel, makers[maker.number] = replace(kernel, sweeps=sweeps), Keeps(relative)
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


@printed.register
def _from_kept(source: FromKept, reader: Reader) -> SourceView:
    real = reader.dialect.real
    item = Line(f"const {real} {TERM.name} = {ITEMS}[i];", frozenset([ITEMS]), TERM.name)
    load = LoadView(type=real, name=TERM.name, pointer="", kept=True, narrow=False, loader="")
    return SourceView(name=TERM.name, item=item, alone=item, load=load)
