"""Merging one dependent sum: pivots, transport, safety, proof, or the first doubt."""

from __future__ import annotations

import time
from dataclasses import dataclass

import sympy as sp

from fusegen.algebra.floats.claims import claims_of
from fusegen.algebra.floats.faults import Fault
from fusegen.algebra.floats.judge import judge
from fusegen.algebra.floats.left_out import hangs_on_rows, taken_by
from fusegen.algebra.kinks import moving_kink
from fusegen.algebra.laws import obligations_of
from fusegen.algebra.pivot import (
    MAX_BASIS,
    Closed,
    NotClosed,
    best_candidate,
    close,
    joined,
)
from fusegen.algebra.reference import reference_of
from fusegen.algebra.setting import Setting
from fusegen.algebra.spell import spelled
from fusegen.algebra.symbols import told
from fusegen.algebra.zeros import known_zeros
from fusegen.ir.derivation import Dependent, Obligation, RefusalKind


@dataclass(frozen=True)
class Doubt:
    """A reason not to merge, and what the user can do if that is not the kind's usual advice."""

    kind: RefusalKind
    why: str
    todo: str = ""
    faults: tuple[Fault, ...] = ()  # it is equal over the reals: what is wrong in floats
    merge: tuple[Setting, Closed] | None = None  # that is at fault


def merged(
    name: str, needs: tuple[str, ...], setting: Setting, *, brave: bool
) -> Dependent | Doubt:
    """The sum merged as a whole, else term by term; `brave`: cancellation is allowed."""
    kink = moving_kink(setting)
    if kink is not None:
        return Doubt(RefusalKind.KINK, f"{kink}.")
    found = _attempt(setting, brave)
    if isinstance(found, Doubt):
        found = _by_terms(setting, brave) or found
    if isinstance(found, Doubt):
        return found
    obligations = obligations_of(setting, found.closed)
    failed = [o for o in obligations if o.status != "proved"]
    if failed:
        why = f"sympy did not prove the {failed[0].name} ({failed[0].statement})."
        return Doubt(RefusalKind.UNPROVED, why)
    proofs = (*obligations, *found.zeros.values(), *found.claims)
    return spelled(name, needs, setting, found.closed, proofs, tuple(found.zeros))


@dataclass(frozen=True)
class _Sound:
    """A closed basis that nothing speaks against."""

    closed: Closed
    zeros: dict[int, Obligation]
    claims: tuple[Obligation, ...]  # in floats


def _attempt(setting: Setting, brave: bool) -> _Sound | Doubt:
    """The best pivots with their transport: first for the differences that the text itself forms,
    then for any."""
    apart = setting.apart
    first = _judged(apart, _closed(apart), brave)
    if isinstance(first, Doubt) and apart.twins:
        other = _judged(setting, _closed(setting), brave)
        return first if isinstance(other, Doubt) else other
    return first


def _by_terms(setting: Setting, brave: bool) -> _Sound | None:
    """Every term of a sum as a sum of its own, side by side."""
    parts = setting.parts
    terms = [_attempt(part, brave) for part in parts] if len(parts) > 1 else []
    found = [t.closed for t in terms if isinstance(t, _Sound)]
    if not terms or len(found) < len(terms):
        return None
    whole = _judged(setting, joined(found), brave)
    return None if isinstance(whole, Doubt) else whole


def _judged(setting: Setting, closed: Closed | NotClosed, brave: bool) -> _Sound | Doubt:
    doubt = _doubt(setting, closed)
    if doubt is not None:
        return doubt
    assert isinstance(closed, Closed)
    found = _sound(setting, closed, brave)
    taken = taken_by(setting, closed)
    if taken is None or (isinstance(found, _Sound) and taken not in closed.basis
                         and not hangs_on_rows(setting, closed)):
        return found
    other = _sound(setting, closed.counting(taken), brave)
    return found if isinstance(other, Doubt) else other


def _sound(setting: Setting, closed: Closed, brave: bool) -> _Sound | Doubt:
    zeros = known_zeros(setting, closed)
    start = time.perf_counter()
    verdict = judge(setting, closed, tuple(closed.basis[k] for k in zeros), brave=brave)
    if verdict.faults:
        worst = verdict.faults[0]
        return Doubt(worst.kind, worst.why, worst.todo, verdict.faults, (setting, closed))
    reference = reference_of(setting, closed, verdict)
    claims = (*claims_of(verdict, start), *([reference] if reference else []))
    return _Sound(closed, zeros, claims)


def _closed(setting: Setting) -> Closed | NotClosed:
    candidate = best_candidate(setting)
    if candidate.stuck:
        return NotClosed(candidate, candidate.stuck[0])
    return close(candidate, frozenset(r.symbol for r in setting.changing))


def _doubt(setting: Setting, closed: Closed | NotClosed) -> Doubt | None:
    """The first reason not to merge, if there is one."""
    candidate = closed.candidate
    if candidate.stuck:
        stuck = told(candidate.stuck[0])
        why = f"no pivot separates the row values from the element in {stuck}."
        return Doubt(RefusalKind.STUCK_ATOM, why, _unsigned(setting, candidate.stuck[0]))
    if isinstance(closed, NotClosed):
        return _not_closed(closed)
    wide = [r for n, r in setting.rows.items() if n in setting.graph.wide]
    held = closed.transport.free_symbols & {r.symbol for r in wide}
    if held:
        given = ", ".join(sorted(map(str, held)))
        return Doubt(RefusalKind.STUCK_ATOM, f"the correction depends on {given}, a vector.")
    return None


def _unsigned(setting: Setting, stuck: sp.Expr) -> str:
    """What helps if it is the logarithm of a product with an element that may be negative."""
    names = {s: n for n, s in setting.elements.items()}
    for log in sorted(stuck.atoms(sp.log), key=sp.default_sort_key):
        for s in sorted(log.free_symbols & names.keys(), key=str):
            if isinstance(log.args[0], sp.Mul) and not s.is_nonnegative:
                x = setting.graph.names[names[s]]
                return (f"To share the sweep, say that {x} is never negative, if it is not: "
                        f"fg.abs({x}) or fg.maximum({x}, 0).")
    return ""


def _not_closed(closed: NotClosed) -> Doubt:
    if closed.stuck is None:
        return Doubt(RefusalKind.TOO_MANY_STATES, f"more than {MAX_BASIS} sums would be needed.")
    why = f"moving the pivot leaves {told(closed.stuck)}, which mixes the element and the move."
    return Doubt(RefusalKind.STUCK_ATOM, why)
