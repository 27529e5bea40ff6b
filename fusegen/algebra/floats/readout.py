"""The condition of a read-out of several sums: what it adds up, beside what the text adds up.

Where the terms of a row have one sign, Σₖ |cₖ|·Σ|hₖ| stands beside Σ|f|: the text loses nothing.
Where they have both, it stands beside what the text's own rounding is in proportion to. Signs that
sympy knows prove the condition to be 1. All else is measured on hard rows (`fusegen.bank`), with
the row values of those rows: that p ≤ 1 needs no proof there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import sympy as sp

from fusegen import graph as g
from fusegen.algebra.choice import Choice
from fusegen.algebra.floats.range import is_formed
from fusegen.algebra.floats.values import Array, Spelled, cut_at, value
from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting
from fusegen.bank import Bank, bank_of
from fusegen.dtypes import DType
from fusegen.kinds import assumed_dtypes
from fusegen.reference import every_value
from fusegen.rounding import rounding_of

CONDITION = 32.0
"""Five binary digits: what a read-out may cost beyond the text."""
_LENGTHS, _ROWS = (3, 24), 400
_SHORT, _WHOLE, _AWAY, _FEW = (2, 3), range(-3, 4), 2.0**-10, 800
_STARTS, _APART = (1.0, -1.0, 64.0, 4096.0), (1.0, 2.0**-10)
_UNIT = 2.0**-24


@dataclass(frozen=True)
class Condition:
    """The worst of Σₖ|cₖ|Σ|hₖ| ÷ what it stands beside; `rows` 0: by the signs of all terms."""

    worst: float
    rows: int = 0
    allowed: bool = False  # not looked at: the user accepts cancellation


def exponential_readout(setting: Setting, closed: Closed) -> bool:
    """Would the read-out multiply a sum by an exponential of a row value?"""
    changing = frozenset(r.symbol for r in setting.changing)
    return any(e.free_symbols & changing
               for c in closed.candidate.terms.values() for e in c.atoms(sp.exp))  # fmt: skip


def condition_of(setting: Setting, closed: Closed, *, brave: bool) -> Condition:
    """1 where a read-out has one term, or terms of one sign; else measured."""
    terms = [(part, h) for h, c in closed.candidate.terms.items() for part in _added(setting, c)]
    if len(terms) < 2 or _one_signed(setting, closed, terms):
        return Condition(1.0)
    if brave:
        return Condition(1.0, allowed=True)
    graph = cut_at(setting.graph, setting.arg)
    dtypes = assumed_dtypes(graph, "float32")
    spelled = Spelled(setting, closed)
    worst, rows = 1.0, 0
    banks = [_some(bank_of(graph, dtypes, length)) for length in _LENGTHS]
    small = [_near_whole(graph, dtypes, length) for length in _SHORT]
    for bank in (*banks, _beside_ones(graph, dtypes), *small):
        found = _measured(spelled, graph, bank, terms)
        worst, rows = max(worst, float(np.max(found, initial=0.0))), rows + len(bank)
    return Condition(worst, rows)


def _added(setting: Setting, c: sp.Expr) -> tuple[sp.Expr, ...]:
    """What a coefficient adds up; one that the text forms itself is as good there."""
    if c == 0 or is_formed(setting, c):
        return (c,) if c != 0 else ()
    return tuple(sp.Add.make_args(sp.expand(c)))


def _some(bank: Bank) -> Bank:
    """Rows from the whole bank, evenly; all where there are few."""
    step = 1 + (len(bank) - 1) // _ROWS
    inputs = {n: a[::step] if len(a) == len(bank) else a for n, a in bank.inputs.items()}
    return Bank(bank.n_cols, inputs, bank.picks[::step])


def _beside_ones(graph: g.Graph, dtypes: Mapping[str, DType]) -> Bank:
    """Rows little apart far from 0, in one input beside ones: what products are compared with."""
    names = [i.name for i in graph.inputs]
    steps = np.arange(_LENGTHS[-1]) % 2
    rows = np.array([start + apart * steps for start in _STARTS for apart in _APART])
    picks = np.repeat(np.arange(len(names)), len(rows))
    inputs = {}
    for k, node in enumerate(graph.inputs):
        values = np.where((picks == k)[:, None], np.tile(rows, (len(names), 1)), 1.0)
        values = values[:, :1] if node.axis is g.Axis.PER_ROW else values
        dtype = dtypes[node.name]
        inputs[node.name] = np.zeros(values.shape, np.int64) if dtype.kind == "int" else \
            values.astype(dtype.numpy)  # fmt: skip
    return Bank(_LENGTHS[-1], inputs, picks[:, None])


def _near_whole(graph: g.Graph, dtypes: Mapping[str, DType], length: int) -> Bank:
    """Short rows of small whole numbers, each a little off: terms are 0 at some of them whatever
    they are differences of, and close to 0 beside. Evenly out of all such rows."""
    places = len(graph.inputs) * length
    total = len(_WHOLE) ** places
    numbers = np.arange(total) if total <= _FEW else np.arange(_FEW) * (total // _FEW | 1)
    digits = numbers[:, None] // len(_WHOLE) ** np.arange(places) % len(_WHOLE)
    off = np.random.default_rng(length).standard_normal(digits.shape)
    rows = (np.asarray(_WHOLE)[digits] + _AWAY * off).reshape(len(numbers), -1, length)
    inputs = {}
    for k, node in enumerate(graph.inputs):
        values = rows[:, k, :1] if node.axis is g.Axis.PER_ROW else rows[:, k]
        dtype = dtypes[node.name]
        whole = np.asarray(np.abs(np.rint(values)) % length, np.int64)
        inputs[node.name] = whole if dtype.kind == "int" else values.astype(dtype.numpy)
    return Bank(length, inputs, np.zeros((len(numbers), 1), np.int64))


def _measured(
    spelled: Spelled, graph: g.Graph, bank: Bank, terms: list[tuple[sp.Expr, sp.Expr]]
) -> Array:
    """The condition, row by row; 0 where a row says nothing."""
    values = every_value(graph, bank.inputs, assumed_dtypes(graph, "float32"), bank.n_cols)
    shape = (len(bank), bank.n_cols)
    env = {name: values[node] for node, name in spelled.names().items()}
    with np.errstate(all="ignore"):
        env |= spelled.relative(env)
        total = np.zeros(len(bank))
        for c, h in terms:
            lifts = np.broadcast_to(np.abs(value(spelled.spell(h), env)), shape)
            factor = np.broadcast_to(np.abs(value(spelled.spell(c), env)), (len(bank), 1))
            total = total + np.where(factor == 0, 0.0, factor)[:, 0] * lifts.sum(1)
        f = np.broadcast_to(values[graph.outputs[0]], shape).astype(np.float64)
        size = np.abs(f)
        # What the text's own operands are rounded by, in units of the rounding.
        own = np.broadcast_to(rounding_of(graph.outputs[0], values, bank.n_cols, _UNIT), shape)
        own = np.maximum(own / _UNIT, size).sum(1)
        few = 1e-9 * size.mean(1)
        one = (f.max(1) <= few) | (f.min(1) >= -few)
        sound = np.isfinite(total) & np.isfinite(own) & (own < 1e37) & (total > 1e-30)
        heard = sound & (~one | (size.sum(1) > 2 * _UNIT * own))  # the rest is noise in the text
        beside = np.where(one, size.sum(1), own)
        return np.where(heard, total / np.maximum(beside, 1e-35), 0.0)


def _one_signed(
    setting: Setting, closed: Closed, terms: list[tuple[sp.Expr, sp.Expr]]
) -> bool:
    known = {c.u: _signed(c, setting) for c in closed.candidate.choices}
    signs = {_sign(c) * _sign(h.subs(known)) for c, h in terms}
    return len(signs) == 1 and 0 not in signs


def _signed(choice: Choice, setting: Setting) -> sp.Expr:
    """u with its sign known where the pivot is an extreme of the element itself."""
    for b in setting.bounds:
        own = choice.pivot is not None and b.row == choice.pivot.symbol
        if own and b.element == choice.atom and choice.action == "shift":
            return -b.distance if b.above else b.distance
    return choice.u


def _sign(expr: sp.Expr) -> int:
    """+1 if never negative, −1 if never positive, 0 if not known."""
    if expr.is_nonnegative:
        return 1
    return -1 if expr.is_nonpositive else 0
