"""Raw moments: Σ F·p·q − Σ F·p · Σ F·q / Σ F cancels, Σ F·(p − μp)·(q − μq) does not.

F are weights (none: Σ F is the number of columns), so this is variance and covariance, weighted
or not, divided by n, n − 1 or anything else that multiplies both terms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from fusegen.ir import graph as g
from fusegen.rewrite.build import call_it, fold, literal, name_of, op, over, substituted
from fusegen.rewrite.exponent import constant, linear, spelled

Factors = frozenset[tuple[g.Node, int]]  # a product of elements: each with its power
_NOTHING: Factors = frozenset()
_MAX_DEGREE = 8  # of a product whose pairs are tried


@dataclass(frozen=True)
class _Product:
    """c · Π atom^power of row values; sums are atoms by what they sum."""

    factor: Fraction
    powers: Counter[Factors | g.Node]
    sums: dict[Factors, g.Reduce]


def centred(node: g.Map) -> tuple[g.Node, g.Node] | None:
    """(the difference with central moments, one of their sums); None if nothing would cancel."""
    terms = linear(node)
    for first, c in terms.items():
        for second, d in terms.items():
            found = _replacement(first, second, -d / c) if c * d < 0 else None
            if found is not None:
                kept = {found[0] if t is first else t: k for t, k in terms.items()
                        if t is not second}
                return spelled(kept, node.loc), found[1]
    return None


def _replacement(
    first: g.Node, second: g.Node, ratio: Fraction
) -> tuple[g.Node, g.Node] | None:
    """`first` with a central moment, if it is the raw one that `second` · ratio corrects."""
    a, b = _read(first), _read(second)
    if a.factor != b.factor * ratio:
        return None
    sums = {**a.sums, **b.sums}
    for raw, node in a.sums.items():
        for p, q, weights in _pairs(_factors(node.arg)):
            parts = (_key(weights), _key(weights + Counter([p])), _key(weights + Counter([q])))
            expected = Counter(a.powers)
            expected.subtract([raw, parts[0]])
            expected.update(parts[1:])
            if _nonzero(expected) == _nonzero(b.powers) and sums.keys() >= {*parts[1:]}:
                central = _central(p, q, weights, sums, node)
                return substituted(first, node, central), central
    return None


def _nonzero(powers: Counter[Factors | g.Node]) -> dict[Factors | g.Node, int]:
    return {k: v for k, v in powers.items() if v}


def _pairs(factors: Counter[g.Node]) -> Iterator[tuple[g.Node, g.Node, Counter[g.Node]]]:
    """Two factors, and the others: in the order of the text."""
    if factors.total() > _MAX_DEGREE:
        return
    flat = list(factors.elements())
    for i, p in enumerate(flat):
        for j in range(i + 1, len(flat)):
            yield p, flat[j], Counter(flat[:i] + flat[i + 1 : j] + flat[j + 1 :])


def _key(factors: Counter[g.Node]) -> Factors:
    return frozenset(factors.items())


def _central(
    p: g.Node, q: g.Node, weights: Counter[g.Node], sums: dict[Factors, g.Reduce], raw: g.Reduce
) -> g.Node:
    loc = raw.loc

    def deviation(element: g.Node) -> g.Node:
        if weights:
            mean = over(sums[_key(weights + Counter([element]))], sums[_key(weights)], loc)
        else:
            mean = fold(g.Fold.MEAN, element, loc)
        name = name_of(element)
        return op("sub", loc, element, call_it(mean, f"{name}_mean") if name else mean)

    if p is q:
        product = op("pow", loc, deviation(p), literal(2, loc))
    else:
        product = op("mul", loc, deviation(p), deviation(q))
    for node in weights.elements():
        product = op("mul", loc, node, product)
    return fold(raw.fold, product, loc)


def _read(node: g.Node) -> _Product:
    """A row value as a product."""
    known: dict[g.Node, _Product] = {}
    for part in g.topological((node,)):
        if g.extent(part) is g.Extent.ROW:
            known[part] = _product(part, known)
    return known[node]


def _product(node: g.Node, known: Mapping[g.Node, _Product]) -> _Product:
    c = constant(node)
    if c is not None:
        return _Product(c, Counter(), {})
    match node:
        case g.Length():
            return _Product(Fraction(1), Counter([_NOTHING]), {})
        case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN, arg=arg) if g.is_reduction(node):
            inside = _key(_factors(arg))
            powers: Counter[Factors | g.Node] = Counter([inside])
            if node.fold is g.Fold.MEAN:
                powers.subtract([_NOTHING])
            return _Product(Fraction(1), powers, {inside: node})
        case g.Map(op="mul", args=(a, b)):
            return _times(known[a], known[b], 1)
        case g.Map(op="div", args=(a, b)) if known[b].factor:
            return _times(known[a], known[b], -1)
        case g.Map(op="square", args=(a,)) | g.Map(op="pow", args=(a, g.Literal(value=2))):
            return _times(known[a], known[a], 1)
        case _:
            return _Product(Fraction(1), Counter([node]), {})


def _times(a: _Product, b: _Product, sign: int) -> _Product:
    powers = Counter(a.powers)
    for atom, power in b.powers.items():
        powers[atom] += sign * power
    factor = a.factor * (b.factor if sign > 0 else 1 / b.factor)
    return _Product(factor, powers, {**a.sums, **b.sums})


def _factors(node: g.Node) -> Counter[g.Node]:
    """An element as a product."""
    known: dict[g.Node, Counter[g.Node]] = {}
    for part in g.topological((node,)):
        match part:
            case g.Map(op="mul", args=(a, b)):
                known[part] = known[a] + known[b]
            case g.Map(op="square", args=(a,)) | g.Map(op="pow", args=(a, g.Literal(value=2))):
                known[part] = known[a] + known[a]
            case _:
                known[part] = Counter([part])
    return known[node]
