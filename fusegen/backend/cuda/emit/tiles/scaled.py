"""Elements that are a positive number c of the call times another value x.

max(c·x) is c·max(x), also as rounded: products with c keep the order. And where results have 16
bits, exp(c·x − m) is 2^(c'·x − m'), c' = log₂e·c, m' = log₂e·m, by one fused operation. c' and m'
are rounded: that moves the exponent by |m'|·2^-22 at most, so |m'| must be below a bound; beyond
it, c·x − m is formed as the text says, and is exact where c·x is the maximum.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fusegen.backend.cuda.emit.elements import ElementPrinter
from fusegen.backend.emit.lines import Line
from fusegen.backend.emit.terms import below_pivots
from fusegen.ir.expr import Call, Expr, Lit, Var, variables
from fusegen.ir.kernel import Kernel, Sweep
from fusegen.ir.monoid import Level, Relative

QUICK = 16384.0  # a bound of |m'|: 2^-8 more of the exponent, half of what 16 bits round away
_LEAST, _MOST = 2.0**-100, 2.0**13  # of c


@dataclass(frozen=True)
class Scaled:
    """c·x; `factor` None: c is 1."""

    factor: Expr | None
    core: Expr


def scaled(expr: Expr, kernel: Kernel, sweep: Sweep) -> Scaled | None:
    """An element as such a product; None: it is no name of one."""
    if not isinstance(expr, Var):
        return None
    lets = {let.name: let.expr for let in sweep.lets}
    match lets.get(expr.name):
        case Call(op="mul" | "rounded_mul", args=(a, b)):
            for factor, core in ((a, b), (b, a)):
                if core.varying and not factor.varying and _is_positive(factor, kernel):
                    return Scaled(factor, core)
    return Scaled(None, expr)


def _is_positive(expr: Expr, kernel: Kernel) -> bool:
    match expr:
        case Lit(value=value):
            return _LEAST <= value <= _MOST
        case Var(name=name):
            found = [p for p in kernel.params if p.name == name and p.shape == "scalar"]
            return any(p.magnitude == 2 for p in found)  # a usual number above 0
        case _:
            return False


def powers(lifts: Iterable[Expr], relatives: Iterable[Relative]) -> list[Expr] | None:
    """The lifts with exp(u) as 2^(u's power), a name; None where one asks u for more."""
    found = list(lifts)
    names = {r.name for r in relatives}
    found = [_powered(lift, names) for lift in found]
    return None if any(names & variables(lift).keys() for lift in found) else found


def _powered(expr: Expr, names: set[str]) -> Expr:
    match expr:
        case Call(op="exp", args=(Var(name=name),)) if name in names:
            return Call("exp2", (Var(f"{name}_power", "float", varying=True),))
        case Call():
            return Call(expr.op, tuple(_powered(a, names) for a in expr.args))
        case _:
            return expr


# ---- printed ----


@dataclass(frozen=True)
class GreatestView:
    """max(c·x), of a tile, as c times its greatest x: the greater of two, so that comparisons need
    not wait for one another."""

    name: str
    first: str  # of no items
    place: str
    value: str


@dataclass(frozen=True)
class QuickView:
    """Sums about a level of pivots where `guard` holds."""

    opened: tuple[Line, ...]
    guard: str
    lines: tuple[Line, ...]


class ScaledPrinter:
    """Prints such elements of one sweep."""

    def __init__(self, kernel: Kernel, sweep: Sweep, elements: ElementPrinter) -> None:
        self.kernel, self.sweep, self.elements = kernel, sweep, elements
        self.dialect, self.monoid = elements.dialect, sweep.monoid
        found = {f: scaled(f.lift, kernel, sweep) for f in self.monoid.folded
                 if f.fold == "max" and f.width == 1 and f.kind == "float"}
        self.maxima = {f: s for f, s in found.items() if s is not None}

    def greatest(self) -> tuple[GreatestView, ...]:
        found = []
        for f, s in self.maxima.items():
            name = f"{f.name}_greatest"
            value = f"{self.dialect.use('greater_of')}({name}[0], {name}[1])"
            if s.factor is not None:
                product = Call("rounded_mul", (s.factor, s.factor))
                args = [self.dialect.text(s.factor), value]
                value = self.dialect.function(product, args) or ""
            first = self.dialect.number(-math.inf)
            found.append(GreatestView(name, first, f"chunk.{f.name}", value))
        return tuple(found)

    def greatest_lines(self) -> list[Line]:
        """Of an item."""
        lines = self.elements.item_lines([s.core for s in self.maxima.values()])
        for f, s in self.maxima.items():
            place = f"{f.name}_greatest[i % 2]"
            value = f"{self.dialect.use('greater_of')}({place}, {self.dialect.text(s.core)})"
            lines.append(self.dialect.line(f"{place} = {value};", s.core))
        return lines

    def uses(self) -> list[Line]:
        """Of a tile, what its greatest are multiplied with."""
        return [self.dialect.line("", s.factor) for s in self.maxima.values() if s.factor]

    def quick(self, level: Level, put: Sequence[tuple[str, Expr]]) -> QuickView | None:
        """What adds an item to sums about the level's pivots, and leaves weights in places."""
        moving = [m for m in level.moving if m.width == 1]
        lifts = [*(m.lift for m in moving), *(value for _, value in put)]
        used = {n for lift in lifts for n in variables(lift)}
        relatives = [r for r in self.monoid.relatives if r.name in used]
        found = {r: scaled(r.atom, self.kernel, self.sweep) for r in relatives}
        powered = powers(lifts, relatives)
        if not self.dialect.narrow or powered is None or not relatives or any(
                s is None or not self._is_shift(r) for r, s in found.items()):
            return None
        cores = {r: s for r, s in found.items() if s is not None}
        lines = self.elements.item_lines([*(s.core for s in cores.values()), *powered])
        lines += [self._power(r, s) for r, s in cores.items()]
        text, line = self.dialect.text, self.dialect.line
        below = below_pivots(self.sweep.monoid)
        with self.dialect.terms(f"{r.name}_power" for r in cores if r.name in below):
            lines += [line(f"state.{m.name} += {text(e)};", e)
                      for m, e in zip(moving, powered, strict=False)]
            lines += [line(f"{place} = {text(e)};", e)
                      for (place, _), e in zip(put, powered[len(moving) :], strict=True)]
        opened = [ln for r, s in cores.items() for ln in self._opened(r, s)]
        guard = " && ".join(f"fabsf({r.name}_start) < {QUICK:.1f}f" for r in cores)
        return QuickView(tuple(opened), guard, tuple(lines))

    def _is_shift(self, relative: Relative) -> bool:
        pivot = self.monoid.pivot(relative.pivot)
        return pivot.action == "shift" and not pivot.unit

    def _opened(self, relative: Relative, s: Scaled) -> Iterator[Line]:
        log2e = Lit(math.log2(math.e))
        factor: Expr = log2e if s.factor is None else Call("mul", (s.factor, log2e))
        start = Call("mul", (Var(self.monoid.pivot(relative.pivot).anchor), log2e))
        for name, value in ((f"{relative.name}_factor", factor), (f"{relative.name}_start", start)):
            yield self.dialect.let(name, value)

    def _power(self, relative: Relative, s: Scaled) -> Line:
        name, core = f"{relative.name}_power", self.dialect.text(s.core)
        text = f"fmaf({core}, {relative.name}_factor, -{relative.name}_start)"
        return self.dialect.line(f"const float {name} = {text};", s.core, declares=name)
