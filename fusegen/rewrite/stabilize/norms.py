"""Norms: (Σ |x|^p)^(1/p) overflows, or is 0, long before the norm is; a·(Σ |x/a|^p)^(1/p) not."""

from __future__ import annotations

from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.rewrite.build import call_it, fold, literal, name_of, op, over, substituted
from fusegen.rewrite.exponent import constant


def scaled_norm(node: g.Map) -> tuple[g.Node, g.Node] | None:
    """(the norm scaled by a = max |x|, its sum); None if the root is not of such a sum.

    A row of zeros keeps 0, a row with an infinity keeps it, as in BLAS nrm2.
    """
    root = _root(node)
    if root is None:
        return None
    total = _sum_inside(root[0])
    if total is None:
        return None
    found = _power(total.arg)
    if found is None or found[1] * abs(root[1]) != 1 or g.reductions_of(found[0]):
        return None
    x, loc = found[0], node.loc
    magnitude = op("abs", loc, x)
    a, name = fold(g.Fold.MAX, magnitude, loc), name_of(x)
    call_it(a, f"{name}_scale" if name else "scale")
    by_magnitude = magnitude in g.topological((total.arg,))
    # The algebra knows what was reduced: |x − y| as an element, where x − y would be two.
    element = x if isinstance(x, g.Input) and not by_magnitude else magnitude
    scaled_arg = substituted(total.arg, magnitude if by_magnitude else x, over(element, a, loc))
    small = fold(total.fold, scaled_arg, total.loc)
    inside = substituted(root[0], total, small)
    scaled = op("mul", loc, a, _rooted(node, inside, root[1]))
    zero = op("eq", loc, a, literal(0, loc))
    norm = op("where", loc, op("or", loc, zero, op("isinf", loc, a)), a, scaled)
    return (norm if root[1] > 0 else op("div", loc, literal(1.0, loc), norm)), small


def _root(node: g.Map) -> tuple[g.Node, Fraction] | None:
    match node:
        case g.Map(op="sqrt", args=(a,)):
            return a, Fraction(1, 2)
        case g.Map(op="rsqrt", args=(a,)):
            return a, Fraction(-1, 2)
        case g.Map(op="pow", args=(a, power)) if (c := constant(power)):
            return a, c
        case _:
            return None


def _rooted(node: g.Map, inside: g.Node, power: Fraction) -> g.Node:
    """The positive root of the text, of what is inside now."""
    if node.op in ("sqrt", "rsqrt"):
        return op("sqrt", node.loc, inside)
    exponent = node.args[1] if power > 0 else literal(float(-power), node.loc)
    return op("pow", node.loc, inside, exponent)


def _sum_inside(node: g.Node) -> g.Reduce | None:
    """The sum of a row value that is a multiple of it."""
    match node:
        case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN) if g.is_reduction(node):
            return node
        case g.Map(op="div", args=(a, b)) if not g.reductions_of(b):
            return _sum_inside(a)
        case g.Map(op="mul", args=(a, b)) if not g.reductions_of(b):
            return _sum_inside(a)
        case g.Map(op="mul", args=(a, b)) if not g.reductions_of(a):
            return _sum_inside(b)
        case _:
            return None


def _power(node: g.Node) -> tuple[g.Node, Fraction] | None:
    """(x, p) if the element is |x|^p or an even power of x."""
    match node:
        case g.Map(op="square", args=(x,)):
            return _inside(x), Fraction(2)
        case g.Map(op="mul", args=(x, y)) if x is y:
            return _inside(x), Fraction(2)
        case g.Map(op="pow", args=(x, power)) if (p := constant(power)) is not None and p > 1:
            of_magnitude = isinstance(x, g.Map) and x.op == "abs"
            return (_inside(x), p) if of_magnitude or p % 2 == 0 else None
        case _:
            return None


def _inside(x: g.Node) -> g.Node:
    return x.args[0] if isinstance(x, g.Map) and x.op == "abs" else x
