"""Known zeros: basis functions whose sum over any part of a row is 0 by what their pivot is."""

from __future__ import annotations

import functools

import sympy as sp

from fusegen.algebra.laws import obligation
from fusegen.algebra.pivot import Closed
from fusegen.algebra.rowsums import vanishes
from fusegen.algebra.setting import Setting, as_vars
from fusegen.algebra.thaw import thaw
from fusegen.ir.derivation import Obligation
from fusegen.ir.expr import text


def known_zeros(setting: Setting, closed: Closed) -> dict[int, Obligation]:
    """Positions in the basis, each with its proof."""
    choices = closed.candidate.choices
    here = {c.u: c.here for c in choices}
    about = {c.u for c in choices
             if c.pivot is not None and not c.pivot.is_extreme and c.action == "shift"}
    found, sums = {}, setting.sums
    for k, h in enumerate(closed.basis):
        # Only terms linear in a deviation can average out.
        if any(sp.diff(h, u, 2) == 0 != sp.diff(h, u) for u in about & h.free_symbols):
            at = h.subs(here, simultaneous=True)
            prove = functools.partial(vanishes, at, sums)
            shown = text(thaw(at, as_vars(setting), frozenset()), 2)
            proof = obligation("known zero", f"Σ {shown} = 0 over any part of a row", prove)
            if proof.status == "proved":
                found[k] = proof
    return found
