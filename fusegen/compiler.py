"""From the user's function to source: one visible tuple of passes.

A pass is a function of what earlier passes made; it runs when its result is asked for. Results that
cost time are kept on disk under all they depend on, so a second process loads neither sympy,
networkx nor jinja2. FUSEGEN_DUMP=<pass>|all prints results to stderr, every pass run afresh.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusegen import graph as g
from fusegen.derivation import Derivation
from fusegen.digest import attributes, digest
from fusegen.dtypes import DType
from fusegen.dumps import DUMPED, dump, wants_dump
from fusegen.forms import Form, Grouping
from fusegen.kept import kept
from fusegen.kernel import Program, verify_program
from fusegen.kinds import infer_kinds
from fusegen.plan import Plan, plan_of
from fusegen.runtime.notices import LOG
from fusegen.runtime.threads import load
from fusegen.schedule.problem import Problem
from fusegen.schedule.target import CpuTarget, CudaTarget, Target
from fusegen.shared import steady
from fusegen.trace import Traceable, trace

if TYPE_CHECKING:
    from fusegen.fusion import Fusion


@dataclass(frozen=True, slots=True)
class Traced:
    """A graph and its digest; one per pipeline, present inputs and constants."""

    graph: g.Graph
    digest: str


def trace_pipeline(
    pipeline: Traceable, present: frozenset[str], constants: dict[str, Any]
) -> Traced:
    """Run the user's function on symbolic values."""
    graph = trace(pipeline, present, constants)
    if wants_dump("trace", _BY_NAME):
        dump("trace", "\n".join(f"{graph.names[n]}: {attributes(n)}" for n in graph.nodes))
    return Traced(graph, digest(graph))


@dataclass
class Work:
    """One pipeline, types, form and target on their way to source."""

    traced: Traced
    dtypes: Mapping[str, DType]  # by input name
    form: Form
    target: Target
    problem: Problem
    chunk: int | None = None
    known: dict[str, Any] = field(default_factory=dict)

    def result(self, name: str) -> Any:
        """The result of a pass: known, on disk, or made now."""
        if name not in self.known:
            one = _BY_NAME[name]
            key = None if one.key is None or DUMPED else (name, *one.key(self))
            make = functools.partial(self._made, one)
            about = self.graph.name
            found = (make() if key is None
                     else kept(key, make, lambda _: self._settled, one.kind, about))  # fmt: skip
            self.known[name] = found
            if wants_dump(name, _BY_NAME):
                dump(name, found)
        return self.known[name]

    def _made(self, one: Pass) -> Any:
        start = time.perf_counter()
        load(*one.needs)
        with steady():
            self.known[one.name] = found = one.run(self)
        LOG.debug("%s %s: %.1f ms", one.name, self.graph.name, 1e3 * (time.perf_counter() - start))
        one.verify(found)
        return found

    @property
    def _settled(self) -> bool:
        """May results be kept? Not what a busy machine had no time to decide."""
        derivation: Derivation | None = self.known.get("derive")
        return derivation is None or derivation.decided

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
    def for_any_target(self) -> dict[str, Any]:
        """Results so far in which no target has a say; all of them or none belong to another work,
        for they speak of the same nodes."""
        return {name: found for name, found in self.known.items() if name in _FOR_ANY_TARGET}

    @property
    def front_key(self) -> tuple[str, ...]:
        """All that the program depends on before it has a target."""
        types = ",".join(f"{n}:{d.name}" for n, d in sorted(self.dtypes.items()))
        return (self.traced.digest, types, self.form)

    @property
    def derivation(self) -> Derivation:
        found: Derivation = self.result("try" if self.form in ("auto", "online") else "derive")
        return found

    @property
    def fusion(self) -> Fusion:
        found: Fusion = self.result("fuse")
        return found

    @property
    def schedule(self) -> Any:
        return self.result("select_schedule")

    @property
    def program(self) -> Program:
        """The program that runs: one kernel per sweep where the schedule splits rows."""
        found: Program = self.result("regroup")
        return found

    @property
    def source(self) -> str:
        found: str = self.result("emit")
        return found

    @property
    def plan(self) -> Plan:
        return plan_of(self.program, self.chunk, self.schedule.algorithm)


