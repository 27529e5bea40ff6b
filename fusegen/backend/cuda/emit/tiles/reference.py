"""Sums about a reference that lags behind the maximum which is their pivot.

That it does in the maximum's place is an obligation of the sums (algebra/reference.py), proved for
any that is near: here terms are at most 2^8. So a tile's items are added about the old reference,
unless one is far above it, and at the end sums move to the maximum. exp(c·x − m) is
2^(c'·x − start), c' = log₂e·c, by one fused operation: start is the reference, exactly, whatever it
was rounded from. Sums of exp(c·x − m)·c·x are kept of x, and multiplied with c once a tile.

An item that does not contribute becomes −∞, of which no power and no maximum follows; where powers
are multiplied with x, a number instead, so far below any reference that its power is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from fusegen.backend.cuda.emit.tiles.scaled import Scaled, ScaledPrinter, powers
from fusegen.backend.cuda.emit.tiles.spans import span_bits
from fusegen.backend.emit.lines import Line, uses_of
from fusegen.backend.emit.vector_sums import VectorSum
from fusegen.ir.expr import Call, Expr, Lit, Var
from fusegen.ir.kernel import COLUMN, FromVectors, Sweep
from fusegen.ir.monoid import Folded, Moving

LEAST_FACTOR = 2.0**-13  # as of a constant of the call whose size is known


@dataclass(frozen=True)
class Part:
    """A function's statements of an item, behind declarations of what they use."""

    opened: tuple[Line, ...]
    lines: tuple[Line, ...]
    asks_column: bool


@dataclass(frozen=True)
class NearView:
    """x as the tangent of a multiple of the score; what is added where a polynomial is that."""

    opened: tuple[Line, ...]
    factor: str
    added: Part


@dataclass(frozen=True)
class ReferenceView:
    """What the template prints of it; an item's score is at `place` of `scores`."""

    scores: str
    place: str
    mapped: Part | None  # x takes the score's place; None: it is the score
    tangents: Part | None  # likewise, x is the hyperbolic tangent of `number`
    near: NearView | None  # where x is such a tangent
    live: Part  # what says whether an item contributes
    span_bits: tuple[str, ...]  # likewise, a bit of each, where a row's span alone decides
    vanishes: bool  # does an item that is left out add nothing to any sum?
    times_items: bool  # are powers multiplied with x? Of what is left out it has to be finite
    nothing: tuple[Line, ...]  # declarations of what such an item is made of
    greatest: str  # the member that is the maximum
    highest: Part  # what is asked of an item whose value is known: nothing
    reached: Part  # of a tile: `product`, c times the greatest x as the text rounds it
    added: Part
    weights: tuple[str, ...]  # that are left
    sums: tuple[str, ...]  # members that are about the pivot
    totals: tuple[Line, ...]  # what a tile adds to them
    shared: bool  # have a row's lanes one reference?


@dataclass(frozen=True, kw_only=True)
class _AddedUp:
    """What is added of an item: powers, or powers times x, to members and to weights."""

    peak: Folded
    scaled: Scaled
    maps: bool  # is x another value than the score?
    vanishes: bool  # see ReferenceView
    bare: bool  # are they powers alone?
    score: str
    moving: tuple[Moving, ...]
    terms: tuple[Expr, ...]  # what is added to them
    factors: tuple[Expr | None, ...]  # which that lacks
    weights: tuple[tuple[str, Expr], ...]


_FACTOR_USED = Line("", frozenset(["power_factor"]))

Opened = Callable[[Sequence[Line]], tuple[Line, ...]]
"""Declarations of what lines use."""


