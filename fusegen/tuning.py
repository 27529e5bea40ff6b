"""Measured choices: the best few schedules on a device, timed on the caller's own arrays.

A choice is remembered in the cache folder under everything it depends on: the graph, types, form,
chunk, shape, how rows lie, the target with the device's name and counts, and fusegen's sources.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegen.compiler import Work
from fusegen.dtypes import DType
from fusegen.errors import BackendError
from fusegen.executables import executable
from fusegen.kept import kept, known
from fusegen.kernel import Param
from fusegen.runtime import arrays as ar
from fusegen.schedule.cuda import CudaSchedule
from fusegen.schedule.select import Candidate, candidates
from fusegen.shared import Lock

if TYPE_CHECKING:
    from fusegen.runtime.cuda import CudaExecutable, Family

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

    schedule: CudaSchedule
    seconds: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What was measured: the choice first, then the others by time, then those left out."""

    device: str
    timings: tuple[Timing, ...]

    @property
    def schedule(self) -> CudaSchedule:
        return self.timings[0].schedule


@dataclass(frozen=True, slots=True)
class Trial:
    """Arrays of a call by parameter name, with outputs that nobody else has."""

    arrays: Mapping[str, Any]
    outputs: tuple[Param, ...]
    shape: tuple[int, int]
    family: Family


def notable(found: Sequence[Candidate], most: int) -> tuple[Candidate, ...]:
    """The cheapest few, and the cheapest of each other kind of team and home."""
    kinds = {(c.schedule.team, c.schedule.home) for c in found[:most]}
    rest = []
    for c in found[most:]:
        kind = (c.schedule.team, c.schedule.home)
        if kind not in kinds:
            kinds.add(kind)
            rest.append(c)
    return (*found[:most], *rest)


def tune(work: Work, trial: Callable[[], Trial]) -> Tuned:
    """The choice for this work, measured now unless it is known.

    Raises BackendError during a graph capture, or where the choice by price cannot run.
    """
    make = partial(_measure, work, trial)
    with _MEASURING.held():
        return kept(_key(work), make, lambda _: True, Tuned, work.graph.name)


def tuned(work: Work) -> Tuned | None:
    """What an earlier `tune` found for this work and device."""
    return known(_key(work), Tuned)


def _key(work: Work) -> tuple[str, ...]:
    p = work.problem
    shape = (p.n_rows, p.n_cols, p.aligned, p.in_phase, p.inner)
    return ("tuned", *work.front_key, repr(work.chunk), repr(shape), repr(work.target))


def _measure(work: Work, trial: Callable[[], Trial]) -> Tuned:
    cuda = ar.cuda_runtime()
    if cuda.capturing():
        raise BackendError("tune=True has to measure, which a graph capture does not allow. "
                           "Compile before the capture.")  # fmt: skip
    target: Any = work.target
    found = candidates(work.result("lower"), work.problem, target, work.chunk)
    want, got = trial(), trial()
    runs: dict[CudaSchedule, _Launch] = {}
    out: list[Timing] = []
    for one in notable(found, BEST):
        try:
            run = _executable(work, one.schedule)
            launch = _launcher(run, got if runs else want)
            _poison(got if runs else want, run)
            launch()
            why = _difference(got, want) if runs else ""
        except BackendError as error:
            if not runs:
                raise  # a plain call could not run either
            why = str(error)
        if why:
            out.append(Timing(one.schedule, None, why))
        else:
            runs[one.schedule] = launch
    first = next(iter(runs))
    runs[first] = _launcher(_executable(work, first), got)  # all write the same memory
    times = _times(runs, target.l2_bytes)
    order = sorted(times, key=lambda s: times[s] * (1.0 if s == first else _MARGIN))
    return Tuned(target.product, (*(Timing(s, times[s]) for s in order), *out))


def _executable(work: Work, schedule: CudaSchedule) -> CudaExecutable:
    known = {n: v for n, v in work.known.items() if n not in ("regroup", "emit")}
    found: Any = executable(replace(work, known={**known, "select_schedule": schedule}))
    return found  # type: ignore[no-any-return]


def _launcher(run: CudaExecutable, trial: Trial) -> _Launch:
    """A launch on these arrays with as little of Python as there can be."""
    bound = run.bound(trial.arrays, *trial.shape, tuple(trial.arrays), trial.family)
    pointers = [a.data.ptr for a in trial.arrays.values()]
    stream = trial.family.stream(run.device.index)
    return lambda: bound.run([*pointers], stream)


def _times(runs: Mapping[CudaSchedule, _Launch], l2_bytes: int) -> dict[CudaSchedule, float]:
    """Median seconds of each, in turns, with nothing of its arrays in the L2 cache."""
    cuda = ar.cuda_runtime()
    flush = cuda.flusher(4 * l2_bytes)  # long enough to queue a launch
    found: dict[CudaSchedule, list[float]] = {one: [] for one in runs}
    for turn in range(_WARM + _TIMES):
        for one, launch in runs.items():
            seconds = cuda.time_calls(launch, 1, before=flush)
            if turn >= _WARM:
                found[one] += seconds
    return {one: statistics.median(seconds) for one, seconds in found.items()}


def _poison(trial: Trial, run: CudaExecutable) -> None:
    """Outputs become NaN or -1: what a kernel leaves unwritten is seen."""
    stream = trial.family.stream(run.device.index)
    for p in trial.outputs:
        array = trial.arrays[p.name]
        run.driver.fill(array.data.ptr, array.size * array.itemsize, stream, 0xFF)


# ---- the same results ----


def _difference(got: Trial, want: Trial) -> str:
    """How results differ by more than rounding; "" where they do not."""
    for p in got.outputs:
        g, w = (_sample(t.arrays[p.name], p.dtype) for t in (got, want))
        worst = _largest(g, w, p.dtype)
        if worst > 1.0:
            return f"its {p.name} differs by {worst:.3g} times what rounding may do"
    return ""


def _sample(array: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Rows all over an output, and the last one, on the host."""
    step = max(1, -(-array.size // _SAMPLE))
    parts = [ar.cuda_runtime().to_host(part, dtype) for part in (array[::step], array[-1:])]
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
