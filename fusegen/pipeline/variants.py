"""The executables of one typed text: found once per place, shape and how rows lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusegen.backend.backend import Backend, Target, Trial
from fusegen.backend.executable import Executable
from fusegen.backend.memory import Memory
from fusegen.backend.notices import warn_once
from fusegen.backend.problem import ALIGNED, Phase, Problem
from fusegen.backend.registry import backend_at, backend_of
from fusegen.compile.passes import Work
from fusegen.compile.roles import layout_of
from fusegen.compile.typed import Typed
from fusegen.ir import graph as g
from fusegen.ir.errors import ArgumentError, CompilerError
from fusegen.ir.forms import Form, Precision, Role
from fusegen.ir.kernel import FIRST_COLUMN, Param, Program
from fusegen.ir.kernel_walk import names_in
from fusegen.ir.shared import Lock, Recent, lazy, steady
from fusegen.ir.state_layout import StateLayout

if TYPE_CHECKING:
    from fusegen.compile.tuning import Tuned

_MOST_SHAPES, _MOST_SCHEDULES = 1024, 64  # remembered per types


@dataclass(frozen=True, slots=True)
class Key:
    """All of a call that the choice of an executable depends on, beside the text."""

    memory: Memory
    index: int  # of the device
    shape: tuple[int, int]  # rows, columns
    phase: Phase = ALIGNED
    inner: int | None = None
    batch_rows: int | None = None  # likewise
    may_store: bool = True  # may a library's product make elements, and store them?


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user may say about a run besides the arrays. Target None: where the arrays live."""

    form: Form = "auto"
    role: Role = "call"
    chunk: int | None = None
    target: Target | None = None
    deterministic: bool = False  # may the tree of a row depend on its length and place alone?
    precision: Precision = "float32"  # of products of float32 vectors
    tune: bool = False  # is the schedule measured, for the shape compiled for?


@dataclass
class Variants:
    """What a typed text runs as, target by target and shape by shape."""

    typed: Typed
    choices: Choices
    by_shape: Recent[Key, Executable] = field(default_factory=lambda: Recent(_MOST_SHAPES))
    by_schedule: Recent[Any, Executable] = field(default_factory=lambda: Recent(_MOST_SCHEDULES))
    tuned: Recent[Key, Tuned] = field(default_factory=lambda: Recent(_MOST_SHAPES))
    _lock: Lock = field(default_factory=Lock)  # threads that meet the same shape compile it once

    def __post_init__(self) -> None:
        self.program: Program = self.typed.program()  # raises what is wrong with the text

    @property
    def graph(self) -> g.Graph:
        return self.typed.graph

    @lazy
    def states(self) -> StateLayout:
        """Of the states that a merge takes and leaves."""
        return layout_of(self.program)

    @lazy
    def numbered(self) -> bool:
        """Does a fold compute with the number of a piece's first column?"""
        return any(FIRST_COLUMN.name in names_in(k) for k in self.program.kernels)

    @property
    def params(self) -> tuple[Param, ...]:
        """What kernels read and write."""
        return (*self.program.inputs, *self.program.outputs)

    def work(self, target: Target, problem: Problem) -> Work:
        """The text on its way to that target."""
        return Work(self.typed, target, problem, self.choices.chunk)

    def problem(self, key: Key) -> Problem:
        """What is asked of a kernel for rows of this shape that lie like this in memory."""
        n_rows, n_cols = key.shape
        return Problem(dtypes=self.typed.dtypes, n_rows=n_rows, n_cols=n_cols,
                       **key.phase._asdict(), any_rows=self.choices.deterministic,
                       inner=key.inner, batch_rows=key.batch_rows,
                       may_store=key.may_store and self.choices.form == "auto",
                       precision=self.choices.precision)

    def backend(self, memory: Memory) -> Backend:
        """What serves arrays there. Raises ArgumentError where the target asked for does not."""
        wanted = self.choices.target
        found = backend_at(memory) if wanted is None else backend_of(wanted)
        if found.memory.name != memory.name:
            raise ArgumentError(
                f"compiled for {wanted.name if wanted else 'auto'}, the arrays are on "
                f"{memory.name}", fix="Compile for where the arrays live, or move them.",
            )
        return found

    def target(self, memory: Memory) -> Target:
        """The one asked for, or the memory's. Raises ArgumentError, BackendError."""
        wanted, backend = self.choices.target, self.backend(memory)
        return backend.here() if wanted is None else backend.placed(wanted)

    def takes_side_by_side(self, memory: Memory) -> bool:
        """May rows stay where they lie side by side? One tree for any number of rows is not
        theirs."""
        if self.choices.deterministic:
            return False
        return self.backend(memory).takes_side_by_side(self.program)

    def executable(self, key: Key) -> Executable:
        """The executable for so many rows and columns, as they lie in memory."""
        found = self.by_shape.get(key)
        if found is None:
            with self._lock.held(), steady():
                found = self.by_shape.put(key, self._executable(key))
        return found

    def _executable(self, key: Key) -> Executable:
        work = self.work(self.target(key.memory), self.problem(key))
        measured = self.tuned.get(key)
        if measured is not None:
            work = work.scheduled(measured.schedule)
        made = (work.target, key.index, work.schedule)  # modules are loaded per device
        found = self.by_schedule.get(made)
        if found is not None:
            return found
        instead = _instead(work)
        if instead is None:
            try:
                return self.by_schedule.put(made, work.executable())
            except CompilerError:
                instead = _instead(work, failed=True)
                if instead is None:
                    raise
        return self.work(instead, work.problem).executable()

    def tune(self, key: Key, trial: Callable[[], Trial]) -> tuple[Work, Tuned]:
        """Measure the choice for one shape, unless it is known; its later calls use it."""
        from fusegen.compile.tuning import tune

        with self._lock.held():
            work = self.work(self.target(key.memory), self.problem(key))
            found = self.tuned.put(key, tune(work, trial))
            self.by_shape.pop(key)
            return work.scheduled(found.schedule), found


def _instead(work: Work, *, failed: bool = False) -> Target | None:
    """What serves where the work's own backend is hindered. Says so once."""
    instead = work.backend.instead
    if instead is None:
        return None
    why = work.backend.hindrance(work.target, failed=failed)
    if not why:
        return None
    warn_once(f"fusegen runs on {instead.title}, right, but several times slower, since nothing "
              f"can be compiled (fusegen doctor says more): {why}")
    return instead.here()
