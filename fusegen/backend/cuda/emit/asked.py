"""Which of a kernel's declarations its sweeps ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.homes.held import WHOLE
from fusegen.backend.emit.lines import Line
from fusegen.ir.kernel import Kernel
from fusegen.ir.kernel_walk import gathers_in


def elements_used(kernel: Kernel) -> set[str]:
    """Arrays of elements that sources read, that gathers read, or that are written."""
    return {
        *(n for s in kernel.sweeps for n in s.reads),
        *(n for gather in gathers_in(kernel) for n in gather.loads),
        *(p.name for p in kernel.params if p.output),
    }


def span_asked(
    lines: Iterable[str | Line], views: Mapping[int, SweepView], kernel: Kernel
) -> tuple[str | Line, ...]:
    """Without what only chunks ask for, where none is folded or mapped as a whole."""
    sweeps = [views[s.number] for s in kernel.sweeps]
    if any((v.folds and not v.made_twice) or v.stores for v in sweeps):
        return tuple(lines)
    return tuple(ln for ln in lines if not (isinstance(ln, Line) and ln.declares == WHOLE))
