"""Values of elements that take long and that a fold needs twice, made once a chunk: for a pivot,
and for what moves with it. Compilers see that they are the same where a chunk is of one row, not
where it has elements of several."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fusegen.backend.cuda.emit.views import SweepView
from fusegen.backend.cuda.schedule.kept_values import made_again
from fusegen.backend.emit.lines import Line
from fusegen.ir.kernel import Sweep


def made_once(view: SweepView, sweep: Sweep, real: str) -> SweepView:
    """The sweep whose later loops over a chunk's items read what an earlier one made."""
    made = {ln.declares for ln in view.fold_lines} & made_again(sweep)
    lifts, read = [], set[str]()
    for lift in view.lifts:
        lines, kept = _reading(lift.lines, made)
        lifts.append(replace(lift, lines=lines))
        read |= kept
    if not read:
        return view
    arrays = (Line(f"{real} {_array(n)}[kCount];", declares=_array(n)) for n in sorted(read))
    return replace(view, fold_lines=tuple(_writing(view.fold_lines, read)), lifts=tuple(lifts),
                   fold_divisors=(*view.fold_divisors, *arrays))


def _reading(
    lines: Sequence[Line], made: Collection[str]
) -> tuple[tuple[Line, ...], frozenset[str]]:
    """Lines that read what is made instead of making it, without what nothing needs then; and the
    names of what they read."""
    found: list[Line] = []
    needed, read = set[str](), set[str]()
    for line in reversed(lines):
        if line.declares and line.declares not in needed:
            continue
        if line.declares in made:
            line = replace(line, text=f"{line.text.split('=')[0]}= {_array(line.declares)}[i];",
                           uses=frozenset([_array(line.declares)]), note="")
            read.add(line.declares)
        found.insert(0, line)
        needed |= line.uses
    return tuple(found), frozenset(read)


def _writing(lines: Sequence[Line], read: Collection[str]) -> list[Line]:
    found: list[Line] = []
    for line in lines:
        found.append(line)
        if line.declares in read:
            name = line.declares
            found.append(Line(f"{_array(name)}[i] = {name};", frozenset([name, _array(name)])))
    return found


def _array(name: str) -> str:
    return f"{name}_made"
