"""How far rounding may take the text itself: a bound of first order, for many rows at once.

Every operation is off by what its operands are off by, as the operation carries it on (it is taken
at both ends of every operand's error), and rounds its result once. A sum is off by what its terms
are, and rounds by `SUM` units of Σ|terms|, as sums do in any order. Inputs, constants and extremes
of inputs are exact. However its sums are added up, a text is at liberty to be this wrong.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.ops import OPS

Array = np.ndarray[Any, Any]
Values = Mapping[g.Node, Array]

SUM = 4.0  # roundings of a whole sum
_EXACT = frozenset({"neg", "abs", "maximum", "minimum", "where", "sign", "floor", "ceil", "round",
                    "to_float", "to_int", "to_bool", "mirror"})


def rounding_of(
    node: g.Node, values: Values, n_cols: int, unit: float, tiny: float = 2.0**-126
) -> Array:
    """The bound for one node of a text; `unit`: the relative rounding of one operation, `tiny`: the
    least normal number, below which rounding is absolute.

    `values`: of all nodes, in a wider type (reference.every_value). Infinite where nothing is
    known: an order of values that are off themselves.
    """
    known: dict[g.Node, Array] = {}
    with np.errstate(all="ignore"):
        for n in g.topological((node,)):
            known[n] = _bound(n, values, known, n_cols, lambda v: _rounded(v, unit, tiny))
    return known[node]


def _rounded(value: Array, unit: float, tiny: float) -> Array:
    size = np.abs(value)
    return unit * np.where(size == 0, 0, np.maximum(size, tiny))


def _bound(
    n: g.Node, values: Values, known: Values, n_cols: int, rounded: Callable[[Array], Array]
) -> Array:
    match n:
        case g.Input() | g.Literal() | g.Length() | g.Index():
            return np.zeros(())
        case g.Map(op=op, args=args):
            pairs = [(values[a], known[a]) for a in args]
            carried = _carried(op, pairs, values[n])
            rounds = op not in _EXACT and values[n].dtype.kind == "f"
            return carried + rounded(values[n]) if rounds else carried
        case g.Cast(arg=arg):
            return known[arg]
        case g.Reduce(fold=g.Fold.SUM | g.Fold.MEAN, arg=arg):
            terms = known[arg] + SUM * rounded(values[arg])
            whole = np.broadcast_to(terms, (*terms.shape[:-1], n_cols))
            found = np.sum(whole, axis=-1, keepdims=True)
            return np.asarray(found / n_cols if n.fold is g.Fold.MEAN else found)
        case g.Reduce(fold=g.Fold.MAX | g.Fold.MIN, arg=arg):
            bound = known[arg]
            return np.asarray(np.max(bound, axis=-1, keepdims=True)) if bound.ndim else bound
        case _:
            inexact = any(np.any(known[a] != 0) for a in g.operands(n))
            return np.asarray(np.inf if inexact else 0.0)


def _carried(op: str, operands: list[tuple[Array, Array]], here: Array) -> Array:
    """What the operands' errors make of the result's: the farthest of all their corners."""
    if not any(np.any(bound != 0) for _, bound in operands):
        return np.zeros(())
    corners = itertools.product(*(_ends(value, bound) for value, bound in operands))
    away = [_distance(OPS[op].numpy(*corner), here) for corner in corners]
    farthest = functools.reduce(np.fmax, away)  # some may lie outside the operation's domain
    return np.asarray(np.where(np.isnan(farthest), np.inf, farthest))


def _ends(value: Array, bound: Array) -> tuple[Array, ...]:
    if not np.any(bound != 0):
        return (value,)
    if value.dtype.kind == "b":
        return value, np.where(bound > 0, ~value, value)  # it may turn out either way
    return value + bound, value - bound


def _distance(there: Array, here: Array) -> Array:
    if here.dtype.kind == "b":
        return np.asarray(there != here, np.float64)
    return np.asarray(np.where(there == here, 0.0, np.abs(there - here)))
