"""Measured choices: the best few schedules on a device, timed on the caller's own arrays.

A choice is remembered in the cache folder under everything it depends on: the graph, types, form,
chunk, shape, how rows lie, the target with the device's name and counts, and fusegen's sources.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fusegen.backend.backend import Stopwatch, Trial
from fusegen.backend.cache.results import kept, known
from fusegen.backend.choices import Candidate
from fusegen.backend.executable import Executable
from fusegen.backend.memory import Memory
from fusegen.compile.passes import Work
from fusegen.ir.dtypes import DType
from fusegen.ir.errors import BackendError
from fusegen.ir.shared import Lock

BEST = 6  # that are measured, beside the best of each other kind
_WARM, _TIMES = 3, 15  # launches of each
_MARGIN = 1.01  # another choice must be that much faster than the one by price
_SAMPLE = 1 << 22  # elements of an output that are compared
_TOLERANCE = {8: 1e-11, 4: 2e-5, 2: 2e-2}  # of the largest result, by bytes of a float

_MEASURING = Lock()  # one after another: they would slow each other down

_Launch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """A schedule and its median time; `note` says why it takes no part, seconds is None then."""

    schedule: Any  # a backend.Schedule
    seconds: float | None
    note: str = ""
    short: str = ""  # the schedule in few words


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was measured: the choice first, then the others by time, then those left out."""

    device: str
    timings: tuple[Timing, ...]

    @property
    def schedule(self) -> Any:
        return self.timings[0].schedule


@dataclass(frozen=True, slots=True)
class Kept:
    """`Tuned` as it is kept: schedules by their repr(), found among the candidates again."""

    device: str
    timings: tuple[tuple[str, float | None, str], ...]

    def among(self, found: Sequence[Candidate]) -> Tuned:
        known = {repr(c.schedule): c for c in found}
        return Tuned(self.device, tuple(
            Timing(known[s].schedule, t, note, known[s].short) for s, t, note in self.timings))


def notable(found: Sequence[Candidate], most: int) -> tuple[Candidate, ...]:
    """The cheapest few, and the cheapest of each other kind."""
    kinds = {c.kind for c in found[:most]}
    rest = []
    for c in found[most:]:
        if c.kind not in kinds:
            kinds.add(c.kind)
            rest.append(c)
    return (*found[:most], *rest)


def tune(work: Work, trial: Callable[[], Trial]) -> Tuned:
    """The choice for this work, measured now unless it is known.

    Raises ArgumentError where there is one choice, BackendError during a graph capture, or where
    the choice by price cannot run.
    """
    found = considered(work)
    make = partial(_measure, work, found, trial)
    with _MEASURING.held():
        return kept(_key(work), make, lambda _: True, Kept, work.name).among(found)


def tuned(work: Work) -> Tuned | None:
    """What an earlier `tune` found for this work and device."""
    measured = known(_key(work), Kept)
    return None if measured is None else measured.among(considered(work))


def considered(work: Work) -> tuple[Candidate, ...]:
    """All that is offered, the cheapest first."""
    return work.backend.candidates(work.typed.program(), work.problem, work.target, work.chunk)


def _key(work: Work) -> tuple[str, ...]:
    p = work.problem
    shape = (p.n_rows, p.n_cols, p.aligned, p.in_phase, p.written_in_phase, p.inner)
    return ("tuned", *work.typed.key, repr(work.chunk), repr(shape), repr(work.target))


def _measure(work: Work, found: Sequence[Candidate], trial: Callable[[], Trial]) -> Kept:
    watch = work.backend.stopwatch()
    want, got = trial(), trial()
    runs: dict[Any, _Launch] = {}
    out: list[tuple[str, None, str]] = []
    for one in notable(found, BEST):
        try:
            launch = watch.launcher(_executable(work, one.schedule), got if runs else want)
            watch.poison(got if runs else want)
            launch()
            why = _difference(got, want, work.backend.memory) if runs else ""
        except BackendError as error:
            if not runs:
                raise  # a plain call could not run either
            why = str(error)
        if why:
            out.append((repr(one.schedule), None, why))
        else:
            runs[one.schedule] = launch
    first = next(iter(runs))
    runs[first] = watch.launcher(_executable(work, first), got)  # all write the same memory
    times = _times(runs, watch)
    order = sorted(times, key=lambda s: times[s] * (1.0 if s == first else _MARGIN))
    device = work.backend.device(work.target)
    return Kept(device, (*((repr(s), times[s], "") for s in order), *out))


def _executable(work: Work, schedule: Any) -> Executable:
    return work.scheduled(schedule).executable()


def _times(runs: Mapping[Any, _Launch], watch: Stopwatch) -> dict[Any, float]:
    """Median seconds of each, in turns, forth and back: what ran before leaves its mark, and none
    shall always follow the slowest."""
    found: dict[Any, list[float]] = {one: [] for one in runs}
    order = [*runs.items()]
    for turn in range(_WARM + _TIMES):
        for one, launch in order[:: -1 if turn % 2 else 1]:
            seconds = watch.cold(launch)
            if turn >= _WARM:
                found[one].append(seconds)
    return {one: statistics.median(seconds) for one, seconds in found.items()}


# ---- the same results ----


def _difference(got: Trial, want: Trial, memory: Memory) -> str:
    """How results differ by more than rounding; "" where they do not."""
    for p in got.outputs:
        g, w = (_sample(t.arrays[p.name], p.dtype, memory) for t in (got, want))
        worst = _largest(g, w, p.dtype)
        if worst > 1.0:
            return f"its {p.name} differs by {worst:.3g} times what rounding may do"
    return ""


def _sample(array: Any, dtype: DType, memory: Memory) -> np.ndarray[Any, Any]:
    """Rows all over an output, and the last one, on the host."""
    step = max(1, -(-array.size // _SAMPLE))
    parts = [memory.to_host(part, dtype) for part in (array[::step], array[-1:])]
    return np.concatenate(parts)


def _largest(got: Any, want: Any, dtype: DType) -> float:
    """The largest difference, in units of what is allowed."""
    if dtype.kind != "float":
        return float("inf") if (got != want).any() else 0.0
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    same = (g == w) | (np.isnan(g) & np.isnan(w))
    if not (same | (finite & np.isfinite(g))).all():
        return float("inf")
    apart = np.where(finite, np.abs(g - np.where(finite, w, 0.0)), 0.0)
    largest = float(np.max(np.abs(w), where=finite, initial=0.0))
    range_of = np.dtype(np.float32) if dtype.name == "bfloat16" else dtype.numpy  # NumPy knows it
    allowed = max(_TOLERANCE[dtype.itemsize] * largest, np.finfo(range_of).tiny)
    return float(np.max(apart, initial=0.0) / allowed)
