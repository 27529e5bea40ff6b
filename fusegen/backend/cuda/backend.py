"""GPUs: CUDA C++, compiled by NVRTC. What chooses, prints and runs is loaded when it is asked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fusegen.backend.backend import Job
from fusegen.backend.cuda.memory import GPU, GpuMemory
from fusegen.backend.emit.source import Source
from fusegen.backend.executable import Executable
from fusegen.backend.exported import Part, Place, Text, Wish
from fusegen.backend.findings import Finding, version_of
from fusegen.backend.problem import Problem
from fusegen.backend.target import CUDA_TARGETS, CudaTarget, gpu_named, on_device
from fusegen.ir.errors import ArgumentError, BackendError
from fusegen.ir.kernel import Program

if TYPE_CHECKING:
    from fusegen.backend.cuda.run import CudaExecutable, ProductExecutable
    from fusegen.backend.cuda.run.stopwatch import CudaStopwatch
    from fusegen.backend.cuda.schedule.candidate import Candidate
    from fusegen.backend.cuda.schedule.cuda import CudaSchedule
    from fusegen.backend.cuda.schedule.products import ProductSchedule
    from fusegen.backend.cuda.schedule.select_vectors import VectorCandidate
    from fusegen.backend.cuda.schedule.tiles.tile import TileSchedule


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """See `Backend`."""

    name: str = "cuda"
    title: str = "a GPU"
    memory: GpuMemory = GPU
    targets: tuple[str, ...] = tuple(CUDA_TARGETS)

    def target(self, name: str) -> CudaTarget | None:
        return gpu_named(name)

    def here(self) -> CudaTarget:
        from fusegen.backend.cuda.run import current_target, need_device

        need_device()
        return current_target()

    def placed(self, wanted: CudaTarget) -> CudaTarget:
        return on_device(wanted, self.here())

    def device(self, target: CudaTarget) -> str:
        return target.product

    def hindrance(self, target: CudaTarget, *, failed: bool = False) -> str:
        from fusegen.backend.cuda.run import available

        return available() or ""

    @property
    def instead(self) -> None:
        return None

    def takes_side_by_side(self, program: Program) -> bool:
        from fusegen.backend.cuda.schedule.strips import takes_strips

        return takes_strips(program)

    def select(
        self, program: Program, problem: Problem, target: CudaTarget, chunk: int | None
    ) -> CudaSchedule | TileSchedule | ProductSchedule:
        from fusegen.backend.cuda.schedule.select import select_cuda
        from fusegen.backend.cuda.schedule.select_vectors import vector_candidates

        if program.has_vectors and program.role != "merge":
            return vector_candidates(program, problem, target)[0].schedule
        return select_cuda(program, problem, target, chunk)

    def candidates(
        self, program: Program, problem: Problem, target: CudaTarget, chunk: int | None
    ) -> tuple[Candidate | VectorCandidate, ...]:
        from fusegen.backend.cuda.schedule.select import candidates
        from fusegen.backend.cuda.schedule.select_vectors import vector_candidates

        if program.has_vectors:
            found = vector_candidates(program, problem, target) if program.role != "merge" else ()
            return found if len(found) > 1 else ()  # one choice
        return candidates(program, problem, target, chunk)

    def considered_for(self, target: CudaTarget) -> str:
        return (f"{target.arch} ({target.product}: {target.multiprocessors} multiprocessors, "
                f"{target.bandwidth / 1e9:.0f} GB/s)")

    def emit(
        self, program: Program, schedule: CudaSchedule | TileSchedule | ProductSchedule
    ) -> Source:
        from fusegen.backend.cuda.emit import cuda_source

        return cuda_source(program, schedule)

    def launcher(self, program: Program, schedule: CudaSchedule) -> str:
        from fusegen.backend.cuda.emit.host import host_source

        if program.role != "call":
            raise ArgumentError(f"the {program.role} of {program.name} has no launcher",
                                why="Its arrays are fields of states: see its banner.",
                                fix="Ask for the source without host=True.")
        if program.has_vectors:
            raise ArgumentError(f"the kernels of {program.name} have no launcher in C++",
                                why="Rows are made of vectors: grids and tensor maps of such "
                                "kernels are made in Python.",
                                fix="Ask for the source without host=True; torch.export keeps "
                                "calls in programs.")
        return host_source(program, schedule)

    def load(self, job: Job) -> CudaExecutable | ProductExecutable:
        from fusegen.backend.cuda.run import CudaExecutable, ProductExecutable
        from fusegen.backend.cuda.schedule.products import ProductSchedule, storing

        if isinstance(job.schedule, ProductSchedule):
            tile = job.schedule.tile
            first = self.emit(storing(job.program), tile).text() if tile else ""
            return ProductExecutable(job.program, job.schedule, job.source, first)
        return CudaExecutable(job.program, job.schedule, job.source)

    # ---- of libraries: see `Exporting` ----

    def exported_targets(self, names: tuple[str, ...]) -> tuple[CudaTarget, ...]:
        from fusegen.backend.cuda.export import exported_targets

        return exported_targets(names)

    def place(self) -> Place:
        from fusegen.backend.cuda.export import place

        return place()

    def part(self, text: Text, target: CudaTarget, wish: Wish) -> Part:
        from fusegen.backend.cuda.export import part

        return part(text, target, wish)

    def prebuilt(self, library: Any, records: Sequence[Mapping[str, Any]]) -> Executable:
        from fusegen.backend.cuda.prebuilt import prebuilt

        return prebuilt(library, records)

    def stopwatch(self) -> CudaStopwatch:
        from fusegen.backend.cuda.run import capturing, current_target
        from fusegen.backend.cuda.run.stopwatch import CudaStopwatch

        if capturing():
            raise BackendError("tune=True has to measure, which a graph capture does not allow. "
                               "Compile before the capture.")
        return CudaStopwatch(current_target().l2_bytes)

    def findings(self) -> Iterator[Finding]:
        from fusegen.backend.cuda.run import available, current_target

        reason = available()
        if reason is None:
            yield Finding("GPU kernels", f"CuPy, {current_target().name}", True)
        else:
            yield Finding("GPU kernels", reason.splitlines()[0], False, _fix())


def _fix() -> str:
    if any(version_of(f"cupy-cuda{n}x") for n in (12, 13)):
        return "CuPy is installed; it needs an NVIDIA GPU and its driver (nvidia-smi)"
    if shutil.which("nvidia-smi") is None:
        return "needs an NVIDIA GPU with its driver; source and plan work without"
    return "as nvidia-smi says: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12 " \
           "nvidia-cuda-runtime-cu12, or cupy-cuda13x nvidia-cuda-nvrtc nvidia-cuda-runtime "\
           "nvidia-cuda-cccl"


CUDA = CudaBackend()
