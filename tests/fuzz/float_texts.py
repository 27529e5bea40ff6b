"""Random texts at the edge of what floats allow: pivots of the very elements and of others, weights
that vanish or change sign, scales, ranges, midranges, selections, masks, products of deviations,
read-outs of several sums, chains of sums, inputs per row.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from .terms import Case, Line, Term, fn, name, names_of

INF = float("inf")
_FOLDS = (("sum", 5), ("mean", 2))


@dataclass
class _Writer:
    """A text under construction: `rows` are the row values of earlier lines."""

    rng: random.Random
    inputs: tuple[str, ...]
    per_row: bool
    rows: list[Term] = field(default_factory=list)

    def one(self, *weighted: tuple[float, Callable[[], Term]]) -> Term:
        (make,) = self.rng.choices([m for _, m in weighted], [w for w, _ in weighted])
        return make()

    @property
    def other(self) -> Term:
        """An input that is likely not x."""
        return name(self.rng.choice(self.inputs[1:] or self.inputs))

    def power(self) -> int:
        return self.rng.choice((1, 2, 2, 2, 3, 4))

    # ---- elements ----

    def element(self) -> Term:
        x = name(self.rng.choice((*self.inputs, "x")))
        y = self.other
        plain = [(10, lambda: x), (2, lambda: y)]
        made = [
            (1, lambda: fn("abs", x)), (0.7, lambda: x * -1), (0.8, lambda: x + y),
            (0.8, lambda: x - y), (0.6, lambda: fn("maximum", x, y)), (0.5, lambda: x * y),
            (0.5, lambda: fn("minimum", x, y)), (0.8, lambda: x * self.rng.choice((2, 0.5, -3))),
            (0.6, lambda: fn("maximum", x, 0)), (0.9, lambda: fn("where", y > 0, x, -INF)),
            (0.3, lambda: x**2),
        ]
        if self.per_row:
            made += [(1, lambda: x + name("r")), (0.7, lambda: x * name("r"))]
        return self.one(*plain, *made)

    def weight(self) -> Term:
        x, y = name("x"), self.other
        return self.one(
            (3, lambda: y), (3, lambda: fn("abs", y)), (2, lambda: fn("exp", y)), (1, lambda: x),
            (2, lambda: fn("where", y > 0, 1.0, 0.0)), (1.5, lambda: y**2),
            (1.5, lambda: fn("exp", x - fn("max", x))), (1, lambda: softmax(self.element())),
            (0.5, lambda: fn("where", x > 0, y, 0.0)), (0.5, lambda: fn("sigmoid", y)),
        )

    # ---- row values ----

    def pivot(self, a: Term) -> Term:
        """A row value to measure `a` from, or divide it by: its own, mostly."""
        e = a if self.rng.random() < 0.68 else self.element()
        high, low, mean = fn("max", e), fn("min", e), fn("mean", e)
        w = fn("abs", self.other)
        made = [
            (9, lambda: high), (3, lambda: low), (6, lambda: mean),
            (1.5, lambda: fn("max", fn("abs", e))), (1, lambda: fn("sum", fn("abs", e))),
            (0.8, lambda: high + self.rng.choice((1, 0.5))), (0.5, lambda: high * 0.5),
            (1.5, lambda: fn("sum", w * e) / fn("sum", w)), (0.7, lambda: (high + low) / 2),
            (1, lambda: fn("sqrt", fn("sum", e**2))), (0.8, lambda: high - low),
            (0.7, lambda: fn("mean", fn("abs", e))), (0.8, lambda: expectation(self.element(), e)),
            (1, lambda: fn("max", fn("where", self.other > 0, e, -INF))),
            (0.8, lambda: fn("maximum", high, fn("max", self.other))),
            (0.5, lambda: fn("sqrt", fn("mean", e**2))),
        ]
        if self.rows:
            made += [(4, lambda: self.rng.choice(self.rows))]
        if self.per_row:
            made += [(1.5, lambda: name("r")), (0.7, lambda: high + name("r"))]
        return self.one(*made)

    # ---- terms ----

    def term(self) -> Term:
        a, b = self.element(), self.element()
        p, q, k = self.pivot(a), self.pivot(b), self.power()
        u, v = a - p, b - q
        low = fn("min", a)
        return self.one(
            (7, lambda: fn("exp", u)), (1, lambda: fn("exp", p - a)), (5, lambda: u**k),
            (1, lambda: fn("abs", u)), (4, lambda: (a / p) ** k), (3, lambda: self.weight() * u**k),
            (2, lambda: self.weight() * u**2), (3, lambda: self.weight() * fn("exp", u)),
            (2, lambda: fn("exp", u) * v**k), (2, lambda: u * v), (0.7, lambda: u**2 * v),
            (1, lambda: fn("where", less(a, p), fn("exp", u), 0.0)),
            (1, lambda: fn("where", equal(a, p), b, 0.0)),
            (0.6, lambda: fn("where", equal(a, p), 0.0, u**k)),
            (0.5, lambda: fn("expm1", u)), (0.4, lambda: 1 - fn("exp", u)),
            (1.5, lambda: fn("where", self.other > 0, fn("exp", u), 0.0)),
            (0.8, lambda: fn("where", self.other > 0, u**k, 0.0)),
            (1, lambda: ((a - low) / (p - low)) ** k), (1, lambda: (u / q) ** k),
            (2, lambda: softmax(a) * v**k), (1, lambda: softmax(a) ** k),
            (1, lambda: softmax(a) * (1 - softmax(a))), (1, lambda: softmax(a) * log_softmax(b)),
            (1.5, lambda: self.weight() / p), (1, lambda: fn("exp", u * self.rng.choice((2, 0.5)))),
            (0.5, lambda: fn("where", fn("isinf", a), 0.0, fn("exp", u))), (0.7, lambda: a / p),
            (1, lambda: fn("where", less(p, q), fn("exp", a), 0.0)),
            (0.7, lambda: fn("where", less(q, p), self.weight() * a, fn("exp", u))),
            (0.6, lambda: fn("exp", u) * fn("exp", v)), (0.5, lambda: fn("exp", u + v)),
            (0.5, lambda: fn("xlogy", softmax(a), softmax(a))), (0.6, lambda: u * fn("exp", u)),
        )


def equal(a: Term, b: Term) -> Term:
    return Term("==", (a, b))


def less(a: Term, b: Term) -> Term:
    return Term("<", (a, b))


def softmax(a: Term) -> Term:
    e = fn("exp", a - fn("max", a))
    return e / fn("sum", e)


def log_softmax(a: Term) -> Term:
    u = a - fn("max", a)
    return u - fn("log", fn("sum", fn("exp", u)))


def expectation(scores: Term, a: Term) -> Term:
    return fn("sum", softmax(scores) * a)


def random_text(seed: int) -> Case:
    """The text of this seed."""
    rng = random.Random(seed)
    inputs = rng.choices((("x",), ("x", "y"), ("x", "y", "z")), (3, 8, 3))[0]
    w = _Writer(rng, inputs, per_row=rng.random() < 0.08)
    lines = []
    for level in range(rng.choices((1, 2, 3), (82, 15, 3))[0]):
        body = w.term()
        if rng.random() < 0.1:
            body = body + w.term() if rng.random() < 0.5 else body - w.term()
        (fold,) = rng.choices([f for f, _ in _FOLDS], [n for _, n in _FOLDS])
        lines.append(Line(f"t{level}", fn(fold, body)))
        t = name(f"t{level}")
        w.rows.append(w.one((3, lambda t=t: t), (1, lambda t=t: fn("sqrt", fn("abs", t))),
                            (0.5, lambda t=t: fn("log", t))))
    used = set().union(*(names_of(line.value) for line in lines))
    present = tuple(n for n in (*inputs, "r") if n in used)
    return Case(seed, present, tuple(lines), tuple(line.name for line in lines), "floats")
