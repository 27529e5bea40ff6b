"""How much memory a sweep's state takes."""

from __future__ import annotations

from fusegen.ir.kernel import Sweep


def state_bytes(sweep: Sweep) -> int:
    """An upper bound of a state's size: a field has at most 8 bytes, and so has the padding."""
    monoid = sweep.monoid
    numbers = sum(f.width for f in monoid.folded) + sum(m.width for m in monoid.moving)
    numbers += sum(2 * best.width for best in monoid.best)
    return 8 * (numbers + sum(len(o.operator.fields) * o.width for o in monoid.own))
