"""Random pipelines: parents, element expressions over them, cascades of up to three levels.

Biased towards what can be merged (pivoted powers, exponentials under a maximum, quotients by
positive row values), with enough kinks, products and saturating functions that much cannot.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .terms import Case, Line, Operand, Term, fn, name, names_of

_CONSTANTS = (2, 3, 0.5, 0.25, -1, 1.5, 0.7)


@dataclass(frozen=True, slots=True)
class Parent:
    """A row value that later elements may depend on."""

    value: Term
    of: str  # the input it was reduced from
    kind: str  # max, min, absmax, mean, positive, free
    positive: bool = False


@dataclass
class Writer:
    """The pipeline under construction."""

    rng: random.Random
    inputs: tuple[str, ...]
    lines: list[Line] = field(default_factory=list)
    parents: list[Parent] = field(default_factory=list)
    maps: list[Term] = field(default_factory=list)  # element values with names: softmax, scores
    reduced: list[str] = field(default_factory=list)

    def line(self, wish: str, value: Term, part: int | None = None) -> Term:
        """A new line; its name."""
        taken = {*self.inputs, *(known.name for known in self.lines)}
        free = wish
        while free in taken:
            free = f"{wish}{len(taken)}"
        self.lines.append(Line(free, value, part))
        return name(free)

    def reduce(self, wish: str, fold: str, value: Term, *more: Operand) -> Term:
        """A reduction on a line of its own; the line that is there, if it says the same."""
        for known in self.lines:
            if known.value == fn(fold, value, *more):
                return name(known.name)
        found = self.line(wish, fn(fold, value, *more), 0 if fold == "topk" else None)
        self.reduced.append(str(found))
        return found

    def pick(self, table: Sequence[tuple[float, Callable[[], Term]]]) -> Term:
        """One of the table's makers, by weight."""
        (chosen,) = self.rng.choices([make for _, make in table], [w for w, _ in table])
        return chosen()

    def constant(self) -> float:
        return self.rng.choice(_CONSTANTS)

    def parent(
        self, of: str | None = None, kinds: Sequence[str] = (), *, positive: bool = False
    ) -> Parent | None:
        """A parent of this input and of one of these kinds (of any, by default), or None."""
        fit = [p for p in self.parents if (of is None or p.of == of)
               and (not kinds or p.kind in kinds) and (p.positive or not positive)]
        return self.rng.choice(fit) if fit else None


# ---- parents ----


def _add_parent(w: Writer, z: str) -> None:
    """One more row value of input z."""
    x, kind = name(z), w.rng.choices(
        ("max", "min", "absmax", "mean", "exps", "magnitudes", "squares", "length", "count",
         "weighted", "rms", "range", "middle", "soft"),
        (26, 8, 10, 22, 5, 5, 5, 4, 3, 4, 4, 3, 2, 5))[0]
    add = w.parents.append
    match kind:
        case "max" | "min" | "mean":
            add(Parent(w.reduce({"max": "m", "min": "lo", "mean": "mu"}[kind], kind, x), z, kind))
        case "absmax":
            add(Parent(w.reduce("a", "max", fn("abs", x)), z, "absmax", True))
        case "exps" | "magnitudes" | "squares":
            inner = {"exps": fn("exp", x), "magnitudes": fn("abs", x), "squares": x**2}[kind]
            fold = w.rng.choice(("sum", "mean")) if kind != "exps" else "sum"
            add(Parent(w.reduce("s", fold, inner), z, "positive", True))
        case "length":
            add(Parent(w.line("n", fn("length", x)), z, "length", True))
        case "count":
            add(Parent(w.reduce("c", "count", x > 0.5), z, "free"))
        case "weighted":
            weight = fn("exp", name(w.rng.choice(w.inputs)))
            total = w.reduce("wx", "sum", weight * x)
            add(Parent(w.line("nu", total / w.reduce("w", "sum", weight)), z, "mean"))
        case "rms":
            add(Parent(w.line("r", fn("sqrt", w.reduce("q", "mean", x**2))), z, "positive", True))
        case "range" | "middle":
            high, low = w.reduce("hi", "max", x), w.reduce("lo", "min", x)
            wide = kind == "range"
            value = w.line("span", high - low) if wide else w.line("mid", (high + low) / 2)
            add(Parent(value, z, "positive" if wide else "free", wide))
        case _:
            m = w.reduce("m", "max", x)
            add(Parent(m, z, "max"))
            d = w.reduce("d", "sum", fn("exp", x - m))
            add(Parent(d, z, "positive", True))
            w.maps.append(w.line("p", fn("exp", x - m) / d))


# ---- element expressions ----


def _argument(w: Writer) -> tuple[Term, str]:
    """An element, mostly relative to a parent; and "nonpositive", "nonnegative" or "real"."""
    z = w.rng.choice(w.inputs)
    x, r = name(z), w.rng.random()
    shift = w.parent(z, ("max", "min", "mean", "absmax"))
    scale = w.parent(z, positive=True) or w.parent(positive=True)
    if r < 0.44 and shift:
        if shift.kind == "max" and w.rng.random() < 0.9:
            return x - shift.value, "nonpositive"
        flip = shift.kind == "min" and w.rng.random() < 0.5
        return (shift.value - x, "nonpositive") if flip else (x - shift.value, "real")
    if r < 0.62 and scale:
        return x / scale.value, "real"
    if r < 0.68 and shift and scale:
        return (x - shift.value) / scale.value, "real"
    if r < 0.78 and w.maps:
        return w.rng.choice(w.maps), "nonnegative"
    if r < 0.93:
        return x, "real"
    any_parent = w.parent()
    if any_parent is None or r < 0.92:
        return x * w.constant() + w.constant(), "real"
    return (x * any_parent.value if r < 0.97 else x + any_parent.value), "real"


