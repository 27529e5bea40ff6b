"""What is claimed of an accepted merge in floats, as obligations beside those over the reals."""

from __future__ import annotations

import time

from fusegen.algebra.floats.judge import Ground, Verdict
from fusegen.algebra.floats.readout import Condition
from fusegen.algebra.symbols import told
from fusegen.ir.derivation import Obligation, Status


def claims_of(verdict: Verdict, since: float) -> tuple[Obligation, ...]:
    """Range: what bounds what at every part of a row. Conditioning: the error of any tree, in units
    of the safe text's own. `since`: when judging began, of time.perf_counter()."""
    bounds = list(dict.fromkeys(_bound(k) for k in verdict.grounds)) or ["no sum is moved"]
    seconds = time.perf_counter() - since
    return (
        Obligation("range", ";\n".join(bounds), "proved", seconds, "facts"),
        Obligation("conditioning", _error(verdict), _status(verdict.condition), 0.0,
                   "hard rows" if verdict.condition.rows else "facts"),
    )


def _bound(ground: Ground) -> str:
    c = ground.choice
    assert c.pivot is not None
    x, p, where = told(c.atom), told(c.pivot.symbol), "at every part of the row"
    match ground.kind:
        case "=":
            return f"[{x} = {p}] moves by 0 or 1"
        case "S" if c.unit is not None:
            w = told(c.unit.symbol)
            return f"{w} is a range that holds {x} {where}, and {p} is one of its ends"
        case "S":
            return f"|{x}| ≤ C·{p} {where}, and {p} only grows"
        case "D":
            order, way = ("≤", "grows") if ground.side > 0 else ("≥", "falls")
            return f"{x} {order} {p} {where}, and {p} only {way}"
        case "M":
            return f"{p} is the mean of {x}, under the terms' weights ≥ 0, {where}"
        case "H":
            return f"{p} is the mean of {x} {where}"


def constant_of(verdict: Verdict) -> int:
    """K: a tree's sums are off by at most K·c·ε·depth·Σ|terms|; docs/proofs.md has the lemma."""
    degrees: dict[str, int] = {}
    for ground in verdict.grounds:
        if ground.kind in ("M", "H"):
            name = ground.choice.u.name
            own = 0 if ground.kind == "M" and ground.degree <= 2 else ground.degree
            degrees[name] = max(degrees.get(name, 0), own)
    return int(4 ** sum(degrees.values()))


def _error(verdict: Verdict) -> str:
    k, condition = constant_of(verdict), verdict.condition
    beside = "Π ‖factors‖" if any(v.kind == "H" for v in verdict.grounds) else "Σ |terms|"
    factor = "" if k == 1 else f"{k}·"
    error = f"a tree of depth d is off by at most {factor}d·c·ε·{beside}"
    if condition.allowed:
        return f"{error};\nthat its read-out may cancel is allowed"
    if condition.rows:
        worst = f"on {condition.rows} hard rows at most {condition.worst:.2g} times"
        return f"{error};\n{worst} that is added up by the read-out"
    return error


def _status(condition: Condition) -> Status:
    if condition.allowed:
        return "assumed"
    return "tried" if condition.rows else "proved"
