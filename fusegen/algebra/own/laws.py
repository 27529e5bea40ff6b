"""The laws of a monoid of the user's own: refuted by numbers, proved, or neither.

A state is the product of parts that do not look at one another, and each is proved by itself: what
is piecewise linear by exact linear arithmetic (`decide`), what is not by sympy (`proof`).

Its fold is a homomorphism by construction: a row's state is lift(x₀) ⊕ lift(x₁) ⊕ …, however it is
cut, once ⊕ is associative and the identity is neutral. The laws are shown for the states that a
row can lead to: fields that lift makes positive (or not negative) and merge keeps so are taken to
be, and nothing else is assumed of them but that they are finite. A state that holds the identity
needs no part in associativity and commutativity: there they follow from its neutrality.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fusegen.algebra.limits import LAW_SECONDS, within
from fusegen.algebra.own.decide import Decision
from fusegen.algebra.own.invariants import Induction, Invariants
from fusegen.algebra.own.proof import Proof
from fusegen.algebra.own.reachable import Reachable
from fusegen.algebra.own.refute import Search
from fusegen.ir import derivation as dv
from fusegen.ir import graph as g
from fusegen.ir.derivation import Counterexample, Obligation
from fusegen.ir.errors import LawViolation, UnprovedLaw
from fusegen.ir.loc import Loc
from fusegen.ir.operator import Law, Operator, State
from fusegen.ir.shared import Recent, lazy

_REQUIRED: tuple[Law, ...] = ("associative", "identity")

_STATEMENTS: dict[Law, str] = {
    "associative": "(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)",
    "identity": "e ⊕ a = a = a ⊕ e",
    "commutative": "a ⊕ b = b ⊕ a",
}
_NOUNS: dict[Law, str] = {
    "associative": "associativity", "identity": "neutrality", "commutative": "commutativity",
}
_SAMPLES = 300  # small rows that suggest facts
_QUICK = 5_000  # operations of the search that comes before any proof
_LATE = f"stopped after {LAW_SECONDS:g} seconds"
_MEANS: dict[Law, str] = {
    "associative": "Rows are cut into pieces, and states merge in whatever grouping is fastest.",
    "identity": "Pieces may be empty: their state must change nothing, from either side.",
    "commutative": "Leave it out of assume: its states then merge in row order.",
}


@dataclass(frozen=True)
class Finding:
    """What is known of one law."""

    law: Law
    proved: bool
    counterexample: Counterexample | None
    tried: str
    statement: str
    seconds: float
    engine: str = ""


def own_entry(graph: g.Graph, node: g.Own, known: Mapping[g.Node, dv.Entry]) -> dv.Own:
    """The laws, and whether the reduction waits for others. Raises LawViolation, UnprovedLaw."""
    name = graph.names[node]
    needs = tuple(dict.fromkeys(graph.names[r] for a in node.args for r in g.reductions_of(a)))
    refusal = _waits(node, name, needs) if needs else None
    for other, entry in known.items():
        if isinstance(entry, dv.Own) and isinstance(other, g.Own) \
                and other.operator.key == node.operator.key:
            return replace(entry, name=name, depends_on=needs, refusal=refusal)
    laws = Laws(node.operator, dict(_KNOWN.get(node.operator.key) or {}))
    obligations = tuple(_required(laws, law, node.loc) for law in _REQUIRED)
    ordered, note = _order(laws, node.loc)
    if not ordered:
        obligations += (_obligation(laws.operator, laws.finding("commutative")),)
    if not any(_LATE in found.tried for found in laws.known.values()):
        _KNOWN.put(node.operator.key, laws.known)
    return dv.Own(name, needs, node.operator.name, ordered, obligations, note, refusal)


def _required(laws: Laws, law: Law, where: Loc) -> Obligation:
    found = laws.finding(law)
    if found.counterexample is not None:
        raise _violation(laws.operator, found, where)
    if not found.proved and law not in laws.operator.assumed:
        raise _unproved(laws.operator, found, where)
    return _obligation(laws.operator, found)


def _order(laws: Laws, where: Loc) -> tuple[bool, str]:
    """(is the order of states kept?, why)."""
    if laws.operator.ordered:
        return True, "commutative=False"
    assumed = "commutative" in laws.operator.assumed
    found = laws.finding("commutative")
    if found.counterexample is not None:
        if assumed:
            raise _violation(laws.operator, found, where)
        return True, "; ".join(found.counterexample.text)
    if found.proved or assumed:
        return False, ""
    return True, f"a ⊕ b = b ⊕ a is not proved ({found.tried})"


def _waits(node: g.Own, name: str, needs: tuple[str, ...]) -> dv.Refusal:
    others = ", ".join(needs)
    return dv.Refusal(
        dv.RefusalKind.ORDER, node.loc,
        f"{node.operator.name} ({name}) cannot join the sweep of {others}: "
        f"{dv.RefusalKind.ORDER.value}",
        f"What it lifts depends on {others}; its own merge says nothing of how that moves.",
        "It keeps a sweep of its own; the result is the same.",
    )


# ---- findings ----


_KNOWN: Recent[str, dict[Law, Finding]] = Recent(64)
"""Of operators, by their keys: every pipeline that folds by a monoid asks for its laws."""


@dataclass
class Laws:
    """The laws of one operator, each refuted or attempted once."""

    operator: Operator
    known: dict[Law, Finding] = field(default_factory=dict)

    def finding(self, law: Law) -> Finding:
        if law not in self.known:
            self.known[law] = self._found(law)
        return self.known[law]

    def _found(self, law: Law) -> Finding:
        start = time.perf_counter()
        counterexample, shown, tried = self._examined(law)
        agreed = f"{tried} small examples agree"
        if counterexample is not None:
            return Finding(law, False, counterexample, agreed, _STATEMENTS[law], _since(start))
        proved = all(s.proved for s in shown)
        facts = ", ".join(dict.fromkeys(s.facts for s in shown if s.facts))
        how = "; ".join(dict.fromkeys(s.how for s in shown if s.proved is proved))
        engines = ", ".join(dict.fromkeys(s.engine for s in shown))
        states = f"all finite states{f' with {facts}' if facts else ''}"
        return Finding(law, proved, None, f"{how}; {agreed}", f"{_STATEMENTS[law]} for {states}",
                       _since(start), engines)

    def _examined(self, law: Law) -> tuple[Counterexample | None, list[Shown], int]:
        """(a counterexample, or else what was shown of every part; how many examples were tried).

        In turn: few examples, linear arithmetic, many examples, sympy, and hard examples for what
        is not proved then."""
        quick = Search(self.operator, _QUICK)
        found, shown = quick.counterexample(law), list[Shown]()
        if found is None:
            shown = [part.decided(law) for part in self.parts]
        if found is not None or all(s.proved for s in shown):
            return found, shown, quick.tried[law]
        search = Search(self.operator)
        found = search.counterexample(law)
        if found is None:
            shown = [part.shown(law, s) for part, s in zip(self.parts, shown, strict=True)]
        tried = search.tried[law]
        if found is None and not all(s.proved for s in shown):
            hard = Search(self.operator)
            found = hard.counterexample(law, hard=True)
            tried += hard.tried[law]
        return found, shown, tried

    @lazy
    def parts(self) -> tuple[Part, ...]:
        search = Search(self.operator)
        pieces = islice(search.lists("identity"), 1, _SAMPLES)  # the first is empty
        samples = [search.state(piece) for piece in pieces]
        return tuple(
            Part(part, [{f.name: s[f.name] for f in part.fields} for s in samples])
            for part in self.operator.parts
        )


@dataclass(frozen=True)
class Shown:
    """What became of a law, for one part of the state."""

    proved: bool
    how: str
    facts: str
    engine: str


@dataclass
class Part:
    """A part of an operator's state, and states of small rows."""

    operator: Operator
    samples: Sequence[State]

    def decided(self, law: Law) -> Shown:
        """By linear arithmetic."""
        late: tuple[Reachable | None, str] = None, _LATE
        found, how = within(LAW_SECONDS, lambda: self.decision.attempt(law), late)
        return Shown(found is not None, how, str(found or ""), "linear arithmetic")

    def shown(self, law: Law, decided: Shown) -> Shown:
        """By sympy, where not all is linear."""
        if decided.proved or decided.how:
            return decided
        known = self.signs
        proved, tried = self._attempt(law, known)
        if not proved and self.facts.facts:
            known = self.facts
            proved, tried = self._attempt(law, known)
        return Shown(proved, tried, str(known), "sympy")

    def _attempt(self, law: Law, known: Invariants) -> tuple[bool, str]:
        """(proved?, what was tried)."""
        attempt = functools.partial(Proof(self.operator, known).attempt, law)
        return within(LAW_SECONDS, attempt, (False, _LATE))

    @lazy
    def decision(self) -> Decision:
        return Decision(self.operator, self.samples)

    @lazy
    def signs(self) -> Invariants:
        """The signs of a state's fields."""
        return within(LAW_SECONDS, Induction(self.operator).signs, Invariants(self.operator))

    @lazy
    def facts(self) -> Invariants:
        """And what else holds of them, for laws that signs do not prove."""
        find = functools.partial(Induction(self.operator).facts, self.signs, self.samples)
        return within(LAW_SECONDS, find, self.signs)


def _since(start: float) -> float:
    return time.perf_counter() - start


# ---- for people ----


def _obligation(operator: Operator, found: Finding) -> Obligation:
    engine = found.engine if found.proved else f"{operator.loc.short}, assume=({found.law!r},)"
    return Obligation(found.law, found.statement, "proved" if found.proved else "assumed",
                      found.seconds, engine)


def _violation(operator: Operator, found: Finding, where: Loc) -> LawViolation:
    assert found.counterexample is not None
    text = "\n  ".join(found.counterexample.text)
    return LawViolation(
        f"{operator.name}: {_NOUNS[found.law]} fails: {found.statement} is false", where=where,
        why=text, fix=_MEANS[found.law], counterexample=found.counterexample,
    )


def _unproved(operator: Operator, found: Finding, where: Loc) -> UnprovedLaw:
    return UnprovedLaw(
        f"{operator.name}: {found.statement} is neither proved nor refuted", where=where,
        why=f"Tried: {found.tried}.",
        fix=f"If you know that it holds, say so: fg.monoid(…, assume=({found.law!r},)).",
    )
