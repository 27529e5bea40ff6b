"""What sympy may simplify away, though the text computes it: partial operations and elements.

Over the reals √y² = y, y / y = 1 and exp(log y) = y wherever the left side has a value; in floats
it is NaN for y < 0, or for y = 0. And 0·y = 0, y − y = 0 for every real y, not for NaN. So each
partial operation whose operand may leave the domain must still stand in a basis function, and each
element that a value is computed from must too, or else reach a pivot, which is NaN with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from typing import Literal

import sympy as sp

from fusegen.algebra.choice import Choice
from fusegen.algebra.facts.pivots import outside
from fusegen.algebra.facts.terms import literal
from fusegen.algebra.setting import Setting
from fusegen.algebra.symbols import freeze, is_nonnegative, is_positive, number
from fusegen.ir import graph as g

Kind = Literal["log", "root", "div"]
_LOGS = ("log", "log2", "log1p", "xlogy")
_CONDITIONS = ("lt", "le", "gt", "ge", "eq", "ne", "isnan", "isinf", "isfinite")


@dataclass(frozen=True, slots=True)
class Partial:
    """An operation without a value where its operand is < 0, or 0."""

    kind: Kind
    node: g.Map
    operand: g.Node
    power: float = 1.0  # of the operand, that a division divides by


def what_vanished(
    setting: Setting, terms: Set[sp.Expr], choices: tuple[Choice, ...]
) -> g.Node | None:
    """An operation or element of the text that no basis function computes, if there is one."""
    leaves = setting.symbols
    here = {c.u: c.here for c in choices}
    basis = [h.subs(here, simultaneous=True) for h in terms]
    elements = frozenset(setting.elements.values())
    values = values_of(setting.arg, leaves.keys())
    for p in partials(tuple(n for n in values if n not in leaves)):
        operand = freeze(p.operand, leaves) + (1 if p.node.op == "log1p" else 0)
        if operand.free_symbols & elements and not _computed(p, operand, basis, elements):
            return p.node
    used = {s for h in basis for s in h.free_symbols}
    rows = {c.pivot.node for c in choices if c.pivot is not None}
    rows |= {setting.row(s).node for s in (*setting.ordered, *setting.finite)}
    made_of = {n for r in rows for n in outside(set(), r)}
    return next((n for n in values if n in setting.elements and not isinstance(n, g.Index)
                 and leaves[n] not in used and n not in made_of), None)


def out_of_domain(setting: Setting) -> g.Map | None:
    """The first operation of the text that an element may have no value for."""
    leaves = {*setting.elements, *setting.rows}
    values = tuple(n for n in values_of(setting.arg, leaves) if n not in leaves)
    return next((p.node for p in partials(values) if g.extent(p.operand) is g.Extent.ELEMENT), None)


def lost_in(new: g.Node, term: g.Node) -> g.Node | None:
    """An operation or element of the term that the row value `new` does not compute anywhere but
    in the row values that the term has already; None: all are there."""
    rows = {n for n in g.topological((term,)) if g.extent(n) is g.Extent.ROW}
    values = values_of(term, rows)
    needed: list[g.Node] = [n for n in values if isinstance(n, g.Input)]
    needed += [p.node for p in partials(values) if not g.reductions_of(p.node)]
    kept = set(outside(rows, new))
    return next((n for n in needed if g.extent(n) is g.Extent.ELEMENT and n not in kept), None)


def vanished(graph: g.Graph, lost: g.Node) -> tuple[str, str]:
    """Why a sum without it is not the text's, and what the user can do."""
    name = graph.names.get(lost, "an operation")
    if not isinstance(lost, g.Map):
        why = (f"{name} cancels from its terms, which are then numbers where {name} is infinite or "
               "NaN and the text says NaN.")
        return why, f"To share the sweep, leave {name} out of the sum."
    op = {"div": "the division", "pow": "the power"}.get(lost.op, lost.op)
    why = (f"{op} ({lost.loc.short}) cancels from its terms, which are then numbers where the text "
           "leaves its domain and says NaN or an infinity.")
    return why, ("To share the sweep, write the simplified term, or keep the operand where it has "
                 "a value: fg.abs(y), fg.maximum(y, 1e-6).")


def values_of(term: g.Node, leaves: Set[g.Node]) -> tuple[g.Node, ...]:
    """The nodes that the term's value is computed from, down to the leaves; conditions, which NaN
    only makes false, are none of them."""
    found: dict[g.Node, None] = {}
    todo = [term]
    while todo:
        node = todo.pop()
        if node in found or (isinstance(node, g.Map) and node.op in _CONDITIONS):
            continue
        found[node] = None
        if node not in leaves:
            chosen = isinstance(node, g.Map) and node.op == "where"
            todo += g.operands(node)[1:] if chosen else g.operands(node)
    return tuple(found)


def partials(values: Iterable[g.Node]) -> Iterator[Partial]:
    """The partial operations among them whose operand is not seen to stay in the domain."""
    for node in values:
        if isinstance(node, g.Map):
            for p in _partials_of(node):
                safe = is_nonnegative if p.kind == "root" or node.op == "log1p" else is_positive
                if not safe(p.operand):
                    yield p


def _partials_of(node: g.Map) -> Iterator[Partial]:
    base, last = node.args[0], node.args[-1]
    match node.op:
        case op if op in _LOGS:
            yield Partial("log", node, last)
        case "div":
            yield Partial("div", node, last)
        case "sqrt":
            yield Partial("root", node, base)
        case "rsqrt":
            yield Partial("root", node, base)
            yield Partial("div", node, base, 0.5)
        case "pow":
            power = literal(last)
            if power is None or power != int(power):
                yield Partial("root", node, base)
            if power is None or power < 0:
                yield Partial("div", node, base, -power if power else 1.0)


def _computed(
    partial: Partial, operand: sp.Expr, basis: list[sp.Expr], elements: frozenset[sp.Symbol]
) -> bool:
    """Does a basis function still take the operation of every factor that may leave the domain?"""
    powers = [p for h in basis for p in h.atoms(sp.Pow)]
    match partial.kind:
        case "log":
            rest = sp.Mul(*_doubtful(operand, elements, "log"))
            return rest == 1 or any(_alike(rest, e.args[0], elements)
                                    for h in basis for e in h.atoms(sp.log))
        case "root":
            kept = [p.base for p in powers if not p.exp.is_integer]
            rest = sp.Mul(*_doubtful(operand, elements, "root"))
            return rest == 1 or any(_alike(rest, b, elements) for b in kept)
        case "div":
            by, under = number(partial.power), [p for p in powers if not p.exp.is_nonnegative]
            over = [f.as_base_exp() for f in _doubtful(operand, elements, "div")]
            return all(any(_alike(b, p.base, elements) and not (p.exp + k * by).is_positive
                           for p in under) for b, k in over)


def _doubtful(operand: sp.Expr, elements: frozenset[sp.Symbol], kind: Kind) -> list[sp.Expr]:
    """The factors with an element that are not known to be in the domain."""
    factors = sp.Mul.make_args(sp.factor_terms(operand))
    found = [f for f in factors if f.free_symbols & elements]
    return [f for f in found if not (f.is_nonnegative if kind == "root" else f.is_positive)]


def _alike(a: sp.Expr, b: sp.Expr, elements: frozenset[sp.Symbol]) -> bool:
    """Equal, up to a factor that does not vary over the row?"""
    ratio = a / b
    varies = bool(ratio.free_symbols & elements)
    return not (varies and sp.cancel(ratio).free_symbols & elements)
