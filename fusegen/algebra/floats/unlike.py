"""Where what the sums read out is another number than the text's, though equal over the reals.

  vanished    an operation that has no value everywhere, or an element, is computed no more
  simpler     r / r, r − r, and what sympy has decided
  left out    where(c, x·r, 0) has no term for a row of which c takes nothing; 0·r is NaN for some r
  guarded     xlogy(x·r, y) is 0 where r is, whatever y is; r·Σ xlogy(x, y) may be NaN
"""

from __future__ import annotations

import sympy as sp

from fusegen.algebra.floats.left_out import doubtful_factor, is_sure, moving_rows
from fusegen.algebra.floats.partial import vanished, what_vanished
from fusegen.algebra.floats.probes import cancelled, told_simpler
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import freeze, told
from fusegen.ir import graph as g
from fusegen.ir.derivation import RefusalKind

Told = tuple[RefusalKind, str, str]
"""The kind of a refusal, why, and what the user can do."""

_GUARDS = ("xlogy", "zero_wins")


def unlike_text(setting: Setting, closed: Closed) -> Told | None:
    """The first reason why results would differ for some floats, if there is one."""
    kept = {h for h, c in closed.candidate.terms.items() if c != 0}
    lost = what_vanished(setting, kept, closed.candidate.choices)
    if lost is not None:
        return RefusalKind.SPECIAL, *vanished(setting.graph, lost)
    strange = cancelled(setting, closed)
    if strange is not None:
        return RefusalKind.SIMPLER, *told_simpler(setting.graph, strange)
    doubtful = doubtful_factor(setting, closed) or _guarded(setting)
    if doubtful is None:
        return None
    why = (f"{told(doubtful)} may be 0, infinite or NaN where the text has no term with it: where "
           "a condition leaves out all of the row, or a weight is 0.")
    return RefusalKind.ORDER, why, "To share the sweep, keep it a number: fg.maximum(r, 1e-6)."


def _guarded(setting: Setting) -> sp.Expr | None:
    """A factor of row values that may be 0 or no number, or a logarithm that may be none beside an
    exponential that moves with them, to 0, in a product that 0 wins."""
    leaves = setting.symbols
    elements = set(setting.elements.values())
    for n in g.topological((setting.arg,), leaves.__contains__):
        if not (isinstance(n, g.Map) and n.op in _GUARDS):
            continue
        weight, value = (freeze(a, leaves) for a in n.args)
        for e in (weight, value):
            factor, _ = e.as_independent(*elements, as_Add=False)
            if factor.free_symbols & moving_rows(setting) and not is_sure(setting, factor):
                return factor
        moves = any(e.free_symbols & moving_rows(setting) for e in weight.atoms(sp.exp))
        if n.op == "xlogy" and moves and not value.is_positive:
            return sp.log(value)
    return None
