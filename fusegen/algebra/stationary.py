"""Proof that an output does not move with a row value: its share of the gradient is exactly 0.

A stabiliser, such as the maximum of softmax or the scale of a norm, cancels out of the result. Then
d(output)/d(stabiliser) ≡ 0 over finite reals, so its one-hot gradient is not built. A scale that is
divided by is taken as > 0: at its least value, 0, it is flat, and 0 is a subgradient.

The total derivative goes through every row sum: Σ is an opaque linear function, D(Σ e) = Σ D(e),
and factors without an element leave it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import sympy as sp

from fusegen.algebra.laws import is_zero, obligation
from fusegen.algebra.symbols import Unmodelled, counts_as_positive, divisors, freeze, operations
from fusegen.ir import graph as g
from fusegen.ir.derivation import Obligation

_MOST = 200  # operations of the output: sympy's time grows with them


def stationary(output: g.Node, pivot: g.Reduce, names: Mapping[g.Node, str]) -> Obligation:
    """Is d(output)/d(pivot) identically 0? Status "not proved" says only that it was not shown."""

    def prove() -> bool:
        if operations(output) > _MOST:
            return False
        try:
            total = _Total(output, pivot, names)
            return is_zero(total.derivative(total.value(output)))
        except (Unmodelled, ArithmeticError, TypeError, ValueError, NotImplementedError,
                RecursionError):
            return False

    what = f"∂{names[output]}/∂{names[pivot]} = 0"
    return obligation("stationary", what, prove)


class _Total:
    """Values as sympy expressions, with one symbol for every linear functional of a row."""

    def __init__(self, output: g.Node, pivot: g.Reduce, names: Mapping[g.Node, str]) -> None:
        self.names = names
        self.pivot = pivot
        self.divisors = divisors(output)
        self.known: dict[g.Node, sp.Expr] = {}
        self.elements: list[sp.Symbol] = []
        self.length = sp.Symbol("n_cols", positive=True, integer=True)
        self.functionals: dict[tuple[str, sp.Expr], sp.Symbol] = {}
        self.inside: dict[sp.Symbol, tuple[str, sp.Expr]] = {}

    def value(self, output: g.Node) -> sp.Expr:
        moving: set[g.Node] = {self.pivot}
        for node in g.topological((output,)):
            if any(a in moving for a in g.operands(node)):
                moving.add(node)
            if _is_infinite(node) is not None:
                continue
            try:
                self.known[node] = self._value(node)
            except (Unmodelled, KeyError):  # masked scores: any number does that does not move
                if node in moving or g.extent(node) is not g.Extent.ELEMENT:
                    if not isinstance(node, g.Literal):
                        raise Unmodelled(node) from None
                else:
                    self.known[node] = self._symbol(node)
                    self.elements.append(self.known[node])
        return self.known[output]

    def _value(self, node: g.Node) -> sp.Expr:
        match node:
            case g.Input() | g.Index():
                found = self._symbol(node)
                if g.extent(node) is g.Extent.ELEMENT:
                    self.elements.append(found)
                return found
            case g.Length():
                return self.length
            case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN, arg=arg) if g.is_reduction(node):
                total = self._linear("sum", self.known[arg])
                return total / self.length if node.fold is g.Fold.MEAN else total
            case g.Reduce():
                if node is not self.pivot and self.pivot in g.topological((node.arg,)):
                    raise Unmodelled(node)
                return self._symbol(node)
            case g.Take(arg=arg, index=index) if g.extent(index) is g.Extent.ROW:
                return self._linear(self.names[index], self.known[arg])
            case g.Map(op="where", args=(c, a, b)) if (holds := _is_infinite(c)) is not None:
                return self.known[a if holds else b]
            case _:
                return freeze(node, {a: self.known[a] for a in g.operands(node)})

    def _symbol(self, node: g.Node) -> sp.Symbol:
        positive = True if counts_as_positive(node, self.divisors) else None
        return sp.Symbol(self.names[node], real=True, positive=positive)

    def derivative(self, expr: sp.Expr) -> sp.Expr:
        """The total derivative with respect to the pivot."""
        found = sp.diff(expr, self.known[self.pivot])
        for symbol in sorted(expr.free_symbols & set(self.inside), key=lambda s: str(s.name)):
            kind, inner = self.inside[symbol]
            found += sp.diff(expr, symbol) * self._linear(kind, self.derivative(inner))
        return found

    def _linear(self, kind: str, inner: sp.Expr) -> sp.Expr:
        """Σ or an element's pick of `inner`, written over functionals of pure element terms."""
        total = sp.Integer(0)
        for term in sp.Add.make_args(_spread(inner)):
            factor, element = term.as_independent(*self.elements, as_Add=False)
            if element == 1:
                total += factor * (self.length if kind == "sum" else 1)
            else:
                total += factor * self._functional(kind, element)
        return total

    def _functional(self, kind: str, element: sp.Expr) -> sp.Symbol:
        key = (kind, element)
        if key not in self.functionals:
            positive = True if element.is_positive else None
            name = f"{kind}_of_{len(self.functionals)}"
            self.functionals[key] = sp.Symbol(name, real=True, positive=positive)
            self.inside[self.functionals[key]] = key
        return self.functionals[key]


def _spread(expr: sp.Expr) -> sp.Expr:
    """A sum of products in which exp(x − m) stays whole: split, Σ exp(x − m) would be lost."""
    logs = sp.expand_log(expr, force=False)
    return sp.expand(logs, power_exp=False, power_base=False, log=False)


def _is_infinite(condition: g.Node) -> bool | None:
    """Whether the condition holds, if it compares a row value with an infinity: of finite numbers
    it says the same always, and only what rows of nothing return."""
    match condition:
        case g.Map(op="eq" | "ne" as op, args=(a, g.Literal(value=value))) if (
                g.extent(a) is g.Extent.ROW and math.isinf(value)):
            return op == "ne"
    return None
