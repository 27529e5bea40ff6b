"""Launches measured on a device, for choices among schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusegen.backend.backend import Trial
from fusegen.backend.cuda.run.device import time_calls
from fusegen.backend.cuda.run.executable import CudaExecutable, flusher, poison
from fusegen.backend.words import word
from fusegen.ir.shared import lazy

_FLUSH = 4  # times the L2 cache: long enough to queue a launch meanwhile


@dataclass
class CudaStopwatch:
    """See `Stopwatch`. Works on the current device and CuPy's current stream."""

    l2_bytes: int

    def launcher(self, run: CudaExecutable, trial: Trial) -> Callable[[], None]:
        bound = run.bound(trial.arrays, *trial.shape, tuple(trial.arrays), trial.like)
        words = [word(a) for a in trial.arrays.values()]
        stream = bound.stream()
        return lambda: bound.launch([*words], stream)

    def poison(self, trial: Trial) -> None:
        for p in trial.outputs:
            poison(trial.arrays[p.name], trial.like)

    def cold(self, launch: Callable[[], None]) -> float:
        (seconds,) = time_calls(launch, 1, before=self._flush)
        return seconds

    @lazy
    def _flush(self) -> Callable[[], None]:
        return flusher(_FLUSH * self.l2_bytes)
