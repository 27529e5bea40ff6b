"""From the user's function to source: one visible tuple of passes.

A pass is a function of what earlier passes made; it runs when its result is asked for. Those of a
`Typed` text know no target; those of a `Work` are for one. Results that cost time are kept on disk
under all they depend on, so a second process loads neither sympy, networkx nor jinja2.
FUSEGEN_DUMP=<pass>|all prints results to stderr, every pass run afresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fusegen.backend.backend import Backend, Target
from fusegen.backend.choices import Schedule
from fusegen.backend.emit.source import Source
from fusegen.backend.executable import Executable
from fusegen.backend.problem import Problem
from fusegen.backend.registry import backend_of
from fusegen.compile.dumps import DUMPED, check_wish, dump, wants_dump
from fusegen.compile.results import Pass, result
from fusegen.compile.typed import TYPED, Traced, Typed
from fusegen.compile.unstored import Sizes, unstored
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.digest import attributes, digest
from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Form
from fusegen.ir.kernel import Program
from fusegen.lang.trace import Traceable, trace

if TYPE_CHECKING:
    from fusegen.algebra.proof.proof import Proof
    from fusegen.compile.plan import Plan


def trace_pipeline(
    pipeline: Traceable, present: frozenset[str], constants: dict[str, Any]
) -> Traced:
    """Run the user's function on symbolic values."""
    check_wish([one.name for one in PASSES])
    graph = trace(pipeline, present, constants)
    if wants_dump("trace"):
        dump("trace", "\n".join(f"{graph.names[n]}: {attributes(n)}" for n in graph.nodes))
    return Traced(graph, digest(graph))


@dataclass(frozen=True, eq=False)
class Work:
    """A typed text on its way to source, for a target and a problem."""

    typed: Typed
    target: Target
    problem: Problem
    chunk: int | None = None
    chosen: Schedule | None = None  # instead of what the backend would select
    made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def result(self, name: str) -> Any:
        """The result of a pass, of TYPED or BOUND."""
        return result(self, _BOUND, name) if name in _BOUND else self.typed.result(name)

    def scheduled(self, schedule: Schedule) -> Work:
        """The same work with this schedule."""
        return replace(self, chosen=schedule)

    @property
    def backend(self) -> Backend:
        return backend_of(self.target)

    @property
    def name(self) -> str:
        return self.typed.name

    @property
    def settled(self) -> bool:
        return self.typed.settled

    @property
    def graph(self) -> g.Graph:
        """The user's text."""
        return self.typed.graph

    @property
    def dtypes(self) -> Mapping[str, DType]:
        """By input name."""
        return self.typed.dtypes

    @property
    def form(self) -> Form:
        return self.typed.form

    @property
    def merging(self) -> g.Graph:
        return self.typed.merging

    @property
    def derivation(self) -> Derivation:
        return self.typed.derivation

    @property
    def proof(self) -> Proof:
        """The derivation, as people read it."""
        from fusegen.algebra.proof.proof import Proof

        return Proof.of(self.derivation)

    @property
    def schedule(self) -> Any:
        """The backend's choices: a backend.Schedule, of its own class."""
        return self.result("select_schedule")

    @property
    def program(self) -> Program:
        """The program that runs: one kernel per sweep where the schedule splits rows."""
        return self.typed.program(self.schedule.grouping)

    @property
    def emitted(self) -> Source:
        found: Source = self.result("emit")
        return found

    @property
    def source(self) -> str:
        """The generated file, which compiles as it stands."""
        return self.emitted.text()

    @property
    def launcher(self) -> str:
        """C++ that launches the source. Raises ArgumentError where it needs none."""
        return self.backend.launcher(self.program, self.schedule)

    @property
    def plan(self) -> Plan:
        n_rows, n_cols = self.problem.n_rows, self.problem.n_cols
        known = n_rows is not None and n_cols is not None
        return self.plan_for(Sizes((n_rows or 0,), n_cols or 0) if known else None)

    def plan_for(self, sizes: Sizes | None) -> Plan:
        """The plan of a call of these sizes."""
        from fusegen.compile.plan import plan_of

        without = unstored(self.program, self.graph, sizes, self.schedule.stored)
        return plan_of(self.program, self.chunk, self.schedule.algorithm, without)

    def executable(self) -> Executable:
        """The program, made to run where it is for. Raises BackendError, CompilerError."""
        if DUMPED:
            for one in TYPED:
                self.result(one.name)
        return self.backend.load(self)


def _select_schedule(work: Work) -> Schedule:
    if work.chosen is not None:
        return work.chosen
    return work.backend.select(work.typed.program(), work.problem, work.target, work.chunk)


BOUND: tuple[Pass[Work], ...] = (
    Pass("select_schedule", _select_schedule),
    Pass("emit", lambda work: work.backend.emit(work.program, work.schedule),
         key=lambda work: (*work.typed.key, work.target.name, repr(work.schedule)),
         kind=Source, needs=("jinja2",)),
)
PASSES: tuple[Pass[Typed] | Pass[Work], ...] = (*TYPED, *BOUND)
_BOUND = {one.name: one for one in BOUND}
