"""Powers of e, and tangents, of elements that were computed: a row's factors are taken together.

exp(x·a/b) is 2^(x·c), c = log₂e·a/b once a row. x was rounded, so that the power carries |x·a/b|
roundings whatever is done here; c adds three to them. tanh(x·a/b) is tanh(x·c), c = a/b, whose
relative error is no greater than that of x·c.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fusegen.ir.expr import Call, Expr, Lit, Var, call
from fusegen.ir.kernel import Let, Sweep

LOG2E = Lit(math.log2(math.e))


@dataclass
class Exponents:
    """Rewrites a sweep's elements; `lets` are the rows' factors that they then use."""

    lets: list[Let] = field(default_factory=list)

    def sweep(self, sweep: Sweep) -> Sweep:
        monoid = sweep.monoid
        return replace(
            sweep, lets=tuple(replace(let, expr=self.of(let.expr)) for let in sweep.lets),
            monoid=replace(
                monoid, folded=tuple(replace(f, lift=self.of(f.lift)) for f in monoid.folded),
                moving=tuple(replace(m, lift=self.of(m.lift)) for m in monoid.moving)))

    def of(self, expr: Expr) -> Expr:
        if not isinstance(expr, Call) or not expr.varying:
            return expr
        if expr.op == "exp":
            core, factors = _apart(expr.args[0])
            if factors and not isinstance(core, Lit):
                return call("exp2", call("mul", self.of(core), self._named(factors, LOG2E)))
        if expr.op == "tanh":
            core, factors = _apart(expr.args[0])
            if len(factors) > 1 and not isinstance(core, Lit):
                return call("tanh", call("mul", self.of(core), self._named(factors, Lit(1.0))))
        return Call(expr.op, tuple(map(self.of, expr.args)))

    def _named(self, factors: tuple[tuple[str, Expr], ...], start: Lit) -> Expr:
        value: Expr = start
        for op, factor in factors:
            value = call("neg", value) if op == "neg" else call(op, value, factor)
        known = next((let for let in self.lets if let.expr == value), None)
        if known is None:
            known = Let(f"exponent_scale_{len(self.lets) + 1}", value)
            self.lets.append(known)
        return Var(known.name)


def _apart(expr: Expr) -> tuple[Expr, tuple[tuple[str, Expr], ...]]:
    """A varying expression as another one, and what the row multiplies it with or divides it by."""
    found: list[tuple[str, Expr]] = []
    while isinstance(expr, Call):
        step = next(_steps(expr), None)
        if step is None:
            break
        expr, op, factor = step
        found.append((op, factor))
    return expr, tuple(found)


def _steps(expr: Call) -> Iterator[tuple[Expr, str, Expr]]:
    match expr:
        case Call(op="neg", args=(a,)):
            yield a, "neg", a
        case Call(op="mul", args=(a, b)) if not b.varying:
            yield a, "mul", b
        case Call(op="mul", args=(a, b)) if not a.varying:
            yield b, "mul", a
        case Call(op="div", args=(a, b)) if not b.varying:
            yield a, "div", b
