"""Cells measured in a process of their own, so that a kernel that hangs or dies costs one cell."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar

from streams.cells import Cell
from streams.lists import ListCell
from streams.runs import save

_CONTEXT = multiprocessing.get_context("fork")  # the parent never touches the device
Record = dict[str, Any]
AnyCell = TypeVar("AnyCell", Cell, ListCell)
Measured = TypeVar("Measured", bound=Cell | ListCell, contravariant=True)


class Measurer(Protocol[Measured]):
    """What a worker process makes for itself."""

    def environment(self) -> Record: ...

    def measure(self, cell: Measured) -> Record: ...

    def lives(self) -> bool:
        """Can the process go on after an error?"""


class Here:
    """Measures on this machine's device; torch and CuPy are first imported in the worker."""

    def __init__(self, measure: Callable[[Any], Record]) -> None:
        from streams import measure as device

        self.measure = measure
        self.environment, self.lives = device.environment, device.device_lives


def records(
    cells: Sequence[AnyCell], make: Callable[[], Measurer[AnyCell]], seconds: float
) -> Iterator[tuple[str, Record]]:
    """("environment", …) once, then ("cell", record) for each cell in order.

    A cell that raises, ends its process or takes longer than `seconds` gets a record with status
    ERROR and the message; the next one starts in a fresh process. Raises RuntimeError if a worker
    cannot start.
    """
    rest, told = list(cells), False
    while rest:
        ours, theirs = _CONTEXT.Pipe()
        process = _CONTEXT.Process(target=_work, args=(theirs, make, rest))
        process.start()
        theirs.close()
        try:
            start = _received(ours, process, seconds)
            if "failed" in start:
                raise RuntimeError(f"the measuring process cannot start: {start['failed']}")
            if not told:
                yield "environment", start
                told = True
            while rest:
                record = _received(ours, process, seconds)
                cell, ends = rest.pop(0), record.pop("ends", "failed" in record)
                yield "cell", failed(cell, record["failed"]) if "failed" in record else record
                if ends:
                    break
        finally:
            process.kill()
            process.join()
            ours.close()


def reports(
    cells: Sequence[AnyCell], make: Callable[[], Measurer[AnyCell]], seconds: float, run: Record,
    path: Path | None,
) -> Iterator[Record]:
    """The report of a run after every cell, saved there: what was measured is not lost."""
    report: Record = {"runs": [run], "environment": {}, "cells": []}
    for kind, found in records(cells, make, seconds):
        if kind == "environment":
            report["environment"] = found
            continue
        report["cells"].append(found)
        save(path, report)
        yield report


def failed(cell: AnyCell, message: str) -> Record:
    """The record of a cell that could not be measured."""
    return {**asdict(cell), "key": cell.key, "status": "ERROR", "message": message}


def _received(pipe: Connection, process: Any, seconds: float) -> Record:
    if not pipe.poll(seconds):
        return {"failed": f"no answer for {seconds:g} s"}
    try:
        found: Record = pipe.recv()
    except EOFError:
        process.join()
        return {"failed": f"the process ended with code {process.exitcode}"}
    return found


def _work(
    pipe: Connection, make: Callable[[], Measurer[AnyCell]], cells: Sequence[AnyCell]
) -> None:
    try:
        measurer = make()
        pipe.send(measurer.environment())
    except Exception as error:
        pipe.send({"failed": _said(error)})
        return
    for cell in cells:
        try:
            record = measurer.measure(cell)
        except Exception as error:
            traceback.print_exc()
            record = failed(cell, _said(error))
        record["ends"] = not measurer.lives()
        pipe.send(record)
        if record["ends"]:
            return


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


# ---- compiling ahead ----


def compile_others(call: Any) -> None:
    """Bring the kernels of every schedule that tuning times into the cache on disk."""
    from fusegen.compile.tuning import BEST, considered, notable

    variants, key = call.variants, call.key
    work = variants.work(variants.target(key.memory), variants.problem(key))
    for one in notable(considered(work), BEST):
        assert work.scheduled(one.schedule).executable() is not None


def compile_ahead(
    cells: Sequence[AnyCell], compile_one: Callable[[AnyCell], None], jobs: int
) -> list[str]:
    """Compile every cell's kernels in `jobs` processes; messages of those that failed.

    They fail again, and are recorded, where they are measured.
    """
    with ProcessPoolExecutor(jobs, mp_context=_CONTEXT) as pool:
        running = [(cell, pool.submit(compile_one, cell)) for cell in cells]
        errors = [(cell, future.exception()) for cell, future in running]
    return [f"{cell.key}: {error}" for cell, error in errors if error is not None]
