"""Numbers that a call hands to its kernels: constants that vary, and formulas of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fusegen.backend.words import bits_in
from fusegen.ir import graph as g
from fusegen.ir.dtypes import FLOAT64
from fusegen.ir.kernel import Param
from fusegen.ir.varying import Formula, computed, names_in


class Scalars:
    """The scalars of calls that are spelled alike: those that are constants which vary come with
    the call, the others are what they were."""

    def __init__(
        self, graph: g.Graph, params: tuple[Param, ...], constants: Mapping[str, Any]
    ) -> None:
        formulas = {graph.names[s]: s.formula for s in graph.scalars}
        given = [p for p in params if p.shape == "scalar"]
        self.names = tuple(p.name for p in given)
        plain = plain_constants(graph)
        self._usual = tuple(computed(formulas[n], constants) for n in self.names)
        self._from = tuple(str(formulas[n]) if formulas[n] in plain else "" for n in self.names)
        self._bits = tuple(bits_in(p.dtype) for p in given)
        self._single = tuple(p.dtype != FLOAT64 for p in given)

    def words(self, named: Mapping[str, Any]) -> list[int]:
        """Their words for a call with these constants."""
        return [bits(named.get(name, usual)) for bits, name, usual in
                zip(self._bits, self._from, self._usual, strict=True)]

    def numbers(self, varying: list[str]) -> tuple[tuple[int, float, bool], ...]:
        """For a helper: the place of each among the numbers that it meets in the call, or -1 and
        its number; whether it has 32 bits."""
        return tuple((varying.index(name) if name in varying else -1, usual, single)
                     for name, usual, single in
                     zip(self._from, self._usual, self._single, strict=True))


def plain_constants(graph: g.Graph) -> set[Formula]:
    """Constants that vary of which the text asks their magnitude alone, and computes nothing."""
    asked = [a for c in graph.guards if c.question != "magnitude" for a in c.args]
    made = [s.formula for s in graph.scalars if not isinstance(s.formula, str)]
    made += [a for c in graph.guards for a in c.args if not isinstance(a, str)]
    return set(graph.varying - frozenset().union(*map(names_in, (*asked, *made))))