@dataclass(frozen=True, slots=True)
class Pass:
    """`run` makes the result, a `kind`, from a Work; `key` names it on disk, None: not kept."""

    name: str
    run: Callable[[Work], Any]
    key: Callable[[Work], tuple[str, ...]] | None = None
    kind: Any = None
    needs: tuple[str, ...] = ()  # of others' modules
    verify: Callable[[Any], None] = lambda _: None


# ---- the passes ----


def _kinds(work: Work) -> Mapping[g.Node, str]:
    return infer_kinds(work.graph, work.dtypes)


def _derive(work: Work) -> Derivation:
    from fusegen.algebra.derive import derive

    return derive(work.graph)


def _repair(work: Work) -> Derivation:
    from fusegen.repair.search import with_repairs

    work.result("kinds")  # the user's type errors come before anything of ours
    return with_repairs(work.graph, work.result("derive"), work.dtypes)


def _try(work: Work) -> Derivation:
    from fusegen.trials.first import tried

    return tried(work.graph, work.result("repair"), work.dtypes)


def _rewrite(work: Work) -> g.Graph:
    from fusegen.repair.rewriting import repaired_graph

    return repaired_graph(work.graph, work.derivation)


def _kinds_key(work: Work) -> tuple[str, ...]:
    return (work.traced.digest, ",".join(f"{n}:{d.kind}" for n, d in sorted(work.dtypes.items())))


def _try_key(work: Work) -> tuple[str, ...]:
    from fusegen.trials.first import tried_types

    types = tried_types(work.dtypes)
    return (work.traced.digest, ",".join(f"{n}:{d.name}" for n, d in types.items()))


def _fuse(work: Work) -> Fusion:
    from fusegen.fusion import fuse

    return fuse(work.merging, work.derivation, work.form, infer_kinds(work.merging, work.dtypes))


def _lowered(work: Work, grouping: Grouping) -> Program:
    from fusegen.lower.program import lower

    work.result("kinds")  # the user's type errors come before anything of ours
    return lower(work.merging, work.derivation, work.fusion, work.dtypes, grouping)


def _select_schedule(work: Work) -> Any:
    program: Program = work.result("lower")
    match work.target:
        case CudaTarget():
            from fusegen.schedule.select import select_cuda

            return select_cuda(program, work.problem, work.target, work.chunk)
        case CpuTarget():
            from fusegen.schedule.cpu import select_cpu

            return select_cpu(program, work.problem, work.target, work.chunk)


def _grouping(work: Work) -> Grouping:
    found: Grouping = getattr(work.schedule, "grouping", "rows")
    return found


def _regroup(work: Work) -> Program:
    if _grouping(work) == "rows":
        found: Program = work.result("lower")
        return found
    return _lowered(work, "sweeps")


def _emit(work: Work) -> str:
    match work.target:
        case CudaTarget():
            from fusegen.emit.cuda import cuda_source

            return str(cuda_source(work.program, work.schedule))
        case CpuTarget():
            from fusegen.emit.cpu import cpu_source

            return str(cpu_source(work.program, work.schedule))


def _schedule_key(work: Work) -> tuple[str, ...]:
    return (*work.front_key, work.target.name, repr(work.schedule))


PASSES: tuple[Pass, ...] = (
    Pass("trace", lambda work: work.traced.graph),
    Pass("kinds", _kinds),
    Pass("derive", _derive, key=lambda work: (work.traced.digest,), kind=Derivation,
         needs=("sympy",)),
    Pass("repair", _repair, key=_kinds_key, kind=Derivation, needs=("sympy",)),
    Pass("try", _try, key=_try_key, kind=Derivation, needs=("sympy",)),
    Pass("rewrite", _rewrite),
    Pass("fuse", _fuse, needs=("networkx",)),
    Pass("lower", lambda work: _lowered(work, "rows"), verify=verify_program,
         key=lambda work: work.front_key, kind=Program),
    Pass("select_schedule", _select_schedule),
    Pass("regroup", _regroup, verify=verify_program,
         key=lambda work: (*work.front_key, _grouping(work)), kind=Program),
    Pass("emit", _emit, key=_schedule_key, kind=str, needs=("jinja2",)),
)  # fmt: skip
_BY_NAME = {p.name: p for p in PASSES}
_FOR_ANY_TARGET = frozenset([*_BY_NAME][: [*_BY_NAME].index("select_schedule")])
