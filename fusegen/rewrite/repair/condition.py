"""Does a read-out of several sums cancel? Measured on hard rows, as read-outs over the text's own
pivots are (`algebra/floats/readout.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fusegen.algebra.floats.beside import condition_on, hard_rows
from fusegen.algebra.floats.readout import CONDITION
from fusegen.algebra.floats.values import Array
from fusegen.ir import graph as g
from fusegen.ir.kinds import assumed_dtypes
from fusegen.oracle.bank import Bank
from fusegen.oracle.reference import every_value
from fusegen.rewrite.repair.rewriting import Change

_NOTHING = 1e-9
"""What is 0 but for rounding in float64."""


def cancels(change: Change, graph: g.Graph) -> bool:
    """Does the read-out add up much more than the text, on any hard row? `graph`: the rewritten
    one."""
    parts = change.repaired.parts
    if not parts:
        return False
    roots = tuple(dict.fromkeys((change.text.arg, *(n for c, s in parts for n in (c, _terms(s))))))
    nodes = g.topological(roots)
    cut = replace(graph, outputs=roots, nodes=nodes, inputs=g.arrays_in(nodes))
    dtypes = assumed_dtypes(cut, "float32")
    for bank in hard_rows(cut, dtypes):
        values = every_value(cut, bank.inputs, dtypes, bank.n_cols)
        total = np.sum([_size(c, s, values, bank) for c, s in parts], axis=0)
        found = condition_on(bank, change.text.arg, values, total)
        if np.max(found, initial=0.0) > CONDITION or _leaves(change, values, total, bank):
            return True
    return False


def _leaves(
    change: Change, values: Mapping[g.Node, Array], total: Array, bank: Bank
) -> bool:
    """Is anything added up on a row whose every term is exactly 0 in the text?"""
    terms = np.broadcast_to(values[change.text.arg], (len(bank), bank.n_cols))
    beyond = np.isfinite(total) & (total > _NOTHING)
    return bool(np.any(~terms.any(axis=1) & beyond))


def _terms(total: g.Node) -> g.Node:
    """What a sum adds up; a number is there once for every element."""
    return total.arg if isinstance(total, g.Reduce) and g.is_reduction(total) else total


def _size(c: g.Node, total: g.Node, values: Mapping[g.Node, Array], bank: Bank) -> Array:
    """|c|·Σ|terms|."""
    with np.errstate(all="ignore"):
        terms = np.abs(np.broadcast_to(values[_terms(total)], (len(bank), bank.n_cols)))
        factor = np.abs(np.broadcast_to(values[c], (len(bank), 1)))[:, 0]
        whole = terms.sum(1) if isinstance(total, g.Reduce) else _whole(total, terms, bank)
        return np.where(factor == 0, 0.0, factor * whole)


def _whole(total: g.Node, value: Array, bank: Bank) -> Array:
    """The length counts itself; 1 stands for a mean, of as many as there are."""
    return value[:, 0] if isinstance(total, g.Length) else value[:, 0] * bank.n_cols
