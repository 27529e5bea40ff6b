"""Cells on this machine's processors: fusegen, checked, beside plain loops and the peers."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import fusegen as fg
from fusegen.backend.cpu.toolchain import find_compiler
from fusegen.backend.target import host_cpu
from scans.draws import ITEMSIZE, WORKS, Cell
from scans.texts import OURS, TOLERANCE, error_of, inputs_of, named, peer_of

FLUSH_BYTES = 64 << 20  # twice what a core's share of the last cache tends to be
ROUNDS, LEAST_ROUNDS, SECONDS = 15, 3, 2.0
SOURCE = Path(__file__).with_name("hosts.cpp")

Call = Callable[[], Any]


def settle(seed: int, threads: int) -> None:
    """This process draws from the seed, and has so many threads for us and for torch."""
    os.environ["FUSEGEN_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    torch.manual_seed(seed)
    torch.set_grad_enabled(False)


class HostBench:
    """Measures cells; plain loops take as many threads."""

    def __init__(self, peers: tuple[str, ...], warm: bool, threads: int) -> None:
        self._peers, self._warm = peers, warm
        self._move = partial(_mover(), threads)
        self._flush = torch.zeros(FLUSH_BYTES // 8, dtype=torch.int64)

    def environment(self) -> dict[str, Any]:
        return {"cpu": host_cpu().name, "threads": torch.get_num_threads(),
                "torch": torch.__version__, "fusegen": fg.__version__}

    def lives(self) -> bool:
        return True

    def measure(self, cell: Cell) -> dict[str, Any]:
        """A record of the cell."""
        inputs, constants = inputs_of(cell, "cpu"), named(cell)
        ours = partial(OURS[cell.work], *inputs, **constants)
        first = ours()
        error = error_of(cell, inputs, first)
        calls: dict[str, Call] = {"out": partial(ours, out=first), "call": ours}
        calls |= self._moves(cell, inputs, first)
        calls |= {name: call for name in self._peers
                  if (call := peer_of(name, cell, inputs)) is not None}
        us = self._fastest(calls)
        # What else is written, numbers of a row and lists, goes as fast as the rest.
        work = WORKS[cell.work]
        plain = cell.rows * cell.cols * ITEMSIZE[cell.dtype] * (work.inputs + work.results)
        floor = min(us["through"], us["past"]) * sum(cell.moved) / plain
        made: Any = OURS[cell.work].prepare(inputs, constants).executable
        return {
            "key": cell.key, "work": cell.work, "us": us["out"], "call_us": us["call"],
            "floor_us": floor, "share": floor / us["out"], "error": error,
            "status": "ok" if error <= TOLERANCE[cell.dtype] else "WRONG",
            "schedule": made.schedule.describe(),
            "peers": {name: us.get(name) for name in self._peers},
        }

    def _moves(self, cell: Cell, inputs: Any, results: Any) -> dict[str, Call]:
        """Reading, and writing, the very arrays by plain loops: through the caches, and past."""
        work = WORKS[cell.work]
        read = inputs[: work.inputs]
        written = (results if isinstance(results, tuple) else (results,))[: work.results]
        n_bytes = cell.rows * cell.cols * ITEMSIZE[cell.dtype]
        to = [torch.empty_like(r) for r in written]
        return {name: partial(self._move, read, to, n_bytes, past)
                for name, past in (("through", 0), ("past", 1))}

    def _fastest(self, calls: Mapping[str, Call]) -> dict[str, float]:
        """Microseconds of each; they take turns."""
        best = {name: float("inf") for name in calls}
        end = time.perf_counter() + SECONDS
        for turn in range(ROUNDS):
            for name, call in calls.items():
                if not self._warm:
                    self._flush += 1
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
            if turn + 1 >= LEAST_ROUNDS and time.perf_counter() > end:
                break
        return {name: found * 1e6 for name, found in best.items()}


def _mover() -> Callable[..., None]:
    """The plain loops, compiled as kernels are."""
    target, compiler = host_cpu(), find_compiler()
    assert compiler is not None, "plain loops need a C++ compiler"
    library = Path(tempfile.mkdtemp()) / "moves.so"
    subprocess.run([*compiler.command(target.flags), "-fopenmp", "-Wno-attributes",
                    f"-DLANE_BYTES={target.vector_bytes}", "-o", str(library), str(SOURCE)],
                   check=True)
    function = ctypes.CDLL(str(library)).move_bytes

    def move(threads: int, inputs: Any, results: Any, n_bytes: int, past: int) -> None:
        at = [ctypes.c_void_p(x.untyped_storage().data_ptr()) for x in inputs] + [None]
        to = (ctypes.c_void_p * 2)(*(r.data_ptr() for r in results))
        function(at[0], at[1], to, ctypes.c_int64(len(results)), ctypes.c_int64(n_bytes),
                 ctypes.c_int64(past), threads)

    return move
