"""Compiling generated C++ and running it on threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fusegen.backend.cpu.bound import CpuBound
from fusegen.backend.cpu.launch import Launch, part_of
from fusegen.backend.cpu.loaded import Library
from fusegen.backend.cpu.record import recorded
from fusegen.backend.cpu.schedule import CpuSchedule
from fusegen.backend.cpu.table import Array, filled, words_of, workspace
from fusegen.backend.executable import Progress, Record
from fusegen.backend.host.threads import thread_count
from fusegen.backend.target import CPU_TARGETS, host_cpu, runnable
from fusegen.ir.codec import decoded, encoded
from fusegen.ir.errors import BackendError
from fusegen.ir.kernel import Program


class CpuExecutable:
    """A program compiled for this machine, in a library."""

    def __init__(
        self, program: Program, schedule: CpuSchedule, library: Library, *, may_build: bool = True
    ) -> None:
        """may_build: may a compiler be called to make later calls faster?"""
        self.program, self.schedule, self._may_build = program, schedule, may_build
        self._launches = tuple(Launch(k, library, schedule.piece) for k in program.kernels)

    def __call__(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Fill the output arrays of `arrays` (by parameter name); done when it returns.

        element: (n_rows, n_cols), neighbouring columns, any row stride. per_column: (n_cols,).
        row: (n_rows,), any stride. list: (n_rows, k) contiguous, but for fields of states.
        """
        team = thread_count(threads)
        if n_rows == 0:
            return
        held = {p.name: workspace(p, n_rows, n_cols) for p in self.program.workspace}
        every = {**arrays, **held}
        steps = len(self._launches)
        for i, launch in enumerate(self._launches):
            report = None if progress is None else part_of(progress, i, steps)
            first = first_column if launch.numbered else None
            table = filled(words_of(launch.kernel, every, n_rows, n_cols, first), every)
            # As long as a thread has the table, the memory is there.
            table.held = tuple(every.values())
            launch.run(table, n_rows, n_cols, team, report)

    def bound(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any, makers: tuple[Callable[[], Any], ...] = (), first_column: int = 0,
    ) -> CpuBound:
        """See `Bindable`."""
        return CpuBound(self._launches, self.program.workspace, arrays, (n_rows, n_cols), order,
                        like, makers, first_column, self._may_build)

    def record(
        self, arrays: Mapping[str, Array], n_rows: int, n_cols: int, order: tuple[str, ...]
    ) -> Record:
        """See `Recordable`."""
        told = encoded(self.program).decode(), self.schedule
        return recorded(self._launches, told, self.program.workspace, arrays, (n_rows, n_cols),
                        order)


def made(program: Program, schedule: CpuSchedule, source: str) -> CpuExecutable:
    """Compiled, or loaded from the cache; raises what `compiled` does."""
    from fusegen.backend.cpu.compiled import compiled

    wanted = [f"{kernel.name}_rows" for kernel in program.kernels]
    return CpuExecutable(program, schedule, compiled(source, schedule.target, program.name, wanted))


def prebuilt(library: Library, records: Sequence[Mapping[str, Any]]) -> CpuExecutable:
    """Of an exported library's parts, the first that this machine runs. Raises BackendError."""
    here = host_cpu()
    levels = [t.name for t in runnable(here)]
    for record in records:
        if record["target"] in levels:
            schedule = CpuSchedule(target=CPU_TARGETS[record["target"]], lanes=record["lanes"],
                                   chunk=record["chunk"], piece=record["piece"])
            program = decoded(record["program"].encode(), Program)
            return CpuExecutable(program, schedule, library, may_build=False)
    known = ", ".join(record["target"] for record in records)
    raise BackendError(f"the library has code for {known}, and this machine is {here.name}: "
                       "export it for that target as well.")
