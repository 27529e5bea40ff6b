"""Terms that one sweep has computed and a later one needs again: exponentials, of rows in a cache.

While a sweep sums exp(x − m) its pivot m still grows. The terms are kept with the pivot of their
chunk, p; a later sweep, which knows the row's own m, has exp(x − m) = exp(x − p) · exp(p − m).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from fusegen.backend.cpu.emit.dialect import CpuDialect
from fusegen.backend.cpu.emit.memory import load, store
from fusegen.backend.cpu.emit.sources import printed
from fusegen.backend.cpu.emit.state import gathers
from fusegen.ir.expr import Call, Expr, Var, walk
from fusegen.ir.kernel import FromMemory, FromVectors, Kernel, Let, Source, Sweep
from fusegen.ir.kernel_walk import used_in
from fusegen.ir.monoid import Monoid

KEPT_BYTES = 1 << 20
"""Of the terms of a row at most: they go to the second-level cache and back."""

TERM = Var("term", "float", varying=True)
"""What expressions call a kept term."""


@dataclass(frozen=True, slots=True)
class FromKept:
    """Items are terms that an earlier sweep has kept."""

    name: str = TERM.name
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kept:
    """exp of `relative` in one sweep, and the sweep that needs it again."""

    relative: str
    pivot: str  # the component that the terms of a chunk are relative to
    maker: int  # number of the sweep
    known: tuple[str, ...]  # the pivot's value in the row, and what it divides its terms by, if so
    again: Sweep  # the later one, over terms
    chunk: int  # columns
    flushes: bool  # does what is summed hold 0 for subnormal terms?

    @property
    def row_values(self) -> str:
        """Arguments of fg::movable and fg::factor_between."""
        return ", ".join(f"known.{name}" for name in self.known)

    def lines(self, lanes: CpuDialect) -> list[str]:
        """Where the term is made."""
        lanes = replace(lanes, below=frozenset()) if self.flushes else lanes
        kept = store(lanes.compute, "row.terms + col", TERM.name, replace(lanes, partly=False))
        return [f"const V {TERM.name} = {lanes.text(_term(self.relative))};", "if (row.terms)",
                f"    {kept}"]

    def note(self) -> list[str]:
        """When a chunk is done."""
        return ["if (row.terms)", f"    row.pivots[begin / {self.chunk}] = state.{self.pivot};"]

    def lift(self, expr: Expr) -> Expr:
        """What is summed, over the term."""
        return _replaced(expr, {_term(self.relative): TERM})


def kept_terms(kernel: Kernel, chunk: int, *, flushes: bool) -> Kept | None:
    """The first terms of a kernel's sweeps that a sweep of elements alone needs again."""
    for position, maker in enumerate(kernel.sweeps):
        if not can_be_partial(maker, kernel):
            continue
        for relative, pivot, known, term in _candidates(maker):
            for sweep in kernel.sweeps[position + 1 :]:
                if not sweep.monoid.is_empty or not _same_items(maker, sweep, kernel):
                    continue
                found = _of_terms(sweep, term, _row_values(kernel))
                if found is not None:
                    again, divisors = found
                    return Kept(relative, pivot, maker.number, (known, *divisors), again, chunk,
                                flushes)
    return None


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


def below_pivots(monoid: Monoid) -> frozenset[str]:
    """Relatives that are never above 0: they are relative to the greatest of themselves."""
    tops = {f.name: f.lift for f in monoid.folded if f.fold == "max"}
    return frozenset(
        r.name for r in monoid.relatives
        for pivot in (monoid.pivot(r.pivot),)
        if pivot.action == "shift" and not pivot.unit and isinstance(pivot.value, Var)
        and tops.get(pivot.value.name) == r.atom
    )


def _candidates(sweep: Sweep) -> Iterator[tuple[str, str, str, Expr]]:
    """(relative, pivot, the pivot's name in the row, the term over that) of sums of exponentials of
    what is never above 0."""
    monoid = sweep.monoid
    known = {step.expr: step.name for step in sweep.steps if isinstance(step, Let)}
    below = below_pivots(monoid)
    for relative in monoid.relatives:
        pivot = monoid.pivot(relative.pivot).value
        used = any(_term(relative.name) in walk(m.lift) for m in monoid.moving)
        if relative.name not in below or not used or not isinstance(pivot, Var):
            continue
        name = known.get(replace(pivot, name=f"state.{pivot.name}"))
        if name is not None:
            row = Var(name, pivot.kind)
            yield relative.name, pivot.name, name, Call(
                "exp", (Call("sub", (relative.atom, row)),))


def _term(relative: str) -> Expr:
    return Call("exp", (Var(relative, "float", varying=True),))


def _of_terms(
    sweep: Sweep, term: Expr, row_values: Collection[str]
) -> tuple[Sweep, tuple[str, ...]] | None:
    """The sweep with kept terms in place of what computes them, and the row value, if there is one,
    that all of them are divided by there: that is done to the factor that moves them. None where it
    has no such term."""
    again = _over(sweep, {term: TERM})
    if not any(TERM in walk(expr) for expr in _expressions(again)):
        return None
    again = _over(again, {Var(let.name, "float", varying=True): TERM
                          for let in again.lets if let.expr == TERM})
    parts = [e for x in _expressions(again) for e in walk(x)]
    divisions = [e for e in parts if isinstance(e, Call) and e.op == "div" and e.args[0] == TERM]
    divisors = {e.args[1] for e in divisions}
    kept = cast(Source, FromKept())  # of a program that no other backend sees
    again = replace(again, loads=(kept, *again.loads))
    match [*divisors]:
        case [Var(name=name) as divisor] if (
            name in row_values and parts.count(TERM) == len(divisions)
        ):
            return _over(again, {Call("div", (TERM, divisor)): TERM}), (name,)
        case _:
            return again, ()


def _expressions(sweep: Sweep) -> list[Expr]:
    return [*(let.expr for let in sweep.lets), *(s.value for s in sweep.element_stores)]


def _over(sweep: Sweep, values: Mapping[Expr, Expr]) -> Sweep:
    """The sweep with other expressions for some, and no lets that nothing needs any more."""
    stores = tuple(replace(s, value=_replaced(s.value, values)) for s in sweep.element_stores)
    lets = tuple(replace(let, expr=_replaced(let.expr, values)) for let in sweep.lets)
    found = replace(sweep, lets=lets, element_stores=stores)
    return replace(found, lets=tuple(used_in(found, (s.value for s in stores))[1]))


def _same_items(one: Sweep, other: Sweep, kernel: Kernel) -> bool:
    """Do names that both have stand for the same values of an element?"""
    first, second = ({let.name: let.expr for let in s.lets} for s in (one, other))
    return (can_be_partial(other, kernel)
            and all(second[name] == first[name] for name in first.keys() & second.keys()))


def _replaced(expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
    if expr in values:
        return values[expr]
    if isinstance(expr, Call):
        return Call(expr.op, tuple(_replaced(a, values) for a in expr.args))
    return expr


@printed.register
def _from_kept(source: FromKept, kernel: Kernel, lanes: CpuDialect) -> list[str]:
    value = load(kernel.compute, "row.terms + col", replace(lanes, partly=False))
    return [f"const V {source.name} = {value} * moved;"]
