"""Facts about the elements of a row, read off the graph: a ≤ b, and |x|ᵏ ≤ C·s.

A fact holds for every finite element, and where a row value takes part, at *every part of the row
that holds the element*: max e is then the maximum of the part. Nothing here is about a whole row.
Roundings are monotone, so what holds of numbers holds of floats, up to the rounding of a root.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fusegen.algebra.facts.terms import EVERYWHERE, Mask, conditions, is_fixed, literal
from fusegen.algebra.symbols import is_nonnegative, is_positive
from fusegen.ir import graph as g

_DEPTH, _DEEP = 12, 8  # operations looked through on the way from a to b, from x to s
_RISING = ("exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt", "tanh", "sigmoid", "erf",
           "floor", "ceil")


def is_nonpositive(node: g.Node) -> bool:
    """Is the value certainly ≤ 0 for every finite input?"""
    match node:
        case g.Map(op="neg", args=(a,)):
            return is_nonnegative(a)
        case g.Map(op="mul" | "div", args=(a, b)):
            return (is_nonpositive(a) and is_nonnegative(b)) or (
                is_nonnegative(a) and is_nonpositive(b))
        case g.Map(op="minimum", args=(a, b)):
            return is_nonpositive(a) or is_nonpositive(b)
        case _:
            value = literal(node)
            return value is not None and value <= 0


def square_root_of(node: g.Node) -> g.Node | None:
    """a where the node is a²."""
    match node:
        case g.Map(op="square", args=(a,)):
            return a
        case g.Map(op="mul", args=(a, b)) if a is b:
            return a
        case g.Map(op="pow", args=(a, b)) if literal(b) == 2:
            return a
        case _:
            return None


@dataclass
class Elements:
    """Facts about the elements for which every condition of the mask is as it says."""

    mask: Mask = EVERYWHERE
    _known: dict[tuple[g.Node, g.Node], bool] = field(default_factory=dict)

    def le(self, a: g.Node, b: g.Node, depth: int = _DEPTH) -> bool:
        """Is a ≤ b at every part of the row that holds the element?"""
        if a is b:
            return True
        if (a, b) not in self._known:
            if depth == 0:
                return False
            self._known[a, b] = False  # while it is looked into; a fact too few is never wrong
            self._known[a, b] = (
                self._signs(a, b) or self._below(a, b, depth - 1) or self._above(a, b, depth - 1)
                or self._alike(a, b, depth - 1)
            )
        return self._known[a, b]

    def _signs(self, a: g.Node, b: g.Node) -> bool:
        low, high = literal(a), literal(b)
        if low is not None and high is not None:
            return low <= high
        return is_nonpositive(a) and is_nonnegative(b)

    def _below(self, a: g.Node, b: g.Node, depth: int) -> bool:
        """By what b is."""
        match b:
            case g.Map(op="maximum", args=(y, z)):
                return self.le(a, y, depth) or self.le(a, z, depth) or self._one_or_square(a, b)
            case g.Map(op="minimum", args=(y, z)):
                return self.le(a, y, depth) and self.le(a, z, depth)
            case g.Map(op="abs", args=(y,)):
                negated = isinstance(a, g.Map) and a.op == "neg" and self.le(y, a.args[0], depth)
                return negated or self.le(a, y, depth)
            case g.Map(op="add", args=(y, z)):
                return (is_nonnegative(z) and self.le(a, y, depth)) or (
                    is_nonnegative(y) and self.le(a, z, depth))
            case g.Map(op="sub", args=(y, z)):
                return is_nonpositive(z) and self.le(a, y, depth)
            case g.Map(op="mul", args=(y, z)):
                return any((literal(c) or 0) >= 1 and is_nonnegative(v) and self.le(a, v, depth)
                           for c, v in ((y, z), (z, y)))
            case g.Map(op="where", args=(c, y, z)):
                return all(self.le(a, v, depth) for v in self.branches(c, y, z))
            case g.Map(op="sqrt"):
                return self.reaches(a, b, 1.0, depth, exactly=True)
            case g.Cast(arg=y) if b.dtype.kind == "float":
                return self.le(a, y, depth)
            case g.Reduce(fold=g.Fold.MAX, arg=e) if g.is_reduction(b):
                return self.le(a, e, depth)
            case g.Reduce(fold=g.Fold.SUM, arg=e) if g.is_reduction(b):
                return is_nonnegative(e) and self.le(a, e, depth)
            case _:
                return False

    def _above(self, a: g.Node, b: g.Node, depth: int) -> bool:
        """By what a is."""
        match a:
            case g.Map(op="minimum", args=(x, z)):
                return self.le(x, b, depth) or self.le(z, b, depth)
            case g.Map(op="maximum", args=(x, z)):
                return self.le(x, b, depth) and self.le(z, b, depth)
            case g.Map(op="neg", args=(g.Map(op="abs", args=(x,)),)):
                return self.le(x, b, depth)
            case g.Map(op="sub", args=(x, z)):
                return is_nonnegative(z) and self.le(x, b, depth)
            case g.Map(op="add", args=(x, z)):
                return (is_nonpositive(z) and self.le(x, b, depth)) or (
                    is_nonpositive(x) and self.le(z, b, depth))
            case g.Map(op="where", args=(c, x, z)):
                return all(self.le(v, b, depth) for v in self.branches(c, x, z))
            case g.Cast(arg=x) if a.dtype.kind == "float":
                return self.le(x, b, depth)
            case g.Reduce(fold=g.Fold.MIN, arg=e) if g.is_reduction(a):
                return self.le(e, b, depth)
            case _:
                return False

    def _alike(self, a: g.Node, b: g.Node, depth: int) -> bool:
        """The same rising operation of lesser operands."""
        if not (isinstance(a, g.Map) and isinstance(b, g.Map) and a.op == b.op):
            return False
        match a.op, a.args, b.args:
            case "neg", (x,), (y,):
                return self.le(y, x, depth)
            case op, (x,), (y,) if op in _RISING:
                return self.le(x, y, depth)
            case "sub", (x, v), (y, w):
                return self.le(x, y, depth) and self.le(w, v, depth)
            case "add" | "maximum" | "minimum", (x, v), (y, w):
                return self._both(x, v, y, w, depth) or self._both(x, v, w, y, depth)
            case "mul", (x, v), (y, w):
                return any(c is d and is_nonnegative(c) and self.le(s, t, depth)
                           for c, s in ((x, v), (v, x)) for d, t in ((y, w), (w, y)))
            case "div", (x, v), (y, w):
                return v is w and is_nonnegative(v) and self.le(x, y, depth)
            case _:
                return False

    def _both(self, x: g.Node, v: g.Node, y: g.Node, w: g.Node, depth: int) -> bool:
        return self.le(x, y, depth) and self.le(v, w, depth)

    def _one_or_square(self, a: g.Node, b: g.Map) -> bool:
        """a ≤ max(a², 1)."""
        y, z = b.args
        return any((literal(c) or 0) >= 1 and self.reaches(a, s, 2.0, 3, exactly=True)
                   for c, s in ((y, z), (z, y)))

    def branches(self, c: g.Node, a: g.Node, b: g.Node) -> tuple[g.Node, ...]:
        """Those values of where(c, a, b) that finite elements under the mask may have."""
        match c:
            case g.Map(op="not", args=(inner,)):
                return self.branches(inner, b, a)
            case g.Map(op="isfinite"):
                return (a,)
            case g.Map(op="isinf" | "isnan"):
                return (b,)
        if (c, True) in self.mask or all(k in self.mask for k in conditions(c, True)):
            return (a,)
        return (b,) if all(k in self.mask for k in conditions(c, False)) else (a, b)

    def reaches(
        self, x: g.Node, s: g.Node, power: float = 1.0, depth: int = _DEEP, *,
        exactly: bool = False, lasting: bool = False,
    ) -> bool:
        """Is |x|^power ≤ C·s at every part of the row that holds x? `exactly`: with C = 1.
        `lasting`: and is s, in floats, 0 only if x is? x² may be so for an x that is not."""
        if depth == 0:
            return False
        bare = x if exactly else _without_scale(x)
        if power == 1 and not (lasting and _has_root(s, x)) and self._magnitude(bare, s, depth - 1):
            return True

        def go(inner: g.Node, k: float = power, floor: g.Node | None = None) -> bool:
            lasts = lasting and not (floor is not None and is_positive(floor))
            return self.reaches(bare, inner, k, depth - 1, exactly=exactly, lasting=lasts)

        through = self._through(s, go, power, exactly)
        if through is not None:
            return through
        base, exponent = _power(s)
        if base is None:
            return bare is s and power == 1 and is_nonnegative(s)
        same = bare is (base if exactly else _without_scale(base))
        here = same and is_nonnegative(s) and exponent == power
        return not (lasting and exponent > 1) and (here or go(base, power / exponent))

    def _through(
        self, s: g.Node, go: Callable[..., bool], power: float, exactly: bool
    ) -> bool | None:
        """Do the parts that s is made of reach as far as it has to? None: it has no such parts."""
        match s:
            case g.Map(op="maximum", args=(a, b)):
                # |x| ≤ max(x², 1), and ≤ C·max(x², c) for any c > 0
                floor = any((literal(c) or 0) >= (1 if exactly else 1e-6) and go(v, 2 * power, c)
                            for v, c in ((a, b), (b, a)))
                return floor or go(a, floor=b) or go(b, floor=a)
            case g.Map(op="minimum", args=(a, b)):
                return go(a) and go(b)
            case g.Map(op="add", args=(a, b)):
                return (is_nonnegative(b) and go(a, floor=b)) or (
                    is_nonnegative(a) and go(b, floor=a))
            case g.Map(op="mul" | "div", args=(a, b)) if not exactly and is_fixed(b):
                return go(a)
            case g.Map(op="mul", args=(a, b)) if not exactly and is_fixed(a):
                return go(b)
            case g.Map(op="where", args=(c, a, b)):
                return all(map(go, self.branches(c, a, b)))
            case g.Cast(arg=a) if s.dtype.kind == "float":
                return go(a)
            case g.Reduce(fold=g.Fold.MAX | g.Fold.SUM, arg=e) if g.is_reduction(s):
                return (s.fold is g.Fold.MAX or is_nonnegative(e)) and go(e)
            case g.Reduce(fold=g.Fold.MEAN, arg=e) if g.is_reduction(s):
                return not exactly and is_nonnegative(e) and go(e)  # C is then the length
        return None

    def _magnitude(self, x: g.Node, s: g.Node, depth: int) -> bool:
        """|x| ≤ s by an order: x ≤ s and −x ≤ s."""
        match s:
            case g.Map(op="abs", args=(y,)) if y is x:
                return True
        match x:
            case g.Map(op="abs", args=(y,)):
                return self.le(x, s, depth) or self.reaches(y, s, 1.0, depth, exactly=True)
            case g.Map(op="where", args=(c, a, b)):
                return all(literal(v) == 0 or self.reaches(v, s, 1.0, depth, exactly=True)
                           for v in self.branches(c, a, b))
        return is_nonnegative(x) and self.le(x, s, depth)


def _has_root(s: g.Node, x: g.Node) -> bool:
    """Does s take a root of anything but what x is made of?"""
    made = {n for n in g.topological((s,)) if isinstance(n, g.Map) and n.op in ("sqrt", "pow")}
    return bool(made - set(g.topological((x,))))


def _power(s: g.Node) -> tuple[g.Node | None, float]:
    """(a, k) where s = |a|ᵏ or aᵏ with k > 0."""
    match s:
        case g.Map(op="abs", args=(a,)):
            return a, 1.0
        case g.Map(op="sqrt", args=(a,)):
            return a, 0.5
        case g.Map(op="pow", args=(a, c)) if (literal(c) or 0) > 0:
            return a, literal(c) or 1.0
        case _:
            return square_root_of(s), 2.0


def _without_scale(x: g.Node) -> g.Node:
    """y where x = c·y with c known before the row is read."""
    for _ in range(_DEPTH):
        match x:
            case g.Map(op="mul" | "div", args=(a, b)) if is_fixed(b):
                x = a
            case g.Map(op="mul", args=(a, b)) if is_fixed(a):
                x = b
            case g.Map(op="neg", args=(a,)):
                x = a
            case _:
                return x
    return x
