"""Terms that one sweep has computed and a later one needs again: exponentials, of rows in a cache.

While a sweep sums exp(x − m) its pivot m still grows. The terms are kept with the pivot of their
chunk, p; a later sweep, which knows the row's own m, has exp(x − m) = exp(x − p) · exp(p − m).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.memory import load, store
from fusegen.backend.cpu.emit.sources import printed
from fusegen.backend.cpu.emit.state import gathers
from fusegen.backend.emit.terms import (
    TERM,
    FromKept,
    Term,
    expressions,
    over,
    over_terms,
    replaced,
    same_items,
    term_of,
    terms,
)
from fusegen.ir.errors import InternalError
from fusegen.ir.expr import ONE, Call, Expr, Lit, Var, walk
from fusegen.ir.kernel import FromMemory, FromVectors, Kernel, Sweep

KEPT_BYTES = 1 << 20
"""Of the terms of a row at most: they go to the second-level cache and back."""


@dataclass(frozen=True, slots=True)
class Kept:
    """exp of `relative` in one sweep, and the sweep that needs it again."""

    relative: str
    pivot: str  # the component that the terms of a chunk are relative to
    maker: int  # number of the sweep
    steps: str  # by how many times their distance from there, in C++; "": by 1
    known: tuple[str, ...]  # the pivot's value in the row, and what it divides its terms by, if so
    again: Sweep  # the later one, over terms
    chunk: int  # columns
    flushes: bool  # does what is summed hold 0 for subnormal terms?

    @property
    def row_values(self) -> str:
        """Arguments of fg::movable and fg::factor_between."""
        given = [f"known.{name}" for name in self.known]
        if self.steps:
            given += [*(["1"] if len(given) == 1 else []), self.steps]
        return ", ".join(given)

    def lines(self, lanes: CpuDialect) -> list[str]:
        """Where the term is made."""
        lanes = replace(lanes, below=frozenset()) if self.flushes else lanes
        kept = store(lanes.compute, "row.terms + col", TERM.name, replace(lanes, partly=False))
        return [f"const V {TERM.name} = {lanes.text(term_of(self.relative))};", "if (row.terms)",
                f"    {kept}"]

    def note(self) -> list[str]:
        """When a chunk is done."""
        return ["if (row.terms)", f"    row.pivots[begin / {self.chunk}] = state.{self.pivot};"]

    def lift(self, expr: Expr) -> Expr:
        """What is summed, over the term."""
        return replaced(expr, {term_of(self.relative): TERM})


def kept_terms(kernel: Kernel, chunk: int, *, flushes: bool) -> Kept | None:
    """The first terms of a kernel's sweeps that a sweep of elements alone needs again."""
    for position, maker in enumerate(kernel.sweeps):
        if not can_be_partial(maker, kernel):
            continue
        for term in terms(maker):
            for sweep in kernel.sweeps[position + 1 :]:
                if not sweep.monoid.is_empty or not _same_items(maker, sweep, kernel):
                    continue
                found = _of_terms(sweep, term, _row_values(kernel))
                if found is not None:
                    again, divisors = found
                    return Kept(term.relative, term.pivot, maker.number,
                                _shown(term.steps, kernel), (term.known, *divisors), again, chunk,
                                flushes)
    return None


def _shown(steps: Expr, kernel: Kernel) -> str:
    match steps:
        case Lit(value=value):
            return "" if steps == ONE else repr(value)
        case Var(name=name):
            given = any(p.name == name for p in kernel.params)
            return f"{'row' if given else 'known'}.{name}"
        case _:
            raise InternalError("steps of elements are a number, or a row's value")


def _row_values(kernel: Kernel) -> frozenset[str]:
    """What a kernel's sweeps hand on to later ones."""
    steps = (*kernel.prelude, *(step for sweep in kernel.sweeps for step in sweep.steps))
    return frozenset(step.name for step in steps)


def can_be_partial(sweep: Sweep, kernel: Kernel) -> bool:
    """Can a vector of its items be the first few lanes of one? Not in monoids of the user's own,
    and where long lists gather whole ones from tiles."""
    tiles = kernel.has_vectors and any(gathers(c, kernel) for c in sweep.monoid.lists)
    return not (sweep.monoid.own or tiles) and all(
        isinstance(source, FromMemory | FromVectors) for source in sweep.loads)


def _of_terms(
    sweep: Sweep, term: Term, row_values: Collection[str]
) -> tuple[Sweep, tuple[str, ...]] | None:
    """The sweep with kept terms in place of what computes them, and the row value, if there is one,
    that all of them are divided by there: that is done to the factor that moves them. None where it
    has no such term."""
    again = over_terms(sweep, term)
    if again is None:
        return None
    parts = [e for x in expressions(again) for e in walk(x)]
    divisions = [e for e in parts if isinstance(e, Call) and e.op == "div" and e.args[0] == TERM]
    divisors = {e.args[1] for e in divisions}
    match [*divisors]:
        case [Var(name=name) as divisor] if (
            name in row_values and parts.count(TERM) == len(divisions)
        ):
            return over(again, {Call("div", (TERM, divisor)): TERM}), (name,)
        case _:
            return again, ()


def _same_items(one: Sweep, other: Sweep, kernel: Kernel) -> bool:
    """Do names that both have stand for the same values of an element?"""
    return can_be_partial(other, kernel) and same_items(one, other)


@printed.register
def _from_kept(source: FromKept, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    value = load(kernel.compute, "row.terms + col", replace(lanes, partly=False))
    return [f"const V {source.name} = {value} * moved;"]
