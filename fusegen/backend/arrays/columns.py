"""What a text asks of the number of columns, checked when it is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fusegen.ir import graph as g
from fusegen.ir.conditions import is_column
from fusegen.ir.errors import ShapeError
from fusegen.ir.loc import Loc

MOST = 2**62  # columns: no row is longer


@dataclass(frozen=True, slots=True)
class Rule:
    """least ≤ n_cols ≤ most, and a multiple; what is said where it is not: over n_cols, last."""

    what: str
    why: str
    fix: str
    where: Loc | None
    least: int = 1
    most: int = MOST
    multiple: int = 1

    def check(self, n_cols: int) -> None:
        """Raises ShapeError. A number that is a symbol to who traces shapes is bound by what is
        asked of it: nothing is where nothing can be wrong."""
        few = self.least > 1 and n_cols < self.least
        many = self.most < MOST and n_cols > self.most
        if not (few or many or (self.multiple > 1 and n_cols % self.multiple != 0)):
            return
        what, why, fix = (text.format(n_cols=n_cols, last=n_cols - 1)
                          for text in (self.what, self.why, self.fix))
        raise ShapeError(what, where=self.where, why=why, fix=fix)


def rules(graph: g.Graph) -> Iterator[Rule]:
    """Of a top-K, a type of column numbers, equal sections."""
    for node in graph.nodes:
        match node:
            case g.TopK(k=k):
                yield Rule(f"topk of {k} in rows with {{n_cols}} columns",
                           "A row does not have that many elements.", "Choose k ≤ {n_cols}.",
                           node.loc, least=k)
            case g.Cast(dtype=dtype) if is_column(node):
                last = np.iinfo(dtype.numpy).max
                yield Rule(f"{dtype} column numbers for rows with {{n_cols}} columns",
                           f"The last column is {{last}}, {dtype} ends at {last}.",
                           'Take index_dtype="int64".', node.loc, most=min(MOST, int(last) + 1))
            case g.Index(sections=sections, least=least):
                if sections > 1:
                    yield Rule(f"{sections} equal sections of rows with {{n_cols}} columns",
                               "It is no multiple.",
                               "Choose a number of sections that divides {n_cols}.", node.loc,
                               multiple=sections)
                if least > 1:
                    yield Rule(f"{sections} sections of rows with {{n_cols}} columns",
                               f"The text asks for {least} columns in each.",
                               f"Pass rows of at least {sections * least} columns, or ask for "
                               "fewer sections.", node.loc, least=sections * least)
            case _:
                pass


def check_columns(graph: g.Graph, n_cols: int) -> None:
    """Raises ShapeError where a rule of the text does not hold."""
    for rule in rules(graph):
        rule.check(n_cols)


def check_last_column(graph: g.Graph, end: int) -> None:
    """Raises ShapeError where the column before `end` has no number in a type asked for."""
    for rule in rules(graph):
        if end > rule.most:
            rule.check(end)
