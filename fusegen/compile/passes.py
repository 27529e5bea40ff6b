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

from fusegen.backend.backend import Backend, Executable, Schedule, Target
from fusegen.backend.emit.source import Source
from fusegen.backend.problem import Problem
from fusegen.backend.registry import backend_of
from fusegen.compile.dumps import DUMPED, check_wish, dump, wants_dump
from fusegen.compile.results import Pass, result
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.digest import attributes, digest
from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Form, Grouping, Role
from fusegen.ir.kernel import Program
from fusegen.ir.kinds import infer_kinds
from fusegen.ir.verify import verify_program
from fusegen.lang.trace import Traceable, trace

if TYPE_CHECKING:
    from fusegen.algebra.proof.proof import Proof
    from fusegen.compile.fusion import Fusion
    from fusegen.compile.plan import Plan


@dataclass(frozen=True, slots=True)
class Traced:
    """A graph and its digest; one per pipeline, present inputs and constants."""

    graph: g.Graph
    digest: str


def trace_pipeline(
    pipeline: Traceable, present: frozenset[str], constants: dict[str, Any]
) -> Traced:
    """Run the user's function on symbolic values."""
    check_wish([one.name for one in PASSES])
    graph = trace(pipeline, present, constants)
    if wants_dump("trace"):
        dump("trace", "\n".join(f"{graph.names[n]}: {attributes(n)}" for n in graph.nodes))
    return Traced(graph, digest(graph))


# ---- for any target ----


@dataclass(frozen=True, eq=False)
class Typed:
    """A text with types and a form: all that can be known of it before it has a target.

    Its results speak of the same nodes, so all that is made of one text is asked of one Typed.
    """

    traced: Traced
    dtypes: Mapping[str, DType]  # by input name
    form: Form
    role: Role = "call"
    made: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def result(self, name: str) -> Any:
        """The result of a pass of TYPED."""
        return result(self, _TYPED, name)

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def settled(self) -> bool:
        derivation: Derivation | None = self.made.get("derive")
        return derivation is None or derivation.decided

    @property
    def key(self) -> tuple[str, ...]:
        """All that results depend on."""
        types = ",".join(f"{n}:{d.name}" for n, d in sorted(self.dtypes.items()))
        return (self.traced.digest, types, self.form, self.role)

    @property
    def graph(self) -> g.Graph:
        """The user's text."""
        return self.traced.graph

    @property
    def merging(self) -> g.Graph:
        """What this form computes: the text, or the text with sums about other pivots."""
        found: g.Graph = self.result("rewrite")
        return found

    @property
    def derivation(self) -> Derivation:
        found: Derivation = self.result("try" if self.form in ("auto", "online") else "derive")
        return found

    @property
    def fusion(self) -> Fusion:
        found: Fusion = self.result("fuse")
        return found

    def program(self, grouping: Grouping = "rows") -> Program:
        """Kernel IR: one kernel for all that shares a row, or one per sweep."""
        found: Program = self.result("lower" if grouping == "rows" else "split")
        return found


def _kinds(typed: Typed) -> Mapping[g.Node, str]:
    return infer_kinds(typed.graph, typed.dtypes)


def _derive(typed: Typed) -> Derivation:
    from fusegen.algebra.derive import derive

    return derive(typed.graph)


def _repair(typed: Typed) -> Derivation:
    from fusegen.rewrite.repair.search import with_repairs

    typed.result("kinds")  # the user's type errors come before anything of ours
    return with_repairs(typed.graph, typed.result("derive"), typed.dtypes)


def _try(typed: Typed) -> Derivation:
    from fusegen.compile.trials.first import tried

    return tried(typed.graph, typed.result("repair"), typed.dtypes)


def _rewrite(typed: Typed) -> g.Graph:
    from fusegen.rewrite.repair.rewriting import repaired_graph

    return repaired_graph(typed.graph, typed.derivation)


def _kinds_key(typed: Typed) -> tuple[str, ...]:
    kinds = ",".join(f"{n}:{d.kind}" for n, d in sorted(typed.dtypes.items()))
    return (typed.traced.digest, kinds)


def _try_key(typed: Typed) -> tuple[str, ...]:
    from fusegen.compile.trials.first import tried_types

    types = tried_types(typed.dtypes)
    return (typed.traced.digest, ",".join(f"{n}:{d.name}" for n, d in types.items()))


def _fuse(typed: Typed) -> Fusion:
    from fusegen.compile.fusion import fuse

    kinds = infer_kinds(typed.merging, typed.dtypes)
    return fuse(typed.merging, typed.derivation, typed.form, kinds)


def _lowered(typed: Typed, grouping: Grouping) -> Program:
    from fusegen.compile.lower.program import lower
    from fusegen.compile.roles import of_role

    typed.result("kinds")  # the user's type errors come before anything of ours
    program = lower(typed.merging, typed.derivation, typed.fusion, typed.dtypes, grouping)
    return of_role(program, typed.role, typed.graph, typed.derivation)


# ---- for one target ----


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
        from fusegen.compile.plan import plan_of

        return plan_of(self.program, self.chunk, self.schedule.algorithm)

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


TYPED: tuple[Pass[Typed], ...] = (
    Pass("trace", lambda typed: typed.graph),
    Pass("kinds", _kinds),
    Pass("derive", _derive, key=lambda typed: (typed.traced.digest,), kind=Derivation,
         needs=("sympy",)),
    Pass("repair", _repair, key=_kinds_key, kind=Derivation, needs=("sympy",)),
    Pass("try", _try, key=_try_key, kind=Derivation, needs=("sympy",)),
    Pass("rewrite", _rewrite),
    Pass("fuse", _fuse, needs=("networkx",)),
    Pass("lower", lambda typed: _lowered(typed, "rows"), key=lambda typed: typed.key,
         kind=Program, verify=verify_program),
    Pass("split", lambda typed: _lowered(typed, "sweeps" if typed.role == "call" else "rows"),
         key=lambda typed: typed.key, kind=Program, verify=verify_program),
)
BOUND: tuple[Pass[Work], ...] = (
    Pass("select_schedule", _select_schedule),
    Pass("emit", lambda work: work.backend.emit(work.program, work.schedule),
         key=lambda work: (*work.typed.key, work.target.name, repr(work.schedule)),
         kind=Source, needs=("jinja2",)),
)
PASSES: tuple[Pass[Typed] | Pass[Work], ...] = (*TYPED, *BOUND)
_TYPED = {one.name: one for one in TYPED}
_BOUND = {one.name: one for one in BOUND}
