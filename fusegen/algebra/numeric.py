"""Rows on which a merge that is right in the reals goes wrong in float32."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from fusegen import graph as g
from fusegen.algebra.pivot import Candidate, best_candidate
from fusegen.algebra.setting import Setting, as_vars
from fusegen.algebra.short_rows import Rows, ShortRows
from fusegen.algebra.thaw import thaw
from fusegen.expr import Var, evaluate
from fusegen.witness import Cancellation, Overflow

_STEP = Fraction(100)  # exp of it is beyond float32
_LOST = 0.1  # of the result


def overflow(graph: g.Graph, node: g.Reduce | g.TopK) -> Overflow | None:
    """A row that float32 holds the result of, but not that of its first columns; or None."""
    short = ShortRows(graph, node, step=_STEP)
    for length in (2, 3, 4):
        rows = short.rows(length, 2, 1000, ordered=True)
        if not len(rows):
            continue
        (whole,) = short.values((node,), rows, "float32")
        for columns in range(length - 1, 0, -1):
            (part,) = short.values((node,), rows[:, :columns], "float32")
            lost = np.flatnonzero(np.isfinite(whole) & np.isinf(part))
            if len(lost):
                row = rows[lost[0]][None]
                (exact,) = short.values((node,), row[:, :columns])
                (result,) = short.values((node,), row)
                return Overflow(short.row(row[0]), columns, short.given, result.item(),
                                exact.item())  # fmt: skip
    return None


def cancellation(
    graph: g.Graph, node: g.Reduce | g.TopK, setting: Setting
) -> Cancellation | None:
    """A row on which the sums of the best candidate lose the result in float32; or None."""
    short = ShortRows(graph, node)
    candidate = best_candidate(setting.apart)
    for pattern, columns in _patterns(len(short.elements)):
        row = np.tile(pattern, (columns // len(pattern), 1))[None]
        text, good = (float(short.values((node,), row, w)[0].item())
                      for w in ("float32", "float64"))  # fmt: skip
        if not (np.isfinite(good) and abs(text - good) <= _LOST * abs(good)):
            continue  # the text itself has lost it
        total = _by_sums(short, setting, candidate, row)
        if isinstance(node, g.Reduce) and node.fold is g.Fold.MEAN:
            total /= columns
        if not abs(total - text) <= _LOST * abs(text):
            return Cancellation(short.row(pattern), columns, short.given, total, text)
    return None


def _patterns(inputs: int) -> Iterator[tuple[Rows, int]]:
    """(columns, inputs) to be repeated, and to how many columns: far from 0, little apart, in all
    inputs or in one beside ones."""
    beside = [np.ones(inputs, np.bool_), *(np.eye(inputs, dtype=np.bool_) if inputs > 1 else ())]
    for apart, columns in product((1, 1 / 2, 1 / 1024), (2, 64, 1024, 4096)):
        for start, chosen in product(sorted({0, 64, 4096, columns}), beside):
            values = np.where(chosen, np.array([[start], [start + apart]]), 1.0)
            yield values, columns
            yield values[1:], columns


def _by_sums(
    short: ShortRows, setting: Setting, candidate: Candidate, row: Rows
) -> float:
    """Σ_k c_k(p) · Σ h_k(u), every operation in float32."""
    nodes = (*setting.elements, *setting.rows)
    symbols = (*setting.elements.values(), *(r.symbol for r in setting.rows.values()))
    found = short.values(nodes, row, "float32")
    env = {s.name: v.astype(np.float32) for s, v in zip(symbols, found, strict=True)}
    spelled = as_vars(setting)
    for c in candidate.choices:
        if c.action == "same" and c.pivot is not None:
            env[c.u.name] = np.asarray(env[c.atom.name] == env[c.pivot.symbol.name], np.float32)
        elif c.pivot is not None:
            env[c.u.name] = _float32(c.here, spelled, env)
        spelled[c.u] = Var(c.u.name, "float", True)
    total = np.float32(0)
    with np.errstate(all="ignore"):
        for h, c in candidate.terms.items():
            each = np.broadcast_to(_float32(h, spelled, env), row.shape[:2])
            total += np.sum(each, dtype=np.float32) * np.float32(_float32(c, spelled, env).item())
    return float(total)


def _float32(
    expr: sp.Expr, spelled: Mapping[sp.Symbol, Var], env: Mapping[str, Any]
) -> NDArray[np.float32]:
    return np.asarray(evaluate(thaw(expr, spelled, frozenset()), env), np.float32)
