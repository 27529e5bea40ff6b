"""Everything about a pipeline on one page: its text, ⊕, what was proved, and what it costs."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from fusegen.algebra.proof.html import as_html
from fusegen.algebra.proof.text import as_text
from fusegen.compile.passes import Work
from fusegen.compile.plan import plan_of
from fusegen.compile.typed import Typed
from fusegen.ir import graph as g
from fusegen.ir.derivation import Derivation
from fusegen.ir.forms import FORMS, role_words
from fusegen.ir.graph_text import formula
from fusegen.ir.kernel import Sweep
from fusegen.ir.monoid_text import identity_text, merge_text, state_text
from fusegen.ir.one_line import one_line, printable
from fusegen.ir.varying import magnitude_of, names_in, range_text, written
from fusegen.pipeline.selection import selection
from fusegen.pipeline.stabilizing import numerical_advice
from fusegen.rewrite.adjoint.transplant import Text


@dataclass(frozen=True)
class Explanation:
    """str() is the page as text; notebooks show it as HTML."""

    name: str
    fn: Callable[..., Any]
    work: Work
    settled: Mapping[str, str] = field(default_factory=dict)  # constants that are parts of kernels
    stabilized: bool = False  # the work is of the text that fg.stabilize made of fn

    def sections(self) -> Iterator[tuple[str, list[str]]]:
        """(heading, lines) in order."""
        yield "Text", self._text()
        advice = numerical_advice(self.name, self.fn, self.work, self.stabilized)
        if advice:
            yield "Numerical safety", advice
        if isinstance(self.fn, Text):
            yield "Derived from it", formula(self.work.graph).splitlines()
        constants = _constants(self.work.graph, self.settled)
        if constants:
            yield "Constants", constants
        yield "Derivation", as_text(self.work.derivation).splitlines()
        for sweep in self.work.typed.program().sweeps:
            if not sweep.monoid.is_empty:
                yield f"Operator of sweep {sweep.number}", _operator(sweep)
        yield "Proof", _proof(self.work.derivation)
        if self.work.derivation.refusals:
            lines = [ln for r in self.work.derivation.refusals for ln in str(r).splitlines()]
            yield "Keeps a sweep of its own", lines
        yield "Plan", str(self.work.plan).splitlines()
        yield "Forms", _forms(self.work)
        yield "Schedule", [self.work.schedule.describe()]
        choice = selection(self.work)
        if choice:
            yield "Selection", choice

    def _text(self) -> list[str]:
        try:
            text = textwrap.dedent(inspect.getsource(self.fn)).rstrip()
            return [printable(line.expandtabs()) for line in text.split("\n")]
        except (OSError, TypeError, ValueError, SyntaxError):  # Python asks if it can be read
            return [f"def {self.name}(…)  # its source is not available"]

    @property
    def title(self) -> str:
        types = ", ".join(f"{n} {d}" for n, d in self.work.dtypes.items())
        graph = self.work.graph
        constants = ", ".join(f"{n} {'>' if v > 0 else '<'} 0" if n in graph.varying
                              else f"{n}={one_line(repr(v))}" for n, v in graph.constants)
        shown = [types, constants, f"form {self.work.form}", f"for {self.work.target.name}"]
        role = role_words(self.work.typed.role)
        return f"{self.name}{role}  ({'; '.join(s for s in shown if s)})"

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
                inner = as_html(self.work.derivation)
            parts.append(f"<h4>{escape(heading)}</h4>\n{inner}")
        return "\n".join(["<div>", *parts, "</div>"])


def _constants(graph: g.Graph, settled: Mapping[str, str]) -> list[str]:
    """Of floats: what a kernel serves every value of, and what it is made for one of."""
    used = {n for s in graph.scalars for n in names_in(s.formula)}
    found = []
    for name, value in graph.constants:
        if name in graph.varying:
            what = "an argument of the kernel" if name in used else "not part of the kernel"
            where = range_text(name, magnitude_of(value))
            found.append(f"{name}: {what}; one kernel and one proof for {where}")
        elif name in settled:
            found.append(f"{name} = {value!r}: part of the kernel: {settled[name]}; every value "
                         "has a kernel of its own")
        elif magnitude_of(value):
            found.append(f"{name} = {value!r}: part of the kernel: a merge needs its number")
        elif type(value) is float:
            found.append(f"{name} = {value!r}: part of the kernel, as 0, infinities, NaN and what "
                         "float32 does not hold are")
    for guard in graph.guards:
        if guard.question == "bits":
            found.append(f"the text as it is where {written(guard.args[0])} is "
                         f"{float.fromhex(guard.answer)!r}")
        elif guard.question != "magnitude":
            left, right = map(written, guard.args)
            truth = "" if guard.answer else "not "
            found.append(f"the text as it is where {truth}{left} {guard.question} {right}")
    return [one_line(line) for line in found]


def _operator(sweep: Sweep) -> list[str]:
    m = sweep.monoid
    first, *rest = merge_text(m)
    merges = [f"a ⊕ b      {first}", *(f"           {t}" for t in rest)]
    return [f"state      {state_text(m)}", f"identity   {identity_text(m)}", *merges]


def _proof(derivation: Derivation) -> list[str]:
    if not derivation.obligations:
        return ["nothing to prove: base monoids only" if not derivation.refusals
                else "nothing was merged"]
    proved = sum(o.status == "proved" for o in derivation.obligations)
    engines = ", ".join(sorted({o.engine for o in derivation.obligations}))
    return [f"{proved} of {len(derivation.obligations)} obligations proved by {engines}, "
            f"{derivation.seconds * 1e3:.0f} ms in all"]


def _forms(work: Work) -> list[str]:
    """What every form costs, for comparison."""
    rows = [("form", "sweeps", "reads", "writes", "algorithm")]
    for form in FORMS:
        if form == "auto":
            continue
        other = Typed(work.typed.traced, work.dtypes, form)
        plan = plan_of(other.program(), work.chunk)
        counts = (str(plan.sweeps), str(plan.reads_per_element), str(plan.writes_per_element))
        rows.append((form, *counts, plan.algorithm))
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    return ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in rows]
