"""Terms that lanes keep from a row's sums to its results, in registers beside the row's items."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from fusegen.backend.cuda.emit.sources import LoadView, Reader, SourceView, printed
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.on_chip import pivots_first
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import TERM, FromKept, over_terms, same_items, terms
from fusegen.ir.kernel import FromMemory, Kernel, Program, Sweep

ITEMS = f"{TERM.name}_items"


def with_kept_terms(
    program: Program, schedule: CudaSchedule
) -> tuple[Program, Mapping[int, str]]:
    """The program with kept terms in place of what computes them once more; of the sweeps that
    make them, by number, what they are the exponentials of."""
    kernels, makers = [], {}
    for kernel in program.kernels:
        for maker, relative, again in _candidates(kernel, schedule):
            sweeps = tuple(again if s.number == again.number else s for s in kernel.sweeps)
            kernel, makers[maker.number] = replace(kernel, sweeps=sweeps), relative
            break
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
