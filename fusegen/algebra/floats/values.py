"""A closed basis on numbers: what its sums, read-outs and elements come to on given rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray

from fusegen.algebra.pivot import Closed
from fusegen.algebra.setting import Setting, as_vars
from fusegen.algebra.thaw import thaw
from fusegen.ir import graph as g
from fusegen.ir.expr import Expr, Var, evaluate
from fusegen.ir.shared import lazy

Array = NDArray[Any]


def cut_at(graph: g.Graph, node: g.Node) -> g.Graph:
    """The graph of one node and all that it needs."""
    nodes = g.topological((node,))
    return replace(graph, outputs=(node,), nodes=nodes, inputs=g.arrays_in(nodes))


@dataclass(frozen=True)
class Spelled:
    """A closed basis in fusegen's own expressions, to be evaluated."""

    setting: Setting
    closed: Closed

    @lazy
    def words(self) -> Mapping[sp.Symbol, Expr]:
        words: dict[sp.Symbol, Expr] = {**as_vars(self.setting)}
        for c in self.closed.candidate.choices:
            words.setdefault(c.u, Var(c.u.name, "float", True))
            words |= {m: Var(m.name) for m in c.moves if m.is_Symbol}
        return words

    @lazy
    def moving(self) -> frozenset[str]:
        moving = (c for c in self.closed.candidate.choices if c.pivot is not None)
        return frozenset(m.name for c in moving for m in (*c.moves, c.u) if m.is_Symbol)

    def spell(self, expr: sp.Expr) -> Expr:
        return thaw(expr, self.words, self.moving)

    def relative(self, env: Mapping[str, Any]) -> dict[str, Any]:
        """Every u, from its element and pivot, by name."""
        found = {}
        for c in self.closed.candidate.choices:
            if c.pivot is None:
                continue
            x, p = env[c.atom.name], env[c.pivot.symbol.name]
            match c.action:
                case "shift":
                    u = x - p if c.unit is None else (x - p) / env[c.unit.symbol.name]
                case "scale":
                    u = x / p
                case "same":
                    u = np.asarray((x == p) == (c.contrary_to is None), np.asarray(x).dtype)
            found[c.u.name] = u
        return found

    def names(self) -> Mapping[g.Node, str]:
        """Elements and row values, by the names that expressions have for them."""
        rows = {n: r.symbol.name for n, r in self.setting.rows.items()}
        return {**{n: s.name for n, s in self.setting.elements.items()}, **rows}


def value(expr: Expr, env: Mapping[str, Any]) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(evaluate(expr, env))
