"""Device time of calls, the cache flushed before each."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

FLUSH_BYTES = 256 << 20  # several times the L2 cache
LONG_MICROSECONDS = 1000.0  # calls above this vary less: half the repetitions
_CYCLES_PER_SECOND = 2e9  # no less than the device's clock
_LEAST_CYCLES = 600_000
_ATTEMPTS = 4  # to time a call that the host queued late


class Timer:
    """Times calls on the current device by events.

    Before each call the cache is flushed, unless arrays shall lie in it, and the device sleeps for
    longer than the host needs to queue the call, so that only the device's time is measured.
    """

    def __init__(self, repetitions: int, *, flush: bool = True) -> None:
        self.repetitions, self._flushes = repetitions, flush
        # Lines that a kernel asked to keep (evict_last, as torch.compile's loops ask of what they
        # read twice) outlast a flush, and serve whoever reads that array next.
        self._let_go = ctypes.CDLL("libcuda.so.1").cuCtxResetPersistingL2Cache
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def warm_up(self, seconds: float = 0.5) -> None:
        """Keep the device busy until its clocks have settled."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(20):
                self._flush.zero_()
            torch.cuda.synchronize()

    def times(self, calls: Sequence[Callable[[], Any]]) -> list[float]:
        """Microseconds of each repetition, going round `calls` (one per rotated input)."""
        cycles = self._cycles(calls)
        found: list[float] = []
        count = self.repetitions
        while len(found) < count:
            found.append(self._one(calls[len(found) % len(calls)], cycles))
            if len(found) == 1 and found[0] > LONG_MICROSECONDS:
                count = max(5, count // 2)
        return found

    def microseconds(self, calls: Sequence[Callable[[], Any]]) -> float:
        """The median of `times`."""
        return statistics.median(self.times(calls))

    def turns(self, calls: Mapping[str, Callable[[], Any]]) -> dict[str, float]:
        """Microseconds of each: medians of repetitions in which all take turns."""
        cycles = {name: self._cycles([call]) for name, call in calls.items()}
        found: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(self.repetitions):
            for name, call in calls.items():
                found[name].append(self._one(call, cycles[name]))
        return {name: statistics.median(times) for name, times in found.items()}

    def _cycles(self, calls: Sequence[Callable[[], Any]]) -> int:
        """Warm up, and say how long the device must sleep while the host queues a call."""
        took = 0.0
        for _ in "ab":  # the first round compiles and allocates
            for call in calls:
                torch.cuda.synchronize()
                start = time.perf_counter()
                call()
                took = time.perf_counter() - start
        torch.cuda.synchronize()
        return max(_LEAST_CYCLES, int(2 * took * _CYCLES_PER_SECOND))

    def _one(self, call: Callable[[], Any], cycles: int) -> float:
        """One call's microseconds. Where the device woke before the host had queued it, as beside
        other processes, what passed is the host's time: it is done again after a longer sleep.
        Calls that wait for the device themselves are always late, and stand as they are."""
        for _ in range(_ATTEMPTS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in "se")
            if self._flushes:
                assert self._let_go() == 0
                self._flush.zero_()
            torch.cuda._sleep(cycles)
            start.record()
            call()
            end.record()
            late = start.query()
            torch.cuda.synchronize()
            if not late:
                break
            cycles *= 2
        return float(start.elapsed_time(end)) * 1e3
