"""Why a target gets the schedule it gets: what was considered, what it costs, what was measured."""

from __future__ import annotations

from dataclasses import replace

from fusegen.backend.choices import Candidate
from fusegen.compile.passes import Work
from fusegen.compile.tuning import Tuned, considered, notable, tuned

_SHOWN = 5  # of the cheapest, beside the best of each other kind


def selection(work: Work) -> list[str]:
    """Lines on the choice for this work's target; none where there is no choice."""
    found = considered(work)
    if not found:
        return []
    notes = [found[0].note] if found[0].note else []
    lines = [_asked(work), *notes, *_considered(found, work.problem.any_rows)]
    measured = _measured(work)
    return lines if measured is None else [*lines, *_times(measured)]


def _asked(work: Work) -> str:
    p = work.problem
    rows = "any number of rows" if p.any_rows else "many rows" if p.n_rows is None else \
        f"{p.n_rows} row{'s' if p.n_rows != 1 else ''}"
    cols = "unknown length" if p.n_cols is None else f"{p.n_cols} columns"
    return f"for {rows} of {cols}, on {work.backend.considered_for(work.target)}"


def _considered(found: tuple[Candidate, ...], any_rows: bool) -> list[str]:
    best = found[0]
    if len(found) == 1:
        return [f"only one fits: {best.short}"]
    shown = notable(found, _SHOWN)
    unit = "in µs" if best.price.adds else "as factors on the time to move the bytes"
    if any_rows:
        unit = "as factors on the best for each number of rows, many rows cubed"
    lines = [f"{len(found)} considered; prices {unit}, the cheapest first"]
    width = max(len(c.short) for c in shown)
    for i, c in enumerate(shown):
        if i == _SHOWN:
            lines.append("of other kinds")
        mark = "→" if c is best else " "
        lines.append(f"{mark} {c.short:<{width}}  {c.price}")
    return [*lines, _why(best, found)]


def _why(best: Candidate, found: tuple[Candidate, ...]) -> str:
    """What sets the choice apart from the best of another kind, or from the next."""
    kind = best.kind
    rival = next((c for c in found if c.kind != kind), found[1])
    theirs, ours = dict(rival.price.parts), dict(best.price.parts)
    names = list(dict.fromkeys([*theirs, *ours]))
    if best.price.adds:
        lost = {n: theirs.get(n, 0.0) - ours.get(n, 0.0) for n in names}
        more = rival.price.total - best.price.total
        dearer = f"{more:.1f} µs more" if more >= 0.05 else "nearly the same"
    else:
        lost = {n: theirs.get(n, 1.0) / ours.get(n, 1.0) for n in names}
        more = rival.price.total / best.price.total
        dearer = f"{more:.2f} times that" if more >= 1.005 else "nearly the same"
    most = max(names, key=lambda n: lost[n])
    return f"chosen: the cheapest; {rival.kind} costs {dearer}, most of it by {most}"


# ---- measured ----


def _measured(work: Work) -> Tuned | None:
    """What `tune=True` found on this machine's device, where it is of the target's kind."""
    p = work.problem
    if p.n_rows is None or p.n_cols is None or p.any_rows:
        return None
    if work.backend.hindrance(work.target):
        return None
    here = work.backend.here()
    return tuned(replace(work, target=here)) if here.name == work.target.name else None


def _times(measured: Tuned) -> list[str]:
    lines = [f"tuned: measured on {measured.device}; compile(…, tune=True) takes the fastest"]
    width = max(len(t.short) for t in measured.timings)
    for i, t in enumerate(measured.timings):
        time = f"{t.seconds * 1e6:8.1f} µs" if t.seconds is not None else f"left out: {t.note}"
        lines.append(f"{'→' if i == 0 else ' '} {t.short:<{width}}  {time}")
    return lines
