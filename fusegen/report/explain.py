"""Everything about a pipeline on one page: its text, ⊕, what was proved, and what it costs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from fusegen.adjoint.transplant import Text
from fusegen.compiler import Work
from fusegen.derivation import Derivation
from fusegen.forms import FORMS
from fusegen.kernel import Sweep
from fusegen.monoid_text import identity_text, merge_text, state_text
from fusegen.one_line import one_line, printable
from fusegen.plan import plan_of
from fusegen.report.formula import formula
from fusegen.report.selection import selection
from fusegen.schedule.target import CudaTarget
from fusegen.stabilize.advice import numerical_advice


@dataclass(frozen=True)
class Explanation:
    """str() is the page as text; notebooks show it as HTML."""

    name: str
    fn: Callable[..., Any]
    work: Work
    stabilized: bool = False  # the work is of the text that fg.stabilize made of fn

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """(heading, lines) in order."""
        yield "Text", self._text()
        advice = numerical_advice(self.name, self.fn, self.work, self.stabilized)
        if advice:
            yield "Numerical safety", advice
        if isinstance(self.fn, Text):
            yield "Derived from it", formula(self.work.graph).splitlines()
        yield "Derivation", str(self.work.derivation).splitlines()
        for sweep in self.work.result("lower").sweeps:
            if not sweep.monoid.is_empty:
                yield f"Operator of sweep {sweep.number}", _operator(sweep)
        yield "Proof", _proof(self.work.derivation)
        if self.work.derivation.refusals:
            lines = [ln for r in self.work.derivation.refusals for ln in str(r).splitlines()]
            yield "Keeps a sweep of its own", lines
        yield "Plan", str(self.work.plan).splitlines()
        yield "Forms", _forms(self.work)
        yield "Schedule", [_describe(self.work.schedule)]
        if isinstance(self.work.target, CudaTarget):
            yield "Selection", selection(self.work)

    def _text(self) -> list[str]:
        try:
            text = textwrap.dedent(inspect.getsource(self.fn)).rstrip()
            return [printable(line.expandtabs()) for line in text.split("\n")]
        except (OSError, TypeError, ValueError, SyntaxError):  # Python asks if it can be read
            return [f"def {self.name}(…)  # its source is not available"]

    @property
    def title(self) -> str:
        types = ", ".join(f"{n} {d}" for n, d in self.work.dtypes.items())
        constants = ", ".join(f"{n}={one_line(repr(v))}" for n, v in self.work.graph.constants)
        shown = [types, constants, f"form {self.work.form}", f"for {self.work.target.name}"]
        return f"{self.name}  ({'; '.join(s for s in shown if s)})"

    def __str__(self) -> str:
        lines = [self.title, "=" * len(self.title)]
        for heading, body in self.sections():
            lines += ["", heading, *(f"    {line}".rstrip() for line in body)]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<h3>{escape(self.title)}</h3>"]
        for heading, body in self.sections():
            inner = f"<pre>{escape(chr(10).join(body))}</pre>"
            if heading == "Derivation":
                inner = self.work.derivation._repr_html_()
            parts.append(f"<h4>{escape(heading)}</h4>\n{inner}")
        return "\n".join(["<div>", *parts, "</div>"])


def _operator(sweep: Sweep) -> list[str]:
    m = sweep.monoid
    first, *rest = merge_text(m)
    merges = [f"a ⊕ b      {first}", *(f"           {t}" for t in rest)]
    return [f"state      {state_text(m)}", f"identity   {identity_text(m)}", *merges]


def _proof(derivation: Derivation) -> list[str]:
    if not derivation.obligations:
        return ["nothing to prove: base monoids only" if not derivation.refusals
                else "nothing was merged"]  # fmt: skip
    proved = sum(o.status == "proved" for o in derivation.obligations)
    engines = ", ".join(sorted({o.engine for o in derivation.obligations}))
    return [f"{proved} of {len(derivation.obligations)} obligations proved by {engines}, "
            f"{derivation.seconds * 1e3:.0f} ms in all"]  # fmt: skip


def _forms(work: Work) -> list[str]:
    """What every form costs, for comparison."""
    rows = [("form", "sweeps", "reads", "writes", "algorithm")]
    for form in FORMS:
        if form == "auto":
            continue
        other = Work(work.traced, work.dtypes, form, work.target, work.problem, work.chunk)
        plan = plan_of(other.result("lower"), work.chunk)
        counts = (str(plan.sweeps), str(plan.reads_per_element), str(plan.writes_per_element))
        rows.append((form, *counts, plan.algorithm))
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    return ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def _describe(schedule: Any) -> str:
    return str(schedule.describe()) if hasattr(schedule, "describe") else str(schedule.algorithm)