def _unary(w: Writer) -> Term:
    t, sign = _argument(w)
    tame = sign == "nonpositive"
    c = w.constant()
    return w.pick((
        (4, lambda: t),
        (3.5, lambda: t**2),
        (1.3, lambda: t**3),
        (0.7, lambda: t**4),
        (6 if tame else 1, lambda: fn("exp", t)),
        (2 if tame else 0.2, lambda: fn("exp", t * abs(c))),
        (1 if tame else 0.1, lambda: fn("exp", t / 0.7)),
        (0.4, lambda: fn("log", fn("abs", t))),
        (0.7, lambda: fn("log", fn("exp", t) + 1)),
        (2.2, lambda: fn("abs", t)),
        (1.8, lambda: fn("maximum", t, 0)),
        (0.8, lambda: fn("where", t > 0, t, t * c)),
        (0.9, lambda: fn("where", t > c, 1, 0)),
        (0.3, lambda: fn("where", Term("==", (t, Term("number", (0,)))), 1, 0)),
        (1.6, lambda: fn("sigmoid", t)),
        (1.6, lambda: fn("tanh", t)),
        (0.8, lambda: fn("sin", t)),
        (0.8, lambda: fn("cos", t)),
        (0.5, lambda: fn("sqrt", fn("abs", t))),
        (1, lambda: fn("exp", t**2 * -1)),
        (1, lambda: 1 / (t**2 + 1)),
        (0.3, lambda: fn("floor", t * 4)),
    ))


def _expression(w: Writer) -> Term:
    row = w.parent()
    positive = w.parent(positive=True)
    other = name(w.rng.choice(w.inputs))
    makers = [
        (40, lambda: _unary(w)),
        (22, lambda: _unary(w) * _unary(w)),
        (8, lambda: _unary(w) * other),
        (9, lambda: _unary(w) + _unary(w) * w.constant()),
        (3, lambda: _unary(w) * _unary(w) * _unary(w)),
        (2, lambda: _unary(w) * fn("index", other)),
    ]
    if positive:
        makers += [(8, lambda: _unary(w) / positive.value)]
    if row:
        makers += [(3, lambda: _unary(w) * row.value), (2, lambda: _unary(w) - row.value)]
    if w.maps:
        makers += [(3, lambda: fn("xlogy", w.maps[0], w.maps[0])),
                   (3, lambda: (w.maps[0] - w.constant()) ** 2)]
    return w.pick(makers)


def _ordered(w: Writer) -> Term:
    """What an ordered reduction is taken of: monotone maps more often than not."""
    t, _ = _argument(w)
    return w.pick((
        (4, lambda: t),
        (2.5, lambda: fn("exp", t)),
        (1.5, lambda: fn("sigmoid", t)),
        (1.5, lambda: fn("tanh", t)),
        (1, lambda: t**3),
        (1, lambda: t * _unary(w)),
        (1, lambda: t * 2 - 1),
        (1, lambda: 1 - t),
        (1, lambda: fn("log", fn("exp", t) + 1)),
        (1, lambda: t + fn("exp", t)),
        (1.5, lambda: fn("abs", t)),
        (1.5, lambda: t**2),
        (1, lambda: fn("maximum", t, 0)),
        (1, lambda: fn("sin", t)),
    ))


# ---- pipelines ----


_TRIES = 8


def _related(w: Writer, make: Callable[[Writer], Term]) -> Term:
    """A term that depends on a parent, unless that is slow to come."""
    rows = {line.name for line in w.lines}
    made = make(w)
    for _ in range(_TRIES):
        if names_of(made) & rows:
            break
        made = make(w)
    return made


def _dependent(w: Writer) -> Term | None:
    """One more reduction that depends on parents; a row value, or None for a list."""
    fold = w.rng.choices(("sum", "mean", "max", "min", "topk", "argmax"), (62, 14, 6, 4, 8, 6))[0]
    if fold in ("sum", "mean"):
        return w.reduce("t", fold, _related(w, _expression))
    if fold == "topk":
        w.reduce("best", fold, _related(w, _ordered), w.rng.choice((1, 2, 3)))
        return None
    found = w.reduce("g", fold, _related(w, _ordered))
    return None if fold == "argmax" else found


def random_case(seed: int) -> Case:
    """The pipeline of this seed."""
    rng = random.Random(seed)
    inputs = ("x",) if rng.random() < 0.65 else ("x", "y")
    w = Writer(rng, inputs)
    for _ in range(rng.choices((1, 2, 3), (50, 40, 10))[0]):
        _add_parent(w, rng.choice(inputs))
    depth = rng.choices((1, 2, 3), (60, 28, 12))[0]
    for level in range(depth):
        found = _dependent(w)
        if found is not None and level + 1 < depth:
            w.parents.append(Parent(found, rng.choice(inputs), rng.choice(("free", "mean"))))
    family = "+".join(sorted({p.kind for p in w.parents[:2]}))
    outputs = tuple(dict.fromkeys((*w.reduced, w.reduced[-1])))
    return Case(seed, inputs, tuple(w.lines), outputs, family)
