"""What fusegen asks of a place where kernels run. `registry.BACKENDS` lists those there are.

A backend takes Kernel IR from `lower` to results: `select` makes the choices, `emit` the text,
`load` what runs. Its `memory` is where its arrays lie, and adopts them; several may share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from fusegen.backend.choices import Candidate, Schedule
from fusegen.backend.emit.source import Source
from fusegen.backend.executable import Executable
from fusegen.backend.findings import Finding
from fusegen.backend.memory import Memory
from fusegen.backend.problem import Problem
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.kernel import Param, Program


class Target(Protocol):
    """Facts about hardware. Equal targets have equal facts; repr() says all of them."""

    @property
    def name(self) -> str: ...

    @property
    def backend(self) -> str:
        """The name of whose it is."""

    @property
    def elsewhere(self) -> str:
        """What to ask for on another machine to get what this one got by itself."""


class Job(Protocol):
    """A pipeline on its way to something that runs; all but the first three are made when asked
    for."""

    @property
    def graph(self) -> g.Graph: ...

    @property
    def dtypes(self) -> Mapping[str, DType]: ...

    @property
    def target(self) -> Any: ...

    @property
    def program(self) -> Program: ...

    @property
    def schedule(self) -> Any: ...

    @property
    def source(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Trial:
    """Arrays of a call by parameter name, with outputs that nobody else has."""

    arrays: Mapping[str, Any]
    outputs: tuple[Param, ...]
    shape: tuple[int, int]  # rows, columns
    like: Any  # the caller's array


class Stopwatch(Protocol):
    """Measures launches on a device, with nothing of their arrays in its caches."""

    def launcher(self, run: Any, trial: Trial) -> Callable[[], None]:
        """A launch of an executable on these arrays with as little of the host as there can be."""

    def poison(self, trial: Trial) -> None:
        """Outputs become NaN or -1: what a kernel leaves unwritten is seen."""

    def cold(self, launch: Callable[[], None]) -> float:
        """Seconds of one launch."""


class Backend(Protocol):
    """One place where kernels run."""

    @property
    def name(self) -> str: ...

    @property
    def title(self) -> str:
        """The same for people."""

    @property
    def memory(self) -> Memory: ...

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of those it has facts of."""

    def target(self, name: str) -> Target | None:
        """The target of that name; None: it is not this backend's. Raises ArgumentError."""

    def here(self) -> Target:
        """This machine's. Raises BackendError where nothing can run."""

    def placed(self, wanted: Any) -> Target:
        """The wanted target on this machine. Raises ArgumentError, BackendError."""

    def device(self, target: Any) -> str:
        """Where it runs, for people."""

    def hindrance(self, target: Any, *, failed: bool = False) -> str:
        """Why nothing can run here; "" where it can. `failed`: a compiler has just refused."""

    @property
    def instead(self) -> Backend | None:
        """What serves this backend's arrays where it is hindered."""

    def takes_side_by_side(self, program: Program) -> bool:
        """Can kernels read rows that lie side by side as they are?"""

    def select(
        self, program: Program, problem: Problem, target: Any, chunk: int | None
    ) -> Schedule:
        """The schedule. Raises ArgumentError for an impossible chunk."""

    def candidates(
        self, program: Program, problem: Problem, target: Any, chunk: int | None
    ) -> tuple[Candidate, ...]:
        """What was considered, the cheapest first; empty where there is one choice."""

    def considered_for(self, target: Any) -> str:
        """The facts that prices depend on, for people."""

    def emit(self, program: Program, schedule: Any) -> Source:
        """Source. Raises BackendError where there is none."""

    def launcher(self, program: Program, schedule: Any) -> str:
        """C++ to stand behind the source: functions that check what it assumes and run it. Raises
        ArgumentError where the source needs none."""

    def load(self, job: Job) -> Executable:
        """Raises BackendError, CompilerError or InternalError."""

    def stopwatch(self) -> Stopwatch:
        """Raises ArgumentError where there is one schedule, BackendError where it cannot be."""

    def findings(self) -> Iterator[Finding]:
        """What it needs, whether that is here, and what to do where it is missing."""
