"""Why a merge that is right over the reals is not used: what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.floats.readout import Condition
from fusegen.algebra.pivot import Closed
from fusegen.algebra.symbols import told
from fusegen.ir import graph as g
from fusegen.ir.derivation import RefusalKind


@dataclass(frozen=True)
class Fault:
    """Why a merge that is right over the reals is not used."""

    kind: RefusalKind
    why: str
    choice: Choice | None = None  # whose pivot fails
    todo: str = ""  # what the user can do, if that is not the kind's usual advice


def asks(question: g.Map) -> Fault:
    what = f"{question.op} ({question.loc.short})"
    return Fault(RefusalKind.SPECIAL, f"its terms ask {what}: they may have a value where "
                 "everything relative to an infinite row value is NaN.")


def _names(c: Choice) -> tuple[str, str]:
    assert c.pivot is not None
    return told(c.atom), told(c.pivot.symbol)


def undominated(c: Choice, e: sp.Expr) -> Fault:
    x, p = _names(c)
    term = f"exp({x} - {p})" if e.args[0] == c.u else f"an exponential of {x} - {p}"
    why = (f"{p} is not seen to bound {x} on the right side at every part of the row, so there "
           f"{term} may leave the range, and its sum with it")
    return Fault(RefusalKind.UNBOUNDED, f"{why}.", c)


def adrift(c: Choice) -> Fault:
    x, p = _names(c)
    why = (f"at a part of the row {p} may lie far from the very elements that {x} is there: "
           f"powers of {x} - {p} are then large, and cancel when it moves on")
    return Fault(RefusalKind.DRIFT, f"{why}.", c)


def cancels(closed: Closed, condition: Condition) -> Fault:
    terms = [c for c in closed.candidate.terms.values() if c != 0]
    shown = told(sp.Add(*(c * sp.Symbol(f"S_{k}") for k, c in enumerate(terms, 1)), evaluate=False))
    why = (f"its sums would be read out as {shown}, whose terms cancel: on hard rows they are "
           f"{condition.worst:.1g} times what the text itself adds up")
    return Fault(RefusalKind.MIXED_SIGN, f"{why}.")


def unattained(c: Choice) -> Fault:
    x, p = _names(c)
    seen = f"{x} / {p}" if c.action == "scale" else f"{x} - {p}"
    why = (f"{p} may be infinite where no {seen} is NaN: the text then has a value, and sums "
           f"relative to {p} have none")
    return Fault(RefusalKind.SPECIAL, f"{why}.", c)


def unbounded_scale(c: Choice) -> Fault:
    x, p = _names(c)
    s = told(c.unit.symbol) if c.unit else p
    what = f"|{x} - {p}|" if c.unit else f"|{x}|"
    why = (f"{s} is not seen to bound {what} at every part of the row, "
           "so the quotient may leave the range there")
    return Fault(RefusalKind.RANGE, f"{why}.", c)
