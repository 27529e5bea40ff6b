"""This machine's processor: C++ for its vectors, compiled by its compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusegen.backend.backend import Backend, Job, Stopwatch
from fusegen.backend.choices import Candidate
from fusegen.backend.cpu.schedule import CpuSchedule, select_cpu
from fusegen.backend.emit.source import Source
from fusegen.backend.exported import Part, Place, Text, Wish
from fusegen.backend.findings import Finding
from fusegen.backend.host.chunks import one_schedule
from fusegen.backend.host.memory import HOST, HostMemory
from fusegen.backend.numpy import NUMPY
from fusegen.backend.problem import Problem
from fusegen.backend.target import CPU_TARGETS, CpuTarget, host_cpu
from fusegen.ir.errors import ArgumentError
from fusegen.ir.kernel import Program

if TYPE_CHECKING:
    from fusegen.backend.cpu.run import CpuExecutable


@dataclass(frozen=True, slots=True)
class CpuBackend:
    """See `Backend`."""

    name: str = "cpu"
    title: str = "the CPU"
    memory: HostMemory = HOST
    targets: tuple[str, ...] = ("cpu", *CPU_TARGETS)

    def target(self, name: str) -> CpuTarget | None:
        return host_cpu() if name == "cpu" else CPU_TARGETS.get(name)

    def here(self) -> CpuTarget:
        return host_cpu()

    def placed(self, wanted: CpuTarget) -> CpuTarget:
        return wanted

    def device(self, target: CpuTarget) -> str:
        return f"CPU, {target.name}"

    def hindrance(self, target: CpuTarget, *, failed: bool = False) -> str:
        from fusegen.backend.cpu.compiled import hindrance

        return hindrance(target, failed=failed)

    @property
    def instead(self) -> Backend:
        return NUMPY

    def takes_side_by_side(self, program: Program) -> bool:
        return False

    def select(
        self, program: Program, problem: Problem, target: CpuTarget, chunk: int | None
    ) -> CpuSchedule:
        return select_cpu(program, problem, target, chunk)

    def candidates(
        self, program: Program, problem: Problem, target: CpuTarget, chunk: int | None
    ) -> tuple[Candidate, ...]:
        return ()

    def considered_for(self, target: CpuTarget) -> str:
        return target.name

    def emit(self, program: Program, schedule: CpuSchedule) -> Source:
        from fusegen.backend.cpu.emit import cpu_source

        return cpu_source(program, schedule)

    def launcher(self, program: Program, schedule: CpuSchedule) -> str:
        raise ArgumentError(
            "a source for CPUs has no launcher", why="Its functions are C++'s own to call.",
            fix=f"Call {program.kernels[0].name}_rows(arrays, first, last, scratch), or ask for a "
            "GPU's source.")

    def load(self, job: Job) -> CpuExecutable:
        from fusegen.backend.cpu.run import made

        return made(job.program, job.schedule, job.source)

    # ---- of libraries: see `Exporting` ----

    def exported_targets(self, names: tuple[str, ...]) -> tuple[CpuTarget, ...]:
        from fusegen.backend.cpu.export import exported_targets

        return exported_targets(names)

    def place(self) -> Place:
        from fusegen.backend.cpu.export import place

        return place()

    def part(self, text: Text, target: CpuTarget, wish: Wish) -> Part:
        from fusegen.backend.cpu.export import part

        return part(text, target, wish)

    def prebuilt(self, library: Any, records: Sequence[Mapping[str, Any]]) -> CpuExecutable:
        from fusegen.backend.cpu.run import prebuilt

        return prebuilt(library, records)

    def stopwatch(self) -> Stopwatch:
        raise one_schedule()

    def findings(self) -> Iterator[Finding]:
        from fusegen.backend.cpu.helper import HELPER
        from fusegen.backend.cpu.toolchain import find_compiler, unusable

        yield HELPER.finding()
        what, found, fix = "CPU kernels", find_compiler(), "install gcc or clang, or set CXX"
        if found is None:
            yield Finding(what, "no C++ compiler: runs on NumPy, slower", False, fix)
            return
        why = unusable(found, host_cpu().flags)
        good = f"{found}, for {host_cpu().name}"
        yield Finding(what, f"{why}\nruns on NumPy, slower" if why else good, not why, fix)


CPU = CpuBackend()
