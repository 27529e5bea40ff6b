"""Sums that may leave the range before their pivot is known: nothing is left of them then.

A row that is padded with the least number of its type has −3.4e38 for its maximum until the first
other element comes. Of Σ x·exp(x − max x) two such terms are −∞, and the factor that takes them to
the row's own maximum is 0: the text, whose weights are 0 there, adds nothing. IEEE's −∞ · 0 is NaN.

An infinity among the elements is another matter: 0 · ∞ is the text's NaN. So these are sums whose
terms are infinite with the pivot's own elements alone: then the pivot is infinite, too, or the
weight is 0 at once and the term NaN.
"""

from __future__ import annotations

from collections.abc import Iterator

from fusegen.ir import graph as g
from fusegen.ir.derivation import Basis, Dependent, Shifted
from fusegen.ir.expr import Call, Expr, Lit, Var, factors_of, variables, walk

_CARRIES = frozenset(("add", "sub", "mul", "rounded_mul", "neg", "abs", "square"))
"""Infinite or NaN where an operand is infinite."""
_FINITE = _CARRIES | frozenset((
    "zero_wins", "maximum", "minimum", "tanh", "sigmoid", "erf", "sign", "floor", "ceil", "round",
    "where", "lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not",
))
"""Within their range of finite operands."""


def forgetful(entry: Dependent, graph: g.Graph) -> frozenset[int]:
    """Positions of the basis functions whose sums are."""
    return frozenset(k for k, basis in enumerate(entry.basis) if _forgets(basis, entry, graph))


def _forgets(basis: Basis, entry: Dependent, graph: g.Graph) -> bool:
    shifts = {s.name: s for s in entry.shifts}
    weights, others = _weighed(basis.lift)
    for s in _weighing(weights, shifts):
        node = graph[s.atom]
        elements = _carrying(node)
        own = {graph.names[n] for n in elements} | {
            d.name for d in entry.shifts  # their distances, from whatever pivot
            if d.action == "shift" and not d.unit and graph[d.atom] in elements}
        if _reaches(graph[s.pivot], node) and all(_is_finite(e, own) for e in others):
            # u·exp(u) is never far from 0.
            bounded = {n for e in others for n in variables(e)} <= {s.name}
            return not bounded and all(_vanishes(factor) for _, factor in basis.transport)
    return False


def _weighed(lift: Expr) -> tuple[list[Expr], list[Expr]]:
    """Exponentials, and what they weigh; of what a condition takes."""
    match lift:
        case Call(op="where", args=(_, taken, Lit(value=0)) | (_, Lit(value=0), taken)):
            return _weighed(taken)
    factors = factors_of(lift)
    weights: list[Expr] = [f for f in factors if isinstance(f, Call) and f.op == "exp"]
    return weights, [f for f in factors if f not in weights]


def _weighing(weights: list[Expr], shifts: dict[str, Shifted]) -> Iterator[Shifted]:
    """The distances that weights are exponentials of."""
    for weight in weights:
        for e in walk(weight):
            if isinstance(e, Var) and e.name in shifts and shifts[e.name].action == "shift":
                yield shifts[e.name]


def _carrying(node: g.Node) -> set[g.Node]:
    """Elements that make this one infinite, or NaN, where they are infinite."""
    found: set[g.Node] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        if one in found:
            continue
        found.add(one)
        match one:
            case g.Map(op=op, args=args) if op in _CARRIES:
                todo += args
            case g.Map(op="div", args=(over, _)):
                todo.append(over)
    return found


def _reaches(pivot: g.Node, element: g.Node) -> bool:
    """Is it an extreme of these elements, infinite where the element is beyond all numbers?"""
    match pivot:
        case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=arg):
            return arg == element
        case g.Map(op="maximum" | "minimum", args=args):
            return any(_reaches(a, element) for a in args)
        case _:
            return False


def _is_finite(expr: Expr, own: set[str]) -> bool:
    """Is it made of such elements and of numbers, with nothing that is infinite of finite ones?"""
    return all(
        e.op in _FINITE if isinstance(e, Call) else isinstance(e, Lit) or e.name in own
        for e in walk(expr)
    )


def _vanishes(factor: Expr) -> bool:
    """Is it a multiple of an exponential?"""
    match factor:
        case Call(op="mul" | "zero_wins", args=args):
            return any(_vanishes(a) for a in args)
        case _:
            return isinstance(factor, Call) and factor.op == "exp"
