"""What `explain` says about a text's arithmetic: where it overflows or cancels, and the remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log, sqrt
from typing import Any, assert_never

import numpy as np

from fusegen.compile.passes import Work
from fusegen.compile.plan import counted
from fusegen.compile.typed import Traced, Typed
from fusegen.ir.digest import digest
from fusegen.rewrite.stabilize.findings import Finding, Hazard
from fusegen.rewrite.stabilize.rewriting import Rewriting, traced_rewriting


def numerical_advice(
    name: str, fn: Callable[..., Any], work: Work, stabilized: bool
) -> list[str]:
    """Lines about `fn`, the text as the user wrote it; none where it is safe.

    stabilized: the work is already of the safe text, so say what was done and how it is known.
    """
    constants = dict(work.graph.constants)
    safe = traced_rewriting(fn, frozenset(work.dtypes), constants,
                            allow_cancellation=work.graph.allow_cancellation)
    found = safe.rewriting
    double = any(d.name == "float64" for d in work.dtypes.values())
    lines = [
        line for f in found.findings if f in found.mended
        for line in _mended(f, "float64" if double else "float32", stabilized)
    ]
    if found.mended and not stabilized:
        typed = Typed(Traced(safe.graph, digest(safe.graph)), work.dtypes, work.form)
        other = Work(typed, work.target, work.problem, work.chunk)
        lines.append(f"fg.stabilize({name}) writes it safely: {_proofs(found)}, "
                     f"{_sweeps(work.plan.sweeps, other.plan.sweeps)}.")
    elif stabilized:
        lines += [f"{o.status:<10} {o.name}: {o.statement}  ({o.engine}, {o.seconds * 1e3:.1f} ms)"
                  for o in found.obligations]
    return [*lines, *_left(found)]


def _mended(found: Finding, dtype: str, done: bool) -> Iterator[str]:
    yield f"{found.node.loc.short}: {found.node.loc.shown}"
    yield f"    {_trouble(found.hazard, dtype)};"
    yield f"    {'now' if done else 'safe:'} {_remedy(found)}"


def _trouble(hazard: Hazard, dtype: str) -> str:
    limits = np.finfo(dtype)
    greatest, least = float(limits.max), float(limits.tiny)
    match hazard:
        case Hazard.OVERFLOW:
            return f"exp overflows {dtype} where its argument exceeds {log(greatest):.1f}"
        case Hazard.CANCELLATION:
            return "the two terms cancel where the mean is large beside the spread"
        case Hazard.SCALE:
            return (f"squares overflow {dtype} from {sqrt(greatest):.1e} and vanish below "
                    f"{sqrt(least):.1e}; higher powers sooner")
        case _:
            assert_never(hazard)


def _remedy(found: Finding) -> str:
    match found.hazard:
        case Hazard.OVERFLOW:
            return "the greatest exponent is subtracted first"
        case Hazard.CANCELLATION:
            return "deviations from the mean are summed"
        case Hazard.SCALE:
            return "elements are divided by the greatest magnitude first"
        case _:
            assert_never(found.hazard)


def _proofs(found: Rewriting) -> str:
    done = sum(o.status == "proved" for o in found.obligations)
    return f"{done} of {len(found.obligations)} results proved equal to the text"


def _sweeps(before: int, after: int) -> str:
    shown = counted(after, "sweep")
    return f"{shown}, as before" if before == after else f"{shown} instead of {before}"


def _left(found: Rewriting) -> Iterator[str]:
    """Hazards that stay: nothing cancels them, or no proof was found."""
    for f in found.findings:
        if f in found.left:
            yield f"{f.node.loc.short}: {f.node.loc.shown}"
            yield "    a sum of exponentials is used as it is, so it overflows where its value does"
    for o in found.obligations:
        if o.status != "proved":
            yield f"{o.statement}: not proved, so it stays as written"
