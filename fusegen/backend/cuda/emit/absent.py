"""What lanes that hold a row may have where it has no element: numbers that add nothing.

Where there are such, nothing asks which of a lane's elements there are until results are written.
−inf is one of softmax, 0 of sums of products.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from fusegen.backend.cuda.emit.dialect import C_TYPES, CudaDialect
from fusegen.backend.cuda.schedule.cuda import CudaSchedule
from fusegen.backend.cuda.schedule.homes import Registers
from fusegen.backend.emit.terms import TERM, FromKept
from fusegen.ir.expr import Expr, Lit, evaluate, variables
from fusegen.ir.kernel import Kernel, Let, Sweep
from fusegen.ir.monoid import Monoid, Relative

_NUMBERS = (0.0, -math.inf, math.inf)
_NOTHING = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def absent(kernel: Kernel, schedule: CudaSchedule, dialect: CudaDialect) -> Mapping[str, str]:
    """A number in C++ for each array of elements that lanes of a warp hold; none where it is not
    known that all of them together add nothing to what sweeps fold."""
    folding = [s for s in kernel.sweeps if not s.monoid.is_empty]
    arrays = {n: kernel.param(n) for s in folding for n in s.streams}
    elements = [p for p in arrays.values() if p.shape == "element"]
    held = schedule.in_warp and isinstance(schedule.home, Registers)
    if not held or any(p.dtype.kind != "float" for p in elements):
        return {}
    for numbers in product(_NUMBERS, repeat=len(elements)):
        known = dict(zip((p.name for p in elements), numbers, strict=True))
        if all(_adds_nothing(s, known) for s in folding):
            return {p.name: f"static_cast<{C_TYPES[p.dtype.name]}>"
                            f"({dialect.text(Lit(known[p.name]))})" for p in elements}
    return {}


def _adds_nothing(sweep: Sweep, elements: Mapping[str, float]) -> bool:
    """Whatever values the row and the call have: sums are of elements alone, or about a pivot."""
    monoid = sweep.monoid
    if monoid.best or monoid.own or monoid.lists:
        return False
    known: dict[str, Any] = dict(elements)
    with np.errstate(all="ignore"):
        for let in (*_made(sweep), *sweep.lets):
            known[let.name] = _value(let.expr, known)
        for relative in monoid.relatives:
            known[relative.name] = _seen(monoid, relative, known)
        folds = [(f.lift, f.kind, _NOTHING[f.fold]) for f in monoid.folded]
        sums = [(m.lift, m.kind, 0.0) for m in monoid.moving]
        return all(kind == "float" and _value(lift, known) == nothing
                   for lift, kind, nothing in (*folds, *sums))


def _made(sweep: Sweep) -> tuple[Let, ...]:
    """What makes the value that later sweeps need again."""
    sources: tuple[object, ...] = sweep.loads
    made = [let for s in sources if isinstance(s, FromKept) for let in s.made]
    return (*made, Let(TERM.name, made[-1].expr)) if made else ()


def _value(expr: Expr, known: Mapping[str, Any]) -> Any:
    """None where it is made of what is not known."""
    if any(known.get(name) is None for name in variables(expr)):
        return None
    return evaluate(expr, known)


def _seen(monoid: Monoid, relative: Relative, known: Mapping[str, Any]) -> float | None:
    """An element from wherever a pivot is: that is finite, and for a ratio not 0."""
    value, pivot = _value(relative.atom, known), monoid.pivot(relative.pivot)
    match pivot.action:
        case "shift" if value is not None and math.isinf(value) and not pivot.unit:
            return float(value)
        case "scale" if value == 0.0 and not pivot.unit:
            return 0.0
        case _:
            return None
