"""The laws of a monoid of the user's own: refuted by numbers, proved by sympy, or neither.

Its fold is a homomorphism by construction: a row's state is lift(x₀) ⊕ lift(x₁) ⊕ …, however it is
cut, once ⊕ is associative and the identity is neutral. The laws are shown for the states that a
row can lead to: fields that lift makes positive (or not negative) and merge keeps so are taken to
be, and nothing else is assumed of them but that they are finite. A state that holds the identity
needs no part in associativity and commutativity: there they follow from its neutrality.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

from fusegen import derivation as dv
from fusegen import graph as g
from fusegen.algebra.invariants import Induction, Invariants
from fusegen.algebra.proof import Proof
from fusegen.algebra.refute import Search
from fusegen.derivation import Counterexample, Obligation
from fusegen.errors import LawViolation, UnprovedLaw
from fusegen.loc import Loc
from fusegen.operator import Law, Operator

_SEARCH_SECONDS = 0.1  # per law

_STATEMENTS: dict[Law, str] = {
    "associative": "(a ⊕ b) ⊕ c = a ⊕ (b ⊕ c)",
    "identity": "e ⊕ a = a = a ⊕ e",
    "commutative": "a ⊕ b = b ⊕ a",
}
_NOUNS: dict[Law, str] = {
    "associative": "associativity", "identity": "neutrality", "commutative": "commutativity",
}  # fmt: skip
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


def own_entry(graph: g.Graph, node: g.Own) -> dv.Own:
    """The laws, and whether the reduction waits for others. Raises LawViolation, UnprovedLaw."""
    operator, name = node.operator, graph.names[node]
    needs = tuple(dict.fromkeys(graph.names[r] for a in node.args for r in g.reductions_of(a)))
    found = _required(operator, node.loc)
    ordered, note = _order(operator)
    if not ordered:
        found += (_obligation(operator, finding(operator, "commutative")),)
    refusal = _waits(node, name, needs) if needs else None
    return dv.Own(name, needs, operator.name, ordered, found, note, refusal)


def _required(operator: Operator, where: Loc) -> tuple[Obligation, ...]:
    laws: tuple[Law, ...] = ("associative", "identity")
    for law in laws:
        found = finding(operator, law)
        if found.counterexample is not None:
            raise _violation(operator, found, where)
        if not found.proved and law not in operator.assumed:
            raise _unproved(operator, found, where)
    return tuple(_obligation(operator, finding(operator, law)) for law in laws)


def _order(operator: Operator) -> tuple[bool, str]:
    """(is the order of states kept?, why)."""
    if operator.ordered:
        return True, "commutative=False"
    found = finding(operator, "commutative")
    if found.counterexample is not None:
        if "commutative" in operator.assumed:
            raise _violation(operator, found, operator.loc)
        return True, "; ".join(found.counterexample.text)
    if found.proved or "commutative" in operator.assumed:
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
    )  # fmt: skip


# ---- findings ----


@lru_cache(maxsize=256)
def finding(operator: Operator, law: Law) -> Finding:
    """Refute or prove; bounded in time."""
    start = time.perf_counter()
    search = Search(operator, _SEARCH_SECONDS)
    counterexample = search.counterexample(law)
    agreed = f"{search.tried[law]} small examples agree"
    if counterexample is not None:
        return Finding(law, False, counterexample, agreed, _STATEMENTS[law], _since(start))
    known = invariants(operator)
    proved, how = Proof(operator, known).attempt(law)
    if not proved:
        more = facts(operator)
        if more.facts:
            known = more
            proved, how = Proof(operator, known).attempt(law)
    states = f"all finite states{f' with {known}' if str(known) else ''}"
    return Finding(law, proved, None, f"{how}; {agreed}", f"{_STATEMENTS[law]} for {states}",
                   _since(start))  # fmt: skip


@lru_cache(maxsize=256)
def invariants(operator: Operator) -> Invariants:
    """The signs of a state's fields."""
    return Induction(operator).signs()


@lru_cache(maxsize=256)
def facts(operator: Operator) -> Invariants:
    """And what else holds of them, for laws that signs do not prove."""
    search = Search(operator, _SEARCH_SECONDS)
    samples = [search.state(piece) for piece in search.lists("identity") if piece]
    return Induction(operator).facts(invariants(operator), samples)


def _since(start: float) -> float:
    return time.perf_counter() - start


# ---- for people ----


def _obligation(operator: Operator, found: Finding) -> Obligation:
    engine = "sympy" if found.proved else f"{operator.loc.short}, assume=({found.law!r},)"
    return Obligation(found.law, found.statement, "proved" if found.proved else "assumed",
                      found.seconds, engine)  # fmt: skip


def _violation(operator: Operator, found: Finding, where: Loc) -> LawViolation:
    assert found.counterexample is not None
    text = "\n  ".join(found.counterexample.text)
    return LawViolation(
        f"{operator.name}: {_NOUNS[found.law]} fails: {found.statement} is false", where=where,
        why=text, fix=_MEANS[found.law], counterexample=found.counterexample,
    )  # fmt: skip


def _unproved(operator: Operator, found: Finding, where: Loc) -> UnprovedLaw:
    return UnprovedLaw(
        f"{operator.name}: {found.statement} is neither proved nor refuted", where=where,
        why=f"Tried: {found.tried}.",
        fix=f"If you know that it holds, say so: fg.monoid(…, assume=({found.law!r},)).",
    )  # fmt: skip
