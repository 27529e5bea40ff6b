"""The reverse sweep: adjoints of every node from those of the outputs, last node first.

  y = f(a, b, …) elementwise   ā += ȳ · ∂f/∂a;  where a is a row value, ā += Σ ȳ · ∂f/∂a
  r = Σ e                      ē += r̄
  r = mean e                   ē += r̄ / n
  r = max e, min e             ē += r̄ · [e = r] / (number of ties), unless r is proved to cancel
  r = e at column i            ē += r̄ · [column = i]
  s = Σ_i v_i, a vector's      v̄ += s̄;  where y is a vector and a a number, ā += Σ_i ȳ · ∂y/∂a

Griewank & Walther 2008, Evaluating Derivatives, chapter 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn, assert_never

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_condition
from fusegen.ir.derivation import Obligation
from fusegen.ir.digest import attributes
from fusegen.ir.errors import InternalError, TraceError
from fusegen.lang import lang as fg
from fusegen.lang.lines import here, written_at
from fusegen.lang.value import Operand, Value, builder, lift
from fusegen.rewrite.adjoint import terms as tm
from fusegen.rewrite.adjoint.rules import RULES
from fusegen.rewrite.adjoint.terms import Terms
from fusegen.rewrite.adjoint.text import Writer

_MANY = 8  # terms; an adjoint with more becomes one value


def active_nodes(order: Sequence[g.Node], wanted: Sequence[g.Node]) -> set[g.Node]:
    """The nodes whose value moves, in floating point, with one of `wanted`."""
    active = set(wanted)
    for node in order:
        if any(a in active for a in g.operands(node)) and _passes(node, active):
            active.add(node)
    return active


def reached_nodes(order: Sequence[g.Node], wanted: Sequence[g.Node]) -> set[g.Node]:
    """The floats in which one of `wanted` takes part as a float, if only by its rounding or sign:
    they have a derivative by it, which may be 0."""
    reached = set(wanted)
    for node in order:
        flat = isinstance(node, g.Map) and RULES[node.op] == "flat" and not is_condition(node)
        if any(a in reached for a in g.operands(node)) and (flat or _passes(node, reached)):
            reached.add(node)
    return reached


def _passes(node: g.Node, active: set[g.Node]) -> bool:
    match node:
        case g.Map(op="where", args=(_, a, b)):
            return a in active or b in active
        case g.Map(op=op):
            return RULES[op] != "flat"
        case g.Cast(dtype=dtype):
            return dtype.kind == "float"
        case g.Reduce(fold=fold):
            return fold not in (g.Fold.ARGMAX, g.Fold.ARGMIN)
        case g.Part(field=field_name):
            return field_name == "values"
        case g.Take(arg=arg):
            return arg in active
        case _:
            return True


def passage(outputs: Sequence[g.Node], start: g.Node) -> g.Node:
    """The last value through which all go that leads from `start` to the outputs; itself, where
    there is no other."""
    order = g.topological(outputs)
    last = {a: i for i, node in enumerate(order) for a in g.operands(node)}
    last |= dict.fromkeys(outputs, len(order))
    found, led, open_until = start, {start}, 0
    for i, node in enumerate(order):
        if node is not start and not any(a in led for a in g.operands(node)):
            continue
        if open_until <= i:  # nothing before it is used behind it
            found = node
        led.add(node)
        open_until = max(open_until, last[node])
    return found


@dataclass
class Reverse:
    """Adjoints of `wanted` inputs, one output after another."""

    wanted: Sequence[g.Input]
    stationary: Callable[[g.Node, g.Reduce], Obligation]  # does the output move with it?
    writer: Writer = field(default_factory=Writer)
    proofs: list[Obligation] = field(default_factory=list)
    found: dict[g.Node, Terms] = field(default_factory=dict)

    def add(self, *pairs: tuple[g.Node, g.Node], alike: bool = False) -> None:
        """Add what the cotangents of outputs contribute, (output, cotangent) each: together, so
        that what they send back over the same sums is one sum. alike: the outputs are the entries
        of one list, each the same function of its own entry and of all."""
        outputs = tuple(dict.fromkeys(output for output, _ in pairs))
        order = g.topological(outputs)
        active = active_nodes(order, self.wanted)
        self.writer.learn(order)
        own: dict[g.Node, Terms] = {}
        for output, cotangent in pairs:
            own[output] = tm.plus(own.get(output, {}), tm.of(cotangent))
        adjoints = dict(own)
        for node in reversed(order):
            terms = adjoints.get(node)
            if terms is not None and node in active and self._cancels(outputs, node, alike):
                terms = own.get(node)
            if node not in active or not terms:
                continue
            with written_at(node.loc):
                if len(terms) > _MANY:
                    terms = tm.of(self.writer.write(terms))
                if node in self.wanted:
                    self.found[node] = tm.plus(self.found.get(node, {}), terms)
                for arg, share in self._shares(node, terms):
                    if arg in active:
                        share = self._as_operand(arg, node, share)
                        adjoints[arg] = tm.plus(adjoints.get(arg, {}), share)

    def write(self, node: g.Input) -> g.Node:
        """The gradient with respect to an input, as text."""
        with written_at(node.loc):
            terms = self.found.get(node)
            found = self.writer.write(terms) if terms else lift(0.0)
            if node.axis is g.Axis.ELEMENT and g.extent(found) is g.Extent.ROW:
                column = builder().add(g.Index(here()))
                return fg.where(column >= 0, Value(found), 0.0).node  # at every position
            if g.is_vector(node) and not g.is_vector(found):
                return tm.filled(Value(found), node).node
        return found

    def _as_operand(self, arg: g.Node, node: g.Node, share: Terms) -> Terms:
        """A number that meets every number of a vector gets the sum of what all of them send back,
        and a row value that meets every position the sum of what every position does."""
        if g.is_vector(node) and not g.is_vector(arg):
            share = self.writer.inner_sum(share, node)
        meets = g.extent(arg) is g.Extent.ROW and g.extent(node) is g.Extent.ELEMENT
        return self.writer.row_sum(share) if meets else share

    def _shares(self, node: g.Node, terms: Terms) -> Iterator[tuple[g.Node, Terms]]:
        """(operand, its share of the adjoint) for every operand that passes one on."""
        if g.extent(node) is g.Extent.LIST or g.lists_of(node):
            _refuse_list(node)
        match node:
            case g.Input():
                return
            case g.Map():
                yield from self._map(node, terms)
            case g.Cast(arg=arg) | g.Inner(arg=arg):
                yield arg, terms
            case g.Reduce():
                yield from self._reduce(node, terms)
            case g.Take(arg=arg, index=index):
                yield arg, _product(terms, tm.one_hot(index))
            case g.Own() | g.Field():
                _refuse_own(node)
            case g.Literal() | g.Length() | g.Index() | g.RowNumber() | g.TopK() | g.Part():
                raise InternalError(f"{attributes(node)} has no adjoint")
            case _:
                assert_never(node)

    def _map(self, node: g.Map, terms: Terms) -> Iterator[tuple[g.Node, Terms]]:
        rule = RULES[node.op]
        if rule == "flat" or rule == "internal":
            raise InternalError(f"{node.op} has no derivative rule")
        slopes = rule(Value(node), *(Value(a) for a in node.args))
        for arg, slope in zip(node.args, slopes, strict=True):
            for part in slope if isinstance(slope, tuple) else (slope,):
                yield arg, _product(terms, part)

    def _reduce(self, node: g.Reduce, terms: Terms) -> Iterator[tuple[g.Node, Terms]]:
        if not g.is_reduction(node):
            _refuse_list(node.arg)
        arg = node.arg
        match node.fold:
            case g.Fold.SUM:
                yield arg, terms
            case g.Fold.MEAN:
                length = builder().add(g.Length(here())).node
                yield arg, tm.scaled(terms, Fraction(1), frozenset({(length, -1)}))
            case g.Fold.MAX | g.Fold.MIN:
                best = Value(arg) == Value(node)
                ties = fg.sum(fg.where(best, 1.0, 0.0))
                absent = fg.where(ties > 0, 0.0, math.nan)  # NaN equals nothing
                yield arg, _product(terms, tm.choice(best.node, True, absent) / ties)
            case g.Fold.PROD:
                raise TraceError(
                    "fg.prod has no gradient here", where=node.loc,
                    why="The others' product is Π/x, which is 0/0 for a row with a zero.",
                    fix="For positive elements write fg.exp(fg.sum(fg.log(x))).",
                )
            case g.Fold.ARGMAX | g.Fold.ARGMIN:
                raise InternalError("a column number has no adjoint")
            case _:
                assert_never(node.fold)

    def _cancels(self, outputs: Sequence[g.Node], node: g.Node, alike: bool) -> bool:
        """Is the node a maximum or minimum with which all other outputs are proved not to move?"""
        if not isinstance(node, g.Reduce) or node.fold not in (g.Fold.MAX, g.Fold.MIN) or \
                g.is_vector(node):
            return False
        others = [o for o in outputs if o is not node and node in g.topological((o,))]
        if alike and 1 < len(others) == len(outputs):
            return self._alike_cancel(others, node)
        proofs = [self.stationary(o, node) for o in others]
        if any(proof.status != "proved" for proof in proofs):
            return False
        self.proofs += proofs
        return True

    def _alike_cancel(self, outputs: Sequence[g.Node], node: g.Reduce) -> bool:
        """Likewise, of entries of one list: one proof is for all. It is short where the outputs
        know of the node through one value only, as probabilities do of their maximum."""
        for one in dict.fromkeys((passage(outputs, node), outputs[0])):
            proof = None if one is node else self.stationary(one, node)
            if proof is not None and proof.status == "proved":
                self.proofs.append(proof)
                return True
        return False


def _product(terms: Terms, factor: Operand) -> Terms:
    coefficient, product = tm.factors(lift(factor))
    return tm.scaled(terms, coefficient, product) if coefficient else {}


def _refuse_own(node: g.Node) -> NoReturn:
    raise TraceError(
        "a monoid of one's own has no gradient here", where=node.loc,
        why="Its merge says how states join, not how the result follows one element.",
        fix="Write the reduction with fg.sum, fg.max and the rest.",
    )


def _refuse_list(node: g.Node) -> NoReturn:
    raise TraceError(
        "the values of a top-K have no gradient here", where=node.loc,
        why="It would scatter K values into the row, and be 0 elsewhere.",
        fix="Differentiate what comes before fg.topk, and pick its columns yourself.",
    )
