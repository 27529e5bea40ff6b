"""What fusegen asks of a place where kernels run. `registry.BACKENDS` lists those there are.

A backend takes Kernel IR from `lower` to results: `select` makes the choices, `emit` the text,
`load` what runs. Its `memory` is where its arrays lie, and adopts them; several may share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fusegen.backend.emit.source import Source
from fusegen.backend.findings import Finding
from fusegen.backend.memory import Memory
from fusegen.backend.problem import Problem
from fusegen.ir import graph as g
from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Grouping
from fusegen.ir.kernel import Param, Program

Progress = Callable[[float], None]
"""Called with the share of the work that is done, from 0 to 1."""

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


class Schedule(Protocol):
    """A backend's choices for a program. Hashable; repr() says all of them."""

    @property
    def target(self) -> Any: ...

    @property
    def algorithm(self) -> str:
        """What the field calls the tree of merges; "" where there is none."""

    @property
    def grouping(self) -> Grouping: ...

    @property
    def stored(self) -> str:
        """How elements made of vectors are stored all the same, and why; "": not by the choice."""

    @property
    def crowded(self) -> bool: ...  # had its sums of vectors better be made apart, for room?

    def describe(self) -> str:
        """The choices, for people."""


class Price(Protocol):
    """What a schedule is expected to cost: named parts that add up, or factors."""

    @property
    def parts(self) -> tuple[tuple[str, float], ...]: ...

    @property
    def adds(self) -> bool: ...

    @property
    def total(self) -> float: ...


class Candidate(Protocol):
    """A schedule with its price."""

    @property
    def schedule(self) -> Any: ...

    @property
    def price(self) -> Price: ...

    @property
    def kind(self) -> str:
        """What sets it apart most, for people: the best of each kind are worth a measurement."""

    @property
    def short(self) -> str:
        """The schedule in as few words as tell it from the others."""


class Executable(Protocol):
    """A program that runs."""

    @property
    def program(self) -> Program: ...

    @property
    def schedule(self) -> Any: ...

    def __call__(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, *, first_column: int = 0,
        like: Any = None, copies: Sequence[Any] = (), threads: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Fill the output arrays of `arrays` (by parameter name), laid out as Kernel IR says.

        first_column: its number in the whole row, where a program of one role has a piece.
        like: the caller's array, whose library's memory is taken beside them. copies: those of
        the arrays that nobody else keeps. threads, progress: where the caller's own threads work.
        """


class Bound(Protocol):
    """An executable for arrays of which only the addresses will differ."""

    def run(self, pointers: list[int]) -> list[Any]:
        """Make the results that the caller does not give, run, and return what was made.

        pointers: addresses in the order that was bound; more are appended. On a GPU work is
        queued, on the stream that the arrays' library works on."""


class Helper(Protocol):
    """Compiled code that remembers calls as pipeline/remembered.py does."""

    def Calls(
        self, otherwise: Callable[..., Any], miss: object, names: tuple[str, ...], most: int,
        varying: tuple[str, ...],
    ) -> Any:
        """What one pipeline remembers: with `learn`, and `find`, which asks `otherwise` where it
        remembers nothing, and gives `miss` where nothing of the kind is remembered."""


@runtime_checkable
class Helped(Bound, Protocol):
    """One whose calls compiled code can serve."""

    def helper(self) -> Helper | None:
        """None: it is not there, or not yet."""

    def plan(
        self, sizes: tuple[int, ...], numbers: tuple[tuple[int, float, bool], ...], finish: Any
    ) -> tuple[Any, ...]:
        """What the helper's `learn` takes: see templates/cpu/calls. sizes: of the arrays' elements;
        numbers: of each scalar, which of the call's varying constants it is, else -1 and its value;
        whether it has 32 bits;
        finish: makes (made, out) what the pipeline returns, None where there is one output."""


@runtime_checkable
class Bindable(Executable, Protocol):
    """One whose calls can be remembered."""

    def bound(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...],
        like: Any, makers: tuple[Callable[[], Any], ...] = (),
    ) -> Bound:
        """For arrays that lie like these. order: whose addresses will come, then what `makers`
        make. like: the caller's array, whose library's memory is taken."""


@dataclass(frozen=True, slots=True)
class Record:
    """A run in numbers, for compiled code that is given the arrays' addresses."""

    words: tuple[int, ...]  # as templates/xla reads them
    told: str  # all that the results depend on beside the arrays' values
    workspace: int  # bytes that it needs beside the arrays, as a last one
    kept: Any  # what the addresses among the words are of


@runtime_checkable
class Recordable(Executable, Protocol):
    """One whose runs compiled code can make without Python."""

    def record(
        self, arrays: Mapping[str, Any], n_rows: int, n_cols: int, order: tuple[str, ...]
    ) -> Record:
        """A run on arrays that lie like these, which need no memory. order: whose addresses will
        come. Scalars among them are part of the run, or come in memory, on hosts, where they are
        in the order."""


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
