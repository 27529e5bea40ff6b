"""Sums that leave the range of floats where the text's own quotients do not."""

from __future__ import annotations

import sympy as sp

from fusegen import graph as g
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import Unmodelled, freeze, told


def out_of_range(setting: Setting, closed: Closed, h: sp.Expr, c: sp.Expr) -> str | None:
    """Why Σ h, read out times c, may overflow or vanish where the text does not; or None.

    Either a power ≥ 2 that the text forms only divided by a row value, (x / p)²; or 1/x, exp(x) or
    x² of an element without a pivot that the text never forms by itself.
    """
    powers = any(p.exp.is_number and p.exp >= 2 for p in h.atoms(sp.Pow))
    rows = {r.symbol for n, r in setting.rows.items() if not isinstance(n, g.Length)}
    divided = any(p.exp.is_number and p.exp <= -2 and p.base.free_symbols & rows
                  for p in c.atoms(sp.Pow))  # fmt: skip
    if powers and divided:
        return f"Σ {told(h)} overflows, or vanishes, where the text's quotients do not."
    relative = {k.u for k in closed.candidate.choices if k.pivot is not None}
    if h.free_symbols & relative or not c.free_symbols & rows:
        return None
    wild = powers or h.has(sp.exp) or any(p.exp.is_negative for p in h.atoms(sp.Pow))
    if wild and not _is_formed(setting, h):
        return f"Σ {told(h)} may leave the range: the text never forms {told(h)} by itself."
    return None


def _is_formed(setting: Setting, h: sp.Expr) -> bool:
    """Does the text compute h on its way, so that it leaves the range there too?"""
    if h.is_number or h.is_Symbol:
        return True
    leaves: dict[g.Node, sp.Expr] = {n: r.symbol for n, r in setting.rows.items()}
    leaves |= setting.elements
    for node in g.topological((setting.arg,)):
        if node in leaves or g.extent(node) is not g.Extent.ELEMENT:
            continue
        try:
            leaves[node] = freeze(node, leaves)
        except Unmodelled:
            continue
        if sp.expand(leaves[node] - h) == 0 or sp.expand(leaves[node] + h) == 0:
            return True
    return False
