"""Is a rewritten text equal to the text it came from? Proved by sympy, with Σ linear.

A row sum is taken apart into Σ_k c_k · S[h_k], where h_k are functions of the elements alone and
c_k of row values; S[h] is then one unknown number per h. Conditions are the numbers 1 and 0
(Iverson's bracket), so that `where` is a polynomial. Maxima and other orders are unknown numbers
too: the same one where their arguments are proved equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

import sympy as sp

from fusegen.algebra.laws import is_zero, obligation
from fusegen.algebra.pivot import split, spread
from fusegen.algebra.symbols import Unmodelled, freeze, operations
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation
from fusegen.ir.literals import exact

_MOST = 400  # operations of both texts together: sympy's time grows with them
_NOT_REAL = (sp.oo, -sp.oo, sp.zoo, sp.nan)
_RELATIONS = {"lt": sp.Lt, "le": sp.Le, "gt": sp.Gt, "ge": sp.Ge, "eq": sp.Eq, "ne": sp.Ne}


def prove_equal(name: str, old: g.Node, new: g.Node, statement: str = "") -> Obligation:
    """One obligation: the value `new` is `old` for all finite inputs, in exact arithmetic."""

    def prove() -> bool:
        if operations(old, new) > _MOST:
            return False
        reader = _Reader()
        try:
            return is_zero(reader.read(old) - reader.read(new))
        except (Unmodelled, ArithmeticError, TypeError, ValueError, NotImplementedError):
            return False

    shown = statement or f"{name}: safe text = text as written"
    return obligation("equal to the text", shown, prove)


class _Reader:
    """Nodes as sympy expressions; unknown numbers are shared by both texts."""

    def __init__(self) -> None:
        self.known: dict[g.Node, sp.Expr] = {}
        self.extents: dict[sp.Symbol, g.Extent] = {}
        self.conditions: set[sp.Symbol] = set()
        self.nonzero: dict[sp.Expr, sp.Symbol] = {}  # the condition [e ≠ 0], by e
        self.equals: dict[sp.Symbol, tuple[sp.Expr, sp.Expr]] = {}  # what [a = b] makes b, and b
        self.unknowns: list[tuple[str, sp.Expr, sp.Symbol]] = []

    def read(self, node: g.Node) -> sp.Expr:
        for part in g.topological((node,)):
            if part not in self.known:
                found = self._expression(part)
                if not isinstance(part, g.Literal) and found.has(*_NOT_REAL):
                    raise Unmodelled(part)  # sympy's ∞ obeys no law that a proof could use
                self.known[part] = self._idempotent(found)
        return self.known[node]

    def _idempotent(self, expr: sp.Expr) -> sp.Expr:
        """c² = c for a condition c, and [e ≠ 0]·e = e."""
        if not self.conditions & expr.free_symbols:
            return expr
        expr = expr.replace(
            lambda e: e.is_Pow and e.base in self.conditions and e.exp.is_positive,
            lambda e: e.base,
        )
        return expr.replace(lambda e: e.is_Mul, self._selects_itself) if self.nonzero else expr

    def _selects_itself(self, product: sp.Mul) -> sp.Expr:
        powers = dict(a.as_base_exp() for a in product.args)
        needless = {c for e, c in self.nonzero.items() if c in powers and powers.get(e, 0) > 0}
        return sp.Mul(*(a for a in product.args if a not in needless)) if needless else product

    def _symbol(self, name: str, extent: g.Extent, **sign: bool | None) -> sp.Symbol:
        symbol = sp.Symbol(name, real=True, **sign)
        self.extents[symbol] = extent
        return symbol

    def _unknown(
        self, kind: str, of: sp.Expr, extent: g.Extent = g.Extent.ROW, **sign: bool | None
    ) -> sp.Symbol:
        """The number that `kind` makes of an expression: one for all equal expressions."""
        for known, expression, symbol in self.unknowns:
            if known == kind and (expression == of or is_zero(expression - of)):
                return symbol
        symbol = self._symbol(f"{kind}#{len(self.unknowns)}", extent, **sign)
        self.unknowns.append((kind, of, symbol))
        return symbol

    def _expression(self, node: g.Node) -> sp.Expr:
        match node:
            case g.Input(name=name, magnitude=m):
                return self._symbol(name, g.extent(node), positive=m > 0 or None)
            case g.Index() | g.RowNumber():
                return self._symbol(f"#{type(node).__name__}", g.extent(node), nonnegative=True)
            case g.Inner(arg=arg):  # vectors are any one of their numbers, the same in both texts
                return self._unknown("inner", self.known[arg], g.extent(node),
                                     nonnegative=self.known[arg].is_nonnegative or None)
            case g.Length():
                return self._length(g.Extent.ELEMENT)
            case g.Literal(value=value):
                return _number(value)
            case g.Map():
                return self._map(node)
            case g.Cast(dtype=dtype, arg=arg):
                if dtype.kind == "float":
                    return self.known[arg]
                return self._unknown(f"cast_{dtype.name}", self.known[arg], g.extent(node))
            case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN, arg=arg):
                total = self._sum(self.known[arg], g.extent(arg))
                mean = node.fold is g.Fold.MEAN
                return total / self._length(g.extent(arg)) if mean else total
            case g.Reduce(fold=fold, arg=arg):
                # A scale of 0 is the guard policy's business, as infinities are.
                scale = fold in (g.Fold.MAX, g.Fold.MIN) and self.known[arg].is_nonnegative
                return self._unknown(fold.value, self.known[arg], positive=True if scale else None)
            case g.TopK(k=k, arg=arg, largest=largest):
                return self._unknown(f"{'top' if largest else 'least'}{k}", self.known[arg])
            case g.Part(top=top, field=field):
                return self._unknown(field, self.known[top], g.Extent.LIST)
            case g.Take():
                return self._take(node)
            case g.Own(operator=operator, args=args):
                lifted = sp.Function("lifted")(*(self.known[a] for a in args))
                return self._unknown(operator.key, lifted)
            case g.Field(own=own, name=name):
                return self._unknown(name, self.known[own])
            case _:
                assert_never(node)

    def _length(self, extent: g.Extent) -> sp.Symbol:
        return self._symbol(f"#{extent.name}", g.Extent.ROW, positive=True)

    def _varying(self, expr: sp.Expr, extent: g.Extent) -> tuple[sp.Symbol, ...]:
        found = {s for s in expr.free_symbols if self.extents[s] is extent}
        return tuple(sorted(found, key=lambda s: s.name))

    def _sum(self, expr: sp.Expr, extent: g.Extent) -> sp.Expr:
        total = sp.Integer(0)  # Σ_k c_k · S[h_k]; S[1] is the length
        terms = self._held(self._idempotent(spread(expr)))
        for h, c in split(terms, self._varying(expr, extent)).items():
            total += c * (self._length(extent) if h == 1 else self._unknown(
                f"sum_{extent.name.lower()}", h, positive=True if h.is_positive else None,
                nonnegative=True if h.is_nonnegative else None))
        return total

    def _held(self, total: sp.Expr) -> sp.Expr:
        """[a = b]·f(a) = [a = b]·f(b), in every term of a sum."""
        for condition, (a, b) in self.equals.items():
            if total.has(condition):
                terms = sp.Add.make_args(sp.expand(total))
                total = sp.Add(*(t.subs(a, b) if condition in t.free_symbols else t for t in terms))
        return total

    def _take(self, node: g.Take) -> sp.Expr:
        """f(x) at a column is f of x at that column."""
        expr, at = self.known[node.arg], self.known[node.index]
        there = {
            s: self._unknown(f"at_{at}", s, g.extent(node))
            for s in self._varying(expr, g.Extent.ELEMENT)
        }
        return expr.subs(there, simultaneous=True)

    def _map(self, node: g.Map) -> sp.Expr:
        args = [self.known[a] for a in node.args]
        match node.op:
            case "isnan" | "isinf":
                return sp.Integer(0)  # the algebra speaks of finite reals
            case "isfinite":
                return sp.Integer(1)
            case "and":
                return args[0] * args[1]
            case "or":
                return args[0] + args[1] - args[0] * args[1]
            case "not":
                return 1 - args[0]
            case op if op in _RELATIONS:
                return self._relation(node, args[0], args[1])
            case "where":
                self.conditions |= args[0].free_symbols if args[0].is_Symbol else set()
                return _chosen(*args)
            case _:
                return freeze(node, dict(zip(node.args, args, strict=True)))

    def _relation(self, node: g.Map, left: sp.Expr, right: sp.Expr) -> sp.Expr:
        decided: Mapping[sp.Basic, sp.Expr] = {sp.true: sp.Integer(1), sp.false: sp.Integer(0)}
        relation: Callable[..., sp.Basic] = _RELATIONS[node.op]
        outcome = relation(left - right, 0)
        if outcome in decided:
            return decided[outcome]
        found = self._unknown(node.op, left - right, g.extent(node))
        if node.op == "ne" and isinstance(left - right, sp.Symbol | sp.Abs):
            self.nonzero[left - right] = found
        if node.op == "eq":
            self.conditions.add(found)
            self.equals[found] = self._solved(left, right)
        return found

    def _solved(self, left: sp.Expr, right: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
        """What left = right makes of an element; of all of the left side, if not of one symbol."""
        for x in self._varying(left, g.Extent.ELEMENT):
            slope = sp.diff(left, x)
            if slope in (1, -1) and not right.has(x):
                return x, sp.expand(x - slope * (left - right))
        return left, right


def _number(value: float | int | bool) -> sp.Expr:
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return sp.oo if value > 0 else -sp.oo
    fraction = exact(value)
    return sp.Rational(fraction.numerator, fraction.denominator)


def _chosen(condition: sp.Expr, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """a where the condition is 1, b where it is 0; −∞ is the logarithm of the condition."""
    if condition in (0, 1):
        return a if condition == 1 else b
    if b == -sp.oo and a.is_finite is not False:
        return a + sp.log(condition)
    if a == -sp.oo:
        return b + sp.log(1 - condition)
    if b == sp.oo and a.is_finite is not False:
        return a - sp.log(condition)
    if a == sp.oo:
        return b - sp.log(1 - condition)
    return condition * a + (1 - condition) * b