class ReferencePrinter:
    """Prints such folds of one sweep, where all of its sums are about one maximum."""

    def __init__(self, scaled: ScaledPrinter, sweep: Sweep) -> None:
        self.scaled, self.elements, self.dialect = scaled, scaled.elements, scaled.dialect
        self.sweep, self.monoid = sweep, sweep.monoid

    def view(
        self, sums: Sequence[VectorSum], place: str, live: Sequence[Line], opened: Opened
    ) -> ReferenceView | None:
        """None where there is more to the fold."""
        weights = [(f"{w.name}[{place}]", w.value) for s in sums for w in s.weights]
        found = self._added_up(weights, place)
        if found is None:
            return None
        part = partial(self._part, self._factor(found.scaled), opened, live)
        core = found.scaled.core
        mapped = part(self._mapped(core, found.score)) if found.maps else None
        tangents = part(self._under_tanh(core)) if found.maps else None
        totals = self._totals(found)
        power = f"fmaf({found.score}, power_factor, -reference.start)"
        return ReferenceView(
            scores=f"{self._score()}_scores", place=found.score, live=part(live),
            span_bits=span_bits(self.sweep), vanishes=found.vanishes, mapped=mapped,
            tangents=tangents if tangents and tangents.lines else None,
            near=self._near(found, part), times_items=found.vanishes and not found.bare,
            nothing=part([_FACTOR_USED]).opened, greatest=found.peak.name, highest=part([]),
            reached=part([self._reached(found.scaled)]),
            added=part(self._added(found, power, ["power_factor"]), totals),
            weights=tuple(w for w, _ in weights), sums=tuple(m.name for m in found.moving),
            totals=totals, shared=bool(sums))

    def _added_up(
        self, weights: Sequence[tuple[str, Expr]], place: str
    ) -> _AddedUp | None:
        found = self._pivot()
        if found is None or not self.dialect.narrow:
            return None
        peak, scaled = found
        moving = [m for m in self.monoid.moving if m.width == 1]
        powered = powers([*(m.lift for m in moving), *(v for _, v in weights)],
                         self.monoid.relatives)
        if powered is None:
            return None
        measured = [self._measured(lift, peak, scaled) for lift in powered]
        vanishes, maps = all(measured), scaled.core != self._item
        if maps and not vanishes:
            return None
        terms = [m[0] if m else lift for m, lift in zip(measured, powered, strict=True)]
        return _AddedUp(
            peak=peak, scaled=scaled, maps=maps, vanishes=vanishes,
            score=f"{self._score()}_scores[{place}]",
            bare=all(map(_is_power, powered)), moving=tuple(moving),
            factors=tuple(m[1] if m else None for m in measured[: len(moving)]),
            terms=tuple(terms[: len(moving)]),
            weights=tuple((w, t) for (w, _), t in zip(weights, terms[len(moving) :], strict=True)))

    def _part(
        self, factor: Line, opened: Opened, live: Sequence[Line], lines: Sequence[Line],
        behind: Sequence[Line] = (),
    ) -> Part:
        """behind: lines that follow those of items."""
        uses = uses_of([*lines, *behind])
        used = [factor] if factor.declares in uses else []
        return Part((*opened([*lines, *behind, *used]), *used), tuple(lines),
                    lines is live or COLUMN.name in uses or any(
                        f"[{COLUMN.name}]" in ln.text for ln in lines))

    @property
    def _item(self) -> Var:
        """x, where powers are added."""
        return Var(self._score(), "float", varying=True)

    def _score(self) -> str:
        (name,) = (s.name for s in self.sweep.loads if isinstance(s, FromVectors))
        return name

    def _pivot(self) -> tuple[Folded, Scaled] | None:
        """The maximum, and its elements; None where there is more to it."""
        monoid = self.monoid
        scores = [s for s in self.sweep.loads if isinstance(s, FromVectors)]
        if len(scores) != 1 or len(monoid.levels) != 1 or monoid.best or monoid.own or monoid.lists:
            return None
        if len(monoid.folded) != 1 or len(monoid.pivots) != 1 or len(monoid.relatives) != 1:
            return None
        (peak,), (pivot,), (relative,) = monoid.folded, monoid.pivots, monoid.relatives
        scaled = self.scaled.maxima.get(peak)
        shifts = pivot.action == "shift" and not pivot.unit
        about = isinstance(pivot.value, Var) and pivot.value.name == peak.name
        moved = Call("exp", (Var(pivot.move),))  # all by the same factor
        moves = all(m.lags and m.transport == ((m.name, moved),) for m in monoid.moving)
        if scaled is None or not shifts or not about or not moves or relative.atom != peak.lift:
            return None
        return peak, scaled

    def _measured(
        self, lift: Expr, peak: Folded, scaled: Scaled
    ) -> tuple[Expr, Expr | None] | None:
        """A power, or one times c·x, as what is added of x, and the factor that this lacks: x is
        far from overflow, since c is not small and 2^24 bounds exponents. None: it is neither."""
        if _is_power(lift):
            return lift, None
        match lift:
            case Call(op="mul", args=(a, b)) if _is_power(a) or _is_power(b):
                power, item = (a, b) if _is_power(a) else (b, a)
                value = Call("mul", (power, self._item))
                if item == scaled.core == self._item:
                    return value, None
                c = scaled.factor
                if item == peak.lift and not (isinstance(c, Lit) and c.value < LEAST_FACTOR):
                    return value, c
        return None

    # ---- lines ----

    def _totals(self, added: _AddedUp) -> tuple[Line, ...]:
        found = []
        for m, factor in zip(added.moving, added.factors, strict=True):
            value = f"{m.name}[0] + {m.name}[1]"
            if factor is None:
                found.append(Line(f"state.{m.name} += {value};"))
            else:
                value = f"{self.dialect.operand(factor)} * ({value})"
                found.append(self.dialect.line(f"state.{m.name} += {value};", factor))
        return tuple(found)

    def _factor(self, scaled: Scaled) -> Line:
        log2e: Expr = Lit(math.log2(math.e))
        value = log2e if scaled.factor is None else Call("mul", (scaled.factor, log2e))
        return self.dialect.let("power_factor", value)

    def _mapped(self, core: Expr, score: str) -> list[Line]:
        return [*self.elements.item_lines([core]),
                self.dialect.line(f"{score} = {self.dialect.text(core)};", core)]

    def _under_tanh(self, core: Expr) -> list[Line]:
        match core:
            case Call(op="tanh", args=(number,)):
                value = f"const float number = {self.dialect.text(number)};"
                lines = [*self.elements.item_lines([number]), self.dialect.line(value, number)]
                return [] if any(f"[{COLUMN.name}]" in ln.text for ln in lines) else lines
            case _:
                return []

    def _near(self, found: _AddedUp, part: Callable[..., Part]) -> NearView | None:
        """Where x is the tangent of a score times what a row knows, and its powers are all."""
        match found.scaled.core:
            case Call(op="tanh", args=(Call(op="mul" | "div" as op, args=(item, factor)),)) \
                    if item == self._item and not factor.varying and found.bare:
                by = factor if op == "mul" else Call("div", (Lit(1.0), factor))
            case _:
                return None
        used = self.dialect.line("", by)
        added = self._added(found, f"near.power({found.score}, reference.start)", [])
        return NearView(part([used, _FACTOR_USED]).opened, self.dialect.text(by), part(added))

    def _added(self, found: _AddedUp, power: str, uses: Sequence[str]) -> list[Line]:
        (relative,) = self.monoid.relatives
        name, line, text = f"{relative.name}_power", self.dialect.line, self.dialect.text
        terms = [*found.terms, *(t for _, t in found.weights)]
        lines = [*self.elements.item_lines(terms),
                 Line(f"const float {name} = {power};", frozenset(uses), name)]
        with self.dialect.terms([name]):
            lines += [line(f"{m.name}[i % 2] += {text(e)};", e)
                      for m, e in zip(found.moving, found.terms, strict=True)]
            lines += [line(f"{place} = {text(e)};", e) for place, e in found.weights]
        return lines

    def _reached(self, scaled: Scaled) -> Line:
        value, uses = "greatest", frozenset(["power_factor"])
        if scaled.factor is not None:
            product = Call("rounded_mul", (scaled.factor, scaled.factor))
            args = [self.dialect.text(scaled.factor), value]
            value = self.dialect.function(product, args) or ""
            uses |= self.dialect.uses(scaled.factor)
        return Line(f"const float product = {value};", uses, "product")


def _is_power(lift: Expr) -> bool:
    match lift:
        case Call(op="exp2", args=(Var(),)):
            return True
        case _:
            return False
