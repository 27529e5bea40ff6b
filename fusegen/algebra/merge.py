"""Merging one dependent sum: pivots, transport, safety, proof, or the first doubt."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from fusegen.algebra.kinks import moving_kink
from fusegen.algebra.laws import obligations_of
from fusegen.algebra.pivot import (
    MAX_BASIS,
    Closed,
    NotClosed,
    best_candidate,
    close,
    joined,
)  # fmt: skip
from fusegen.algebra.safety import (
    cancelling_readout,
    exponential_readout,
    out_of_range,
    raw_moment,
    rewritten_readout,
    unbounded_factor,
)  # fmt: skip
from fusegen.algebra.setting import Setting
from fusegen.algebra.spell import spelled
from fusegen.algebra.steady import is_steady
from fusegen.algebra.symbols import told
from fusegen.derivation import Dependent, RefusalKind


@dataclass(frozen=True)
class Doubt:
    """A reason not to merge, and what the user can do if that is not the kind's usual advice."""

    kind: RefusalKind
    why: str
    todo: str = ""


def merged(
    name: str, needs: tuple[str, ...], setting: Setting, *, brave: bool
) -> Dependent | Doubt:
    """The sum merged as a whole, else term by term; `brave`: cancellation is allowed."""
    kink = moving_kink(setting)
    if kink is not None:
        return Doubt(RefusalKind.KINK, f"{kink}.")
    whole = _attempt(setting, brave)
    parts = setting.parts
    if isinstance(whole, Doubt) and len(parts) > 1:
        terms = [_attempt(part, brave) for part in parts]
        found = [t for t in terms if isinstance(t, Closed)]
        if len(found) == len(terms):
            both = joined(found)
            whole = (None if brave else _cancels(setting, both)) or both
    if isinstance(whole, Doubt):
        return whole
    obligations = obligations_of(setting, whole)
    failed = [o for o in obligations if o.status != "proved"]
    if failed:
        why = f"sympy did not prove the {failed[0].name} ({failed[0].statement})."
        return Doubt(RefusalKind.UNPROVED, why)
    return spelled(name, needs, setting, whole, obligations)


def _attempt(setting: Setting, brave: bool) -> Closed | Doubt:
    """The best pivots with their transport: first for the differences that the text itself forms,
    then for any."""
    apart = setting.apart
    first = _closed(apart)
    doubt = _doubt(setting, first, brave)
    if doubt is None and isinstance(first, Closed):
        return first
    if apart.twins:
        other = _closed(setting)
        changing = frozenset(r.symbol for r in setting.changing)
        lossy = not brave and rewritten_readout(other.candidate, changing)
        if not lossy and isinstance(other, Closed) and _doubt(setting, other, brave) is None:
            return other
    assert doubt is not None
    return doubt


def _closed(setting: Setting) -> Closed | NotClosed:
    candidate = best_candidate(setting)
    if candidate.stuck:
        return NotClosed(candidate, candidate.stuck[0])
    return close(candidate, frozenset(r.symbol for r in setting.changing))


def _doubt(setting: Setting, closed: Closed | NotClosed, brave: bool) -> Doubt | None:
    """The first reason not to merge, if there is one."""
    candidate = closed.candidate
    changing = frozenset(r.symbol for r in setting.changing)
    if candidate.stuck:
        stuck = told(candidate.stuck[0])
        why = f"no pivot separates the row values from the element in {stuck}."
        return Doubt(RefusalKind.STUCK_ATOM, why)
    loose = raw_moment(candidate, setting)
    if loose is not None and not brave:
        return Doubt(RefusalKind.MIXED_SIGN, _no_pivot(setting, loose))
    if isinstance(closed, NotClosed):
        return _not_closed(closed)
    held = closed.transport.free_symbols - {m for c in candidate.choices for m in c.moves}
    if held:
        given = ", ".join(sorted(map(str, held)))
        todo = f"To share the sweep, combine {given} with the element before it is reduced."
        why = f"the correction depends on {given}, an input per row."
        return Doubt(RefusalKind.STUCK_ATOM, why, todo)
    factor = unbounded_factor(closed)
    if factor is not None:
        why = f"moving the pivot multiplies the sum by {told(factor)}, which has no bound."
        return Doubt(RefusalKind.UNBOUNDED, why)
    if exponential_readout(candidate, changing):
        why = "the read-out would multiply the sum by an exponential of a row value."
        return Doubt(RefusalKind.UNBOUNDED, why)
    large = out_of_range(setting, closed)
    if large is not None:
        why = f"Σ {told(large)} overflows, or vanishes, where the text's quotients do not."
        return Doubt(RefusalKind.RANGE, why)
    return None if brave else _cancels(setting, closed)


def _cancels(setting: Setting, closed: Closed) -> Doubt | None:
    mixed = cancelling_readout(setting, closed)
    if mixed is None:
        return None
    why = f"a sum of terms of one sign would be read out as the difference {told(mixed)}."
    return Doubt(RefusalKind.MIXED_SIGN, why)


def _no_pivot(setting: Setting, loose: sp.Symbol) -> str:
    why = f"without a pivot for {loose}, large sums of its powers would cancel in the result"
    wild = [r.symbol.name for r in setting.changing if not r.pivotal and not is_steady(r.node)]
    if wild:
        why += (f"; {', '.join(wild)} may leave the range of the data while the row is read, for it"
                " divides by a sum that may pass through 0 (fg.abs or fg.exp of weights would not)")
    return f"{why}."


def _not_closed(closed: NotClosed) -> Doubt:
    if closed.stuck is None:
        return Doubt(RefusalKind.TOO_MANY_STATES, f"more than {MAX_BASIS} sums would be needed.")
    why = f"moving the pivot leaves {told(closed.stuck)}, which mixes the element and the move."
    return Doubt(RefusalKind.STUCK_ATOM, why)
