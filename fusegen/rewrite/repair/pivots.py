"""A pivot of the term's own elements, with the text's row value P in the read-out.

  exponential  Σ w·exp(x − P) = exp(m − P) · Σ w·exp(x − m),           m = max x where w ≠ 0
  scale        Σ w·(x / P)ᵏ   = (a / P)ᵏ · Σ w·(x / a)ᵏ,               a = max |x| where w ≠ 0
  moments      Σ w·(x − P)ᵏ   = Σⱼ C(k,j)·(μ − P)ᵏ⁻ʲ · Σ w·(x − μ)ʲ,   μ = Σ |w|·x / Σ |w|
  shares       Σ p·(1 − p)    for p = exp(x) / Σ exp(x), by the elements beside the greatest
  quotient     Σ (w / P)      = (Σ w) / P,  and products alike
  terms        Σ (a ± b)      = Σ a ± Σ b, each by itself
  guard        Σ where(r, a, 0) = where(r, Σ a, 0) for a condition r of the row

and extremes without row values that are still to come: `extremes.py`.

docs/proofs.md says why each is as accurate as the text; sympy proves each equal to it.
"""

from __future__ import annotations

from fusegen.algebra.facts.pivots import Pivots
from fusegen.algebra.facts.terms import masks_of
from fusegen.algebra.symbols import is_nonnegative
from fusegen.ir import graph as g
from fusegen.ir.walk import asked_once
from fusegen.rewrite.build import fold, length, literal, name_of, op
from fusegen.rewrite.repair.exponential import exponential, is_about_its_extreme
from fusegen.rewrite.repair.extremes import extreme
from fusegen.rewrite.repair.masked import masked_extreme
from fusegen.rewrite.repair.moments import is_dominated, moments
from fusegen.rewrite.repair.product import MOST_FACTORS, moves, taken_apart
from fusegen.rewrite.repair.shares import shares
from fusegen.rewrite.repair.sums import MAX_POWER, Known, Repaired, Sum, name_pivot


def repaired(total: g.Reduce, *, wide: bool) -> Repaired | None:
    """The sum about pivots of its own elements, if its term has the shape, or one of its terms.
    wide: kernels compute in float64."""
    name = name_of(total) or "it"
    if total.fold in (g.Fold.ARGMAX, g.Fold.ARGMIN):
        return masked_extreme(total, name)
    if total.fold in (g.Fold.MAX, g.Fold.MIN):
        return extreme(total, name) or masked_extreme(total, name)
    if total.fold not in (g.Fold.SUM, g.Fold.MEAN):
        return None
    known = Known.of(total, wide=wide)
    return _term(total, known) or _terms(total, known) or _guarded(total, known)


def _guarded(total: g.Reduce, known: Known) -> Repaired | None:
    """Σ where(r > 0, a, 0) = where(r > 0, Σ a, 0) for a condition of the row."""
    match total.arg:
        case g.Map(op="where", args=(c, a, g.Literal(value=0) as zero)) \
                if moves(c) and g.extent(a) is g.Extent.ELEMENT:
            share = fold(total.fold, a, total.loc)
            assert isinstance(share, g.Reduce)
            found = _term(share, known)
            if found is None:
                return None
            value, plain = (op("where", total.loc, c, v, zero) for v in (found.value, found.plain))
            return Repaired(value, plain, found.pivots, found.parts)
        case _:
            return None


def _term(total: g.Reduce, known: Known) -> Repaired | None:
    """Of a sum of products."""
    found = shares(total, known)
    if found is not None:
        return found
    own = Sum(total, taken_apart(total.arg), known)
    term = own.term
    if not own.is_plain or (term.quotients and (term.deviations or len(term.quotients) > 1)):
        return None
    if term.deviations:
        return moments(own)
    if term.quotients:
        return _scale(own) if term.has_plain_exponent else None
    if any(moves(n) for n in term.exponent):
        return exponential(own)
    return _quotient(own) if any(moves(n) for n in (*term.over, *term.under)) else None


