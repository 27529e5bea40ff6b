"""Facts about row values while the row is read: which only grow, which dominate an element, which
bound it, which are its own mean.

A *part* of a row is any set of its elements, as a tree of merges makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from fusegen.algebra.facts.elements import Elements
from fusegen.algebra.facts.terms import is_fixed, literal
from fusegen.algebra.symbols import is_nonnegative
from fusegen.ir import graph as g

_RISING = ("exp", "exp2", "expm1", "log", "log1p", "log2", "sqrt", "tanh", "sigmoid", "erf")


class Pivots(Elements):
    """Facts about row values beside the elements of one sum."""

    def dominates(self, x: g.Node, p: g.Node) -> int:
        """+1: x ≤ p at every part of the row that holds x, and p only grows;
        −1: x ≥ p there, and p only falls; 0: neither is seen."""
        if self.le(x, p) and grows(p):
            return 1
        return -1 if self.le(p, x) and falls(p) else 0

    def spans(self, x: g.Node, s: g.Node) -> bool:
        """Is |x| ≤ C·s at every part of the row that holds x, while s only grows? A mean of
        magnitudes may fall, by as much as the row has elements. And s is 0 only where x is."""
        return self.reaches(x, s, lasting=True) and grows(s, means=True)

    def is_filled(self, p: g.Node) -> bool:
        """May p be infinite for finite rows some element of which the mask takes?"""
        return any(isinstance(n, g.Literal) and abs(n.value) == inf
                   for n in outside(set(), p, self.branches))

    def is_of_taken(self, x: g.Node, p: g.Node) -> bool:
        """Is p the extreme of x, or of x wherever the mask takes an element?"""
        match p:
            case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=e) if g.is_reduction(p):
                return e is x or (isinstance(e, g.Map) and e.op == "where"
                                  and self.branches(*e.args) == (x,))
            case _:
                return False

    def is_zero_of_equals(self, x: g.Node, s: g.Node) -> bool:
        """Is s 0 only where all x are one number: by their sizes, by how they deviate from their
        mean, or by the range of them? Squares of numbers below 2⁻⁷⁵, 0 in float32, are not
        thought of."""
        ends = s.args if isinstance(s, g.Map) else ()
        deviations = (n for n in g.topological((s,)) if _is_deviation(x, n))
        return any(self.reaches(e, s, power) for e in (x, *deviations) for power in (1.0, 2.0)) \
            or any(self.encloses(x, end, s) for end in ends)

    def encloses(self, x: g.Node, p: g.Node, w: g.Node) -> bool:
        """Is w a range that holds x at every part of the row, with p one of its ends?"""
        match w:
            case g.Map(op="sub", args=(high, low)):
                ends = self.dominates(x, high) == 1 and self.dominates(x, low) == -1
                return ends and (p is high or p is low)
            case g.Map(op="add" | "maximum", args=(a, b)):
                return any(is_fixed(c) and is_nonnegative(c) and self.encloses(x, p, v)
                           for v, c in ((a, b), (b, a)))
            case g.Map(op="mul" | "div", args=(a, c)) if is_fixed(c):
                return self.encloses(x, p, a)
            case g.Map(op="mul", args=(c, a)) if is_fixed(c):
                return self.encloses(x, p, a)
            case _:
                return False


def grows(p: g.Node, depth: int = 12, *, means: bool = False) -> bool:
    """Can the row value only grow as elements are added? `means`: or fall as a mean of values ≥ 0
    does, by no more than the count of elements rises."""
    return _moves(p, 1, depth, means)


def falls(p: g.Node, depth: int = 12) -> bool:
    """Can it only fall?"""
    return _moves(p, -1, depth, False)


def _moves(p: g.Node, way: int, depth: int, means: bool) -> bool:
    if is_fixed(p):
        return True
    if depth == 0:
        return False
    if isinstance(p, g.Reduce) and g.is_reduction(p):
        return _folds(p, way, means)

    def go(inner: g.Node, same: int = 1) -> bool:
        return _moves(inner, way * same, depth - 1, means)

    match p:
        case g.Map(op="maximum" | "minimum" | "add", args=(a, b)):
            return go(a) and go(b)
        case g.Map(op="sub", args=(a, b)):
            return go(a) and go(b, -1)
        case g.Map(op="neg", args=(a,)):
            return go(a, -1)
        case g.Map(op="mul" | "div" | "pow", args=(a, b)):
            return _scaled(p.op, a, b) and go(b if is_fixed(a) else a) and (
                p.op == "mul" or is_fixed(b)) and (is_fixed(a) or is_fixed(b) or go(b))
        case g.Map(op="abs" | "square", args=(a,)):
            return is_nonnegative(a) and go(a)
        case g.Map(op="where", args=(c, a, b)):
            return _stays(c) and all(go(v) for v in Elements().branches(c, a, b))
        case g.Map(op=op, args=(a,)) if op in _RISING:
            return go(a)
        case g.Cast(arg=a) if p.dtype.kind == "float":
            return go(a)
        case _:
            return False


def _folds(p: g.Reduce, way: int, means: bool) -> bool:
    match p.fold:
        case g.Fold.MAX:
            return way > 0
        case g.Fold.MIN:
            return way < 0
        case g.Fold.SUM:
            return way > 0 and is_nonnegative(p.arg)
        case g.Fold.MEAN:
            return means and way > 0 and is_nonnegative(p.arg)
        case _:
            return False


def _scaled(op: str, a: g.Node, b: g.Node) -> bool:
    """Does a·b, a / b or aᵇ rise with its operand that is not fixed (with both, if none is)?"""
    if op == "pow":
        return is_nonnegative(a) and (literal(b) or 0) > 0
    if is_fixed(b):
        return is_nonnegative(b)
    if is_fixed(a):
        return op == "mul" and is_nonnegative(a)
    return op == "mul" and is_nonnegative(a) and is_nonnegative(b)


def _stays(c: g.Node) -> bool:
    """Has the condition one answer while the row is read, if its elements are finite?"""
    match c:
        case g.Map(op="not", args=(a,)):
            return _stays(a)
        case g.Map(op="isinf" | "isnan" | "isfinite"):
            return True
        case _:
            return is_fixed(c)


def is_mean_of(x: g.Node, p: g.Node) -> bool:
    """Is p the plain mean of the very element x?"""
    match p:
        case g.Reduce(fold=g.Fold.MEAN, arg=a):
            return a is x
        case g.Map(op="div", args=(g.Reduce(fold=g.Fold.SUM, arg=a), count)):
            while isinstance(count, g.Cast):
                count = count.arg
            return a is x and isinstance(count, g.Length)
        case g.Cast(arg=a) if p.dtype.kind == "float":
            return is_mean_of(x, a)
        case _:
            return False


def _is_deviation(x: g.Node, node: g.Node) -> bool:
    """x − mean x"""
    return isinstance(node, g.Map) and node.op == "sub" and node.args[0] is x and is_mean_of(
        *node.args)


def is_attained(x: g.Node, p: g.Node) -> bool:
    """Is x - p NaN at some element wherever p is infinite, or p never infinite?"""
    match p:
        case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=e) if g.is_reduction(p):
            return e is x or (_is_masked(x, e) and not is_filled(x, p))
        case g.Map(op="maximum" | "minimum" | "add", args=(a, b)):
            return any(literal(c) is not None and is_attained(x, v) for v, c in ((a, b), (b, a)))
        case g.Map(op="sub", args=(a, c)):
            return literal(c) is not None and is_attained(x, a)
        case g.Map(op="where", args=(c, a, b)):
            kept = Elements().branches(c, a, b)
            return len(kept) == 1 and all(literal(v) is not None or is_attained(x, v)
                                          for v in (a, b))
        case g.Cast(arg=a) if p.dtype.kind == "float":
            return is_attained(x, a)
        case _:
            return is_mean_of(x, p)


def _is_masked(x: g.Node, e: g.Node) -> bool:
    """where(c, x, number)"""
    if not (isinstance(e, g.Map) and e.op == "where"):
        return False
    _, a, b = e.args
    return any(v is x and isinstance(c, g.Literal) for v, c in ((a, b), (b, a)))


Branches = Callable[[g.Node, g.Node, g.Node], tuple[g.Node, ...]]


def _both(_: g.Node, a: g.Node, b: g.Node) -> tuple[g.Node, ...]:
    return a, b


def is_filled(x: g.Node | None, p: g.Node) -> bool:
    """Is p infinite for some finite rows: where a mask leaves nothing but an infinite number? That
    of x itself does not count: x is infinite there, too."""
    held = set() if x is None else {x}
    return any(isinstance(n, g.Literal) and abs(n.value) == inf for n in outside(held, p))


def outside(held: set[g.Node], p: g.Node, branches: Branches = _both) -> Iterator[g.Node]:
    """Every node that p is made of, but those held and what they are made of; which elements are
    chosen does not matter, but for the `branches` of choices that are."""
    todo, seen = [p], set(held)
    while todo:
        node = todo.pop()
        if node not in seen:
            seen.add(node)
            yield node
            match node:
                case g.Map(op="where", args=(c, a, b)):
                    todo += branches(c, a, b)
                case _:
                    todo += g.operands(node)


def is_made_of(x: g.Node, s: g.Node) -> bool:
    """Does the row value depend on no element but x, so that it is infinite only where x is?"""
    return not any(isinstance(n, g.Input | g.Own | g.Field | g.TopK) for n in outside({x}, s))
