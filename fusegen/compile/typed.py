"""A text with types: what is known of it before it has a target, and the passes that find it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fusegen.compile.results import Pass, result
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.dtypes import DType
from fusegen.ir.forms import Form, Grouping, Role
from fusegen.ir.kernel import Program
from fusegen.ir.kinds import infer_kinds
from fusegen.ir.verify import verify_program

if TYPE_CHECKING:
    from fusegen.compile.fusion import Fusion
    from fusegen.rewrite.scalar_text import ScalarText


@dataclass(frozen=True, slots=True)
class Traced:
    """A graph and its digest; one per pipeline, present inputs and constants."""

    graph: g.Graph
    digest: str


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
        types = ",".join(f"{n}:{d}" for n, d in sorted(self.dtypes.items()))
        return (self.traced.digest, types, self.form, self.role)

    @property
    def graph(self) -> g.Graph:
        """The user's text."""
        return self.traced.graph

    @property
    def scalars(self) -> ScalarText:
        """The text with a number in the place of every vector; without vectors, the text."""
        found: ScalarText = self.result("scalars")
        return found

    @property
    def types(self) -> Mapping[str, DType]:
        """Of that text's inputs."""
        return self.scalars.types(self.graph, self.dtypes)

    @property
    def merging(self) -> g.Graph:
        """What this form computes: the text, or the text with sums about other pivots."""
        found: g.Graph = self.result("rewrite")
        return found

    @property
    def derivation(self) -> Derivation:
        tried: dict[Form, str] = {"auto": "try", "online": "try", "safe": "order"}
        found: Derivation = self.result(tried.get(self.form, "derive"))
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


def _scalars(typed: Typed) -> ScalarText:
    from fusegen.rewrite.scalar_text import scalar_text

    return scalar_text(typed.graph)


def _derive(typed: Typed) -> Derivation:
    from fusegen.rewrite.rounds import derived

    return derived(typed.scalars.graph)


def _repair(typed: Typed) -> Derivation:
    from fusegen.rewrite.repair.search import with_repairs

    typed.result("kinds")  # the user's type errors come before anything of ours
    return with_repairs(typed.scalars.graph, typed.result("derive"), typed.types)


def _try(typed: Typed) -> Derivation:
    from fusegen.compile.trials.first import tried

    return tried(typed.scalars.graph, typed.result("repair"), typed.types)


def _order(typed: Typed) -> Derivation:
    from fusegen.compile.trials.first import in_order

    return in_order(typed.scalars.graph, typed.result("derive"), typed.types)


def _rewrite(typed: Typed) -> g.Graph:
    from fusegen.rewrite.repair.rewriting import repaired_graph

    return repaired_graph(typed.scalars.graph, typed.derivation, typed.types)


def _scale(typed: Typed) -> tuple[g.Graph, Derivation]:
    from fusegen.rewrite.scales.outside import scales_outside

    found = typed.merging, typed.derivation
    if typed.form not in ("auto", "online") or typed.scalars.inners:
        return found
    kinds = infer_kinds(typed.merging, typed.types)
    # States are noted with the constants that they are moved by, which have to be the text's own.
    return scales_outside(*found, kinds, constants=typed.role == "call")


def _kinds_key(typed: Typed) -> tuple[str, ...]:
    kinds = ",".join(f"{n}:{d.kind}" for n, d in sorted(typed.dtypes.items()))
    return (typed.traced.digest, kinds)


def _try_key(typed: Typed) -> tuple[str, ...]:
    from fusegen.compile.trials.first import tried_types

    types = tried_types(typed.types)
    return (typed.traced.digest, ",".join(f"{n}:{d.name}" for n, d in types.items()))


def _fuse(typed: Typed) -> Fusion:
    from fusegen.compile.fusion import fuse

    graph, derivation = typed.result("scale")
    return fuse(graph, derivation, typed.form, infer_kinds(graph, typed.types))


def _lowered(typed: Typed, grouping: Grouping) -> Program:
    from fusegen.compile.lower.program import lower
    from fusegen.compile.lower.told import LaterSweep
    from fusegen.compile.lower.vectors import with_vectors
    from fusegen.compile.roles import of_role

    typed.result("kinds")  # the user's type errors come before anything of ours
    graph, derivation = typed.result("scale")
    late = frozenset(graph.names[n] for n in graph.nodes if isinstance(n, g.Inner))

    def lowered(grouping: Grouping) -> Program:
        program = lower(graph, derivation, typed.fusion, typed.types, grouping)
        return with_vectors(program, typed.graph, typed.scalars.inners, typed.dtypes, late)

    try:
        program = lowered(grouping)
    except LaterSweep:  # between kernels vectors of finished rows are arrays like any other
        try:
            program = lowered("sweeps")
        except LaterSweep as late:
            raise late.refusal from None
    return of_role(program, typed.role, typed.graph, typed.derivation)


TYPED: tuple[Pass[Typed], ...] = (
    Pass("trace", lambda typed: typed.graph),
    Pass("kinds", _kinds),
    Pass("scalars", _scalars),
    Pass("derive", _derive, key=lambda typed: (typed.traced.digest,), kind=Derivation,
         needs=("sympy",)),
    Pass("repair", _repair, key=_kinds_key, kind=Derivation, needs=("sympy",)),
    Pass("try", _try, key=_try_key, kind=Derivation, needs=("sympy",)),
    Pass("order", _order, key=_try_key, kind=Derivation, needs=("sympy",)),
    Pass("rewrite", _rewrite),
    Pass("scale", _scale),
    Pass("fuse", _fuse, needs=("networkx",)),
    Pass("lower", lambda typed: _lowered(typed, "rows"), key=lambda typed: typed.key,
         kind=Program, verify=verify_program),
    Pass("split", lambda typed: _lowered(typed, "sweeps" if typed.role == "call" else "rows"),
         key=lambda typed: typed.key, kind=Program, verify=verify_program),
)
_TYPED = {one.name: one for one in TYPED}