def _terms(total: g.Reduce, known: Known) -> Repaired | None:
    """Of a sum of sums, some of which need another pivot."""
    if _addends(total.arg) > MOST_FACTORS:
        return None
    terms = [(_alone(node, total, known), sign) for node, sign in _added(total.arg, 1)]
    if len(terms) < 2 or not any(found for (_, found), _ in terms):
        return None
    value = _added_up([((found or text).value, sign) for (text, found), sign in terms])
    plain = _added_up([((found or text).plain, sign) for (text, found), sign in terms])
    pivots = dict.fromkeys(p for (_, found), _ in terms if found for p in found.pivots)
    parts = [p for (text, found), _ in terms for one in (text, found) if one for p in one.parts]
    return Repaired(value, plain, tuple(pivots), tuple(parts))


def _alone(
    term: g.Node, total: g.Reduce, known: Known
) -> tuple[Repaired, Repaired | None]:
    """One term's share of the total, as the text has it and about another pivot."""
    loc = total.loc
    if g.extent(term) is g.Extent.ROW:  # the same for every element
        count = literal(1.0, loc) if total.fold is g.Fold.MEAN else length(loc)
        value = op("mul", loc, count, term)
        return Repaired(value, value, (), ((term, count),)), None
    share = fold(total.fold, term, loc)
    assert isinstance(share, g.Reduce)
    sound = not g.reductions_of(term) or _is_sound(Sum(share, taken_apart(term), known))
    found = None if sound else _term(share, known)
    return Repaired(share, share, (), ((literal(1.0, loc), share),)), found


def _is_sound(own: Sum) -> bool:
    """Do all differences and quotients of the term have pivots that hold what is measured?"""
    t, facts = own.term, Pivots(masks_of(own.total.arg))
    return own.is_plain and (t.has_plain_exponent or is_about_its_extreme(own)) and all(
        is_dominated(d) for d in t.deviations
    ) and all(facts.spans(q.element, q.row) for q in t.quotients)


def _added(node: g.Node, sign: int) -> list[tuple[g.Node, int]]:
    """The terms that a node adds up, with their signs."""
    match node:
        case g.Map(op="add", args=(a, b)):
            return [*_added(a, sign), *_added(b, sign)]
        case g.Map(op="sub", args=(a, b)):
            return [*_added(a, sign), *_added(b, -sign)]
        case g.Map(op="neg", args=(a,)):
            return _added(a, -sign)
        case _:
            return [(node, sign)]


def _count(node: g.Node) -> int:
    match node:
        case g.Map(op="add" | "sub" | "neg", args=args):
            return sum(map(_addends, args))
        case _:
            return 1


_addends = asked_once(_count, g.operands)
"""As many as `_added` gives."""


def _added_up(terms: list[tuple[g.Node, int]]) -> g.Node:
    ordered = sorted(terms, key=lambda term: -term[1])  # a negative one first is negated
    total: g.Node | None = None
    for node, sign in ordered:
        if total is None:
            total = node if sign > 0 else op("neg", node.loc, node)
        else:
            total = op("add" if sign > 0 else "sub", node.loc, total, node)
    assert total is not None
    return total


def _scale(own: Sum) -> Repaired | None:
    (quotient,) = own.term.quotients
    x, p, k = quotient.element, quotient.row, quotient.power
    size = x if is_nonnegative(x) else own.op("abs", x)
    a = fold(g.Fold.MAX, own.chosen(size, own.known.least), own.loc)
    name_pivot(a, x, f"scale{own.where}")
    power = own.number(int(k) if k == int(k) else k)
    relative = own.op("pow", own.op("div", x, a), power)
    rest = own.sum_where_selected(relative, *own.term.exponentials)
    ratio = own.op("div", a, p)
    scale = own.op("pow", ratio, power)
    plain = own.op("mul", rest, scale)
    if k == int(k) and k <= MAX_POWER:  # (a / P)ᵏ alone may leave the range
        plain = rest
        for _ in range(int(k)):
            plain = own.op("mul", plain, ratio)
    alone = own.op("eq", a, own.number(0.0))
    if not own.term.weights and not own.term.exponentials and (k % 2 == 0 or size is x):
        alone = own.op("or", alone, own.op("isinf", a))
    value = own.op("where", alone, scale, plain)
    return Repaired(own.read_out(own.guarded(value)), own.read(plain), (a,))


def _quotient(own: Sum) -> Repaired | None:
    value = own.sum_of(*own.term.exponentials)
    return Repaired(own.read_out(value), own.read(value))
