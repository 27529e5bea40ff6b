"""One cell on the device: fusegen, checked, beside the limit and the peers."""

from __future__ import annotations

import statistics
from dataclasses import asdict
from functools import partial
from typing import Any

import torch

import fusegen as fg
from streams import peers
from streams.cells import Cell
from streams.limits import Limits
from streams.texts import TOLERANCE, inputs_of, largest_error, memory_of, outputs_of, poison
from streams.timing import Timer

ROTATED = 2  # input sets; the cache is flushed as well


class Bench:
    """Measures cells on the current device."""

    def __init__(self, repetitions: int, peer_names: tuple[str, ...], seed: int) -> None:
        torch.manual_seed(seed)
        torch.set_grad_enabled(False)
        self._timer = Timer(repetitions)
        self._timer.warm_up()
        self._limits, self._peers = Limits(self._timer), peer_names

    def measure(self, cell: Cell) -> dict[str, Any]:
        """A record of the cell; status is "ok" or "WRONG". Raises what fusegen raises."""
        pipeline: fg.Pipeline = getattr(fg.library, cell.work)
        inputs = [inputs_of(cell) for _ in range(ROTATED)]
        out = outputs_of(cell)
        options = {"axis": cell.axis, "form": cell.form, "out": out}
        executable: Any = pipeline.prepare(inputs[0], {}, **options).executable
        limit = self._limits.over(cell.limit, [one[0] for one in inputs],
                                  out if cell.limit == "copy" else None)
        times = self._timer.times([partial(pipeline, *one, **options) for one in inputs])
        error = max(self._error(cell, pipeline, one, options) for one in inputs)
        us = statistics.median(times)
        low, _, high = statistics.quantiles(times, n=4)
        found = {
            **described(cell), "status": "ok" if error <= TOLERANCE[cell.dtype] else "WRONG",
            "limit_us": limit.us, "limit_shape": limit.shape, "us": us, "us_quartiles": [low, high],
            "share": limit.us / us, "error": error,
            "gb_per_s": cell.least_bytes / us * 1e-3,
            "elements_per_s": cell.rows * cell.cols / us * 1e6,
            "schedule": executable.schedule.describe(),
            "reads": executable.program.reads_per_element,
            "writes": executable.program.writes_per_element,
        }
        found["peers"] = {name: self._peer(name, cell, inputs, us) for name in self._peers
                          if cell.target is not None}
        return found

    @staticmethod
    def _error(
        cell: Cell, pipeline: fg.Pipeline, inputs: tuple[torch.Tensor, ...], options: dict[str, Any]
    ) -> float:
        poison(options["out"])
        got = pipeline(*inputs, **options)
        torch.cuda.synchronize()
        return largest_error(cell, got, inputs)

    def _peer(
        self, name: str, cell: Cell, inputs: list[tuple[torch.Tensor, ...]], us: float
    ) -> dict[str, Any]:
        found = peers.measured(name, cell, inputs, self._timer)
        if "us" in found:
            found["times"] = found["us"] / us  # within this run: merged files keep it
        return found


def described(cell: Cell) -> dict[str, Any]:
    """What a record says of its cell."""
    return {**asdict(cell), "key": cell.key, "limit": cell.limit, "least_bytes": cell.least_bytes}


def compile_only(cell: Cell) -> None:
    """Bring the cell's kernels into the caches on disk, without running them."""
    pipeline: fg.Pipeline = getattr(fg.library, cell.work)
    options = {"axis": cell.axis, "form": cell.form, "out": outputs_of(cell)}
    assert pipeline.prepare(memory_of(cell), {}, **options).executable is not None
    torch.cuda.empty_cache()  # other processes compile beside this one


def environment() -> dict[str, Any]:
    """The device and the versions of what ran on it."""
    import cupy

    return {
        "gpu": torch.cuda.get_device_name(), "torch": torch.__version__,
        "cuda_of_torch": torch.version.cuda, "cupy": cupy.__version__,
        "cuda_runtime": cupy.cuda.runtime.runtimeGetVersion(),
        "cuda_driver": cupy.cuda.runtime.driverGetVersion(), "fusegen": fg.__version__,
    }


def device_lives() -> bool:
    """False once a kernel has failed in a way that ends all later work of this process."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    torch.cuda.empty_cache()
    return True
