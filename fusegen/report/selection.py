"""Why a GPU gets the schedule it gets: what was considered, what each costs, what was measured."""

from __future__ import annotations

from fusegen.compiler import Work
from fusegen.runtime import arrays as ar
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.select import Candidate, candidates
from fusegen.schedule.target import CudaTarget
from fusegen.tuning import Tuned, notable, tuned

_SHOWN = 5  # of the cheapest, beside the best of each other kind


def selection(work: Work) -> list[str]:
    """Lines on the choice for this work's target, which is a GPU."""
    assert isinstance(work.target, CudaTarget)
    found = candidates(work.result("lower"), work.problem, work.target, work.chunk)
    lines = [_asked(work, work.target), *_considered(found, work.problem.any_rows)]
    measured = _measured(work, work.target)
    return lines if measured is None else [*lines, *_times(measured)]


def _asked(work: Work, target: CudaTarget) -> str:
    p = work.problem
    rows = "any number of rows" if p.any_rows else "many rows" if p.n_rows is None else \
        f"{p.n_rows} row{'s' if p.n_rows != 1 else ''}"  # fmt: skip
    cols = "unknown length" if p.n_cols is None else f"{p.n_cols} columns"
    return (f"for {rows} of {cols}, on {target.arch} ({target.product}: {target.multiprocessors} "
            f"multiprocessors, {target.bandwidth / 1e9:.0f} GB/s)")  # fmt: skip


def _considered(found: tuple[Candidate, ...], any_rows: bool) -> list[str]:
    best = found[0]
    if len(found) == 1:
        return [f"only one fits: {_short(best.schedule)}"]
    shown = notable(found, _SHOWN)
    unit = "in µs" if best.price.adds else "as factors on the time to move the bytes"
    if any_rows:
        unit = "as factors on the best for each number of rows, many rows cubed"
    lines = [f"{len(found)} considered; prices {unit}, the cheapest first"]
    width = max(len(_short(c.schedule)) for c in shown)
    for i, c in enumerate(shown):
        if i == _SHOWN:
            lines.append("of other kinds")
        mark = "→" if c is best else " "
        lines.append(f"{mark} {_short(c.schedule):<{width}}  {c.price}")
    return [*lines, _why(best, found)]


def _why(best: Candidate, found: tuple[Candidate, ...]) -> str:
    """What sets the choice apart from the best of another kind, or from the next."""
    kind = _kind(best.schedule)
    rival = next((c for c in found if _kind(c.schedule) != kind), found[1])
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
    return f"chosen: the cheapest; {_kind(rival.schedule)} costs {dearer}, most of it by {most}"


def _kind(one: CudaSchedule) -> str:
    team = {"lanes": "lanes of a warp", "block": "a block", "cluster": "a cluster",
            "grid": "blocks all over the grid"}[one.team]  # fmt: skip
    home = {"device": "from memory", "registers": "in registers", "shared": "in shared memory",
            "chip": "in registers and shared memory"}  # fmt: skip
    return f"{team}, {'through a ring' if one.stages else home[one.home]}"


def _short(one: CudaSchedule) -> str:
    """A schedule in as few words as tell it from the others."""
    size = f"{one.lanes} lanes" if one.team == "lanes" else f"{one.threads} threads"
    blocks = f" × {one.blocks} blocks" if one.blocks > 1 else ""
    return f"{_kind(one)}, {size}{blocks}, {one.vectors} × {one.width}"


# ---- measured ----


def _measured(work: Work, target: CudaTarget) -> Tuned | None:
    """What `tune=True` found on this machine's device, where it is of the target's kind."""
    p = work.problem
    if p.n_rows is None or p.n_cols is None or p.any_rows:
        return None
    if ar.cuda_runtime().available() is not None:
        return None
    here = ar.cuda_target()
    if here.arch != target.arch:
        return None
    other = Work(work.traced, work.dtypes, work.form, here, p, work.chunk, work.for_any_target)
    return tuned(other)


def _times(measured: Tuned) -> list[str]:
    lines = [f"tuned: measured on {measured.device}; compile(…, tune=True) takes the fastest"]
    width = max(len(_short(t.schedule)) for t in measured.timings)
    for i, t in enumerate(measured.timings):
        time = f"{t.seconds * 1e6:8.1f} µs" if t.seconds is not None else f"left out: {t.note}"
        lines.append(f"{'→' if i == 0 else ' '} {_short(t.schedule):<{width}}  {time}")
    return lines
