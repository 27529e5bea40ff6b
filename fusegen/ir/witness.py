"""Small counterexamples that a person can check by hand: why a reduction was not merged.

Plain data, so that refusals can be kept on disk. Numbers are exact fractions; rows may be given in
units of ln 2, where exp is exact: exp(k·ln 2) = 2^k. `algebra.refute` and `algebra.numeric` find
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from math import log, nan
from typing import Literal

Unit = Literal["1", "ln 2"]
Given = tuple[tuple[str, Fraction], ...]
"""Inputs that are not per element, by name: the same in every row and column."""


_WIDTH = 86  # of a line's variable part
_SHORT = 4  # columns shown one by one


_DIGITS, _ALL_DIGITS = 6, 17  # the last tell every two floats apart


def short(value: float) -> str:
    """Six digits: enough to see most differences; `told_apart` shows what they do not."""
    return f"{value:.{_DIGITS}g}"


def told_apart(values: tuple[float, ...], digits: int = _DIGITS) -> tuple[str, ...]:
    """With so many digits, or as many more as show that different values are."""
    different = len(set(map(repr, values)))
    found = tuple(f"{v:.{digits}g}" for v in values)
    if len(set(found)) >= different or digits >= _ALL_DIGITS:
        return found
    return told_apart(values, digits + 1)


def number(value: float) -> float:
    """The value as plain data; NaN is always the same object, so that records stay equal."""
    return nan if value != value else float(value)


def listed(values: tuple[str, ...]) -> str:
    return f"({', '.join(values)})"


@dataclass(frozen=True, slots=True)
class Row:
    """A short row: its values by input name, in units of 1 or of ln 2."""

    values: tuple[tuple[str, tuple[Fraction, ...]], ...]
    unit: Unit = "1"

    def __len__(self) -> int:
        return len(self.values[0][1])

    def floats(self, name: str) -> tuple[float, ...]:
        """The input's values, in column order."""
        scale = log(2) if self.unit == "ln 2" else 1.0
        return tuple(float(v) * scale for v in dict(self.values)[name])

    def __str__(self) -> str:
        unit = "" if self.unit == "1" else f"·{self.unit}"
        return ", ".join(f"{n} = {listed(tuple(map(str, v)))}{unit}" for n, v in self.values)


def _with(given: Given) -> str:
    """" (t = 1)", or nothing."""
    return f" ({', '.join(f'{n} = {v}' for n, v in given)})" if given else ""


@dataclass(frozen=True, slots=True)
class Confusion:
    """Two rows with the same length, row values and result, that the same continuation tells apart.

    A state that holds these values cannot be merged: from equal states, merges give equal results
    (Myhill and Nerode). It refutes *this* state. That no longer list of sums would do is another
    claim: for a moving switch it is the kink lemma, for other functions linear independence.
    """

    first: Row
    second: Row
    then: Row
    given: Given
    shared: tuple[tuple[str, str], ...]  # row values by name, the reduction's own last
    results: tuple[str, str]  # after `then`

    def __str__(self) -> str:
        same = ", ".join(f"{n} = {v}" for n, v in (("n", str(len(self.first))), *self.shared))
        rows = f"Rows {self.first} and {self.second}{_with(self.given)}"
        between = " " if len(rows) + len(same) < _WIDTH else "\n"
        return (
            f"{rows} both have{between}{same};\n"
            f"after appending {self.then} the text gives {self.results[0]} and {self.results[1]}:\n"
            "a state of these values alone cannot be merged."
        )


@dataclass(frozen=True, slots=True)
class Ratio:
    """Two terms of one sum that a new element changes by different factors.

    So no single factor moves the sum: one sum does not suffice. `wider` extends that to as many
    sums as it has columns, less one: if f(x; p) = Σ_k c_k(p)·h_k(x) with that few k, the matrix of
    the terms of its first row, after each column of its second is appended alone, would be
    singular; it is not.
    """

    row: Row  # two columns
    then: Row
    given: Given
    before: tuple[float, float]
    after: tuple[float, float]
    wider: tuple[Row, Row] | None = None

    @property
    def factors(self) -> tuple[float, float]:
        return self.after[0] / self.before[0], self.after[1] / self.before[1]

    def __str__(self) -> str:
        a, b = told_apart(self.factors)
        old, new = (listed(tuple(map(short, t))) for t in (self.before, self.after))
        lines = [
            f"Row {self.row} has the terms {old}{_with(self.given)}; after appending {self.then} "
            f"they are {new}:",
            f"factors {a} and {b}, so no single factor moves their sum.",
        ]
        if self.wider is not None:
            row, then = self.wider
            lines.append(f"Nor do {len(row) - 1} sums suffice: the terms of {row},")
            lines.append(f"after appending {_one_of(then)}, have rank {len(row)}.")
        return "\n".join(lines)


def _one_of(row: Row) -> str:
    """A row whose columns are appended one at a time."""
    first, last = (", ".join(f"{n} = {v[k]}" for n, v in row.values) for k in (0, -1))
    return f"{first} or … or {last}"


@dataclass(frozen=True, slots=True)
class Disorder:
    """A row on which the order of f(x) is not the order of x, nor its reverse.

    `by_…` are the columns that come first: one, or two of a top-K.
    """

    row: Row
    element: str  # the input or expression that f is a function of
    given: Given
    terms: tuple[tuple[float, float], ...]  # (element, f) by column
    by_text: tuple[int, ...]  # columns
    by_order: tuple[int, ...]
    by_reverse: tuple[int, ...]

    def __str__(self) -> str:
        elements, results = (told_apart(v) for v in zip(*self.terms, strict=True))
        f = ", ".join(f"f({x}) = {y}" for x, y in zip(elements, results, strict=True))
        return (
            f"Row {self.row}{_with(self.given)}: {f};\n"
            f"the first by f: {_columns(self.by_text)}; by {self.element}: "
            f"{_columns(self.by_order)}; by -{self.element}: {_columns(self.by_reverse)}."
        )


def _columns(columns: tuple[int, ...]) -> str:
    return f"{'column' if len(columns) == 1 else 'columns'} {', '.join(map(str, columns))}"


@dataclass(frozen=True, slots=True)
class Stray:
    """A row on which a merge that was proved, replayed in the kernel's floats, is not the text.

    Values are those of the row as they were tried, one a column; `beside` the patterns they follow.
    """

    values: tuple[tuple[str, tuple[float, ...]], ...]
    beside: str
    merged: float
    text: float

    def __str__(self) -> str:
        rows = [f"{n} = {listed(_runs(values))}" for n, values in self.values]
        beside = f" ({self.beside})" if self.beside else ""
        merged, text = told_apart((self.merged, self.text))
        return (
            f"Row {', '.join(rows)}{beside}:\n"
            f"the merged sum gives {merged}, the text {text}."
        )


def _runs(values: tuple[float, ...]) -> tuple[str, ...]:
    """The values, one a column; in a long row equal neighbours once, with their number."""
    if len(values) <= _SHORT:
        return tuple(f"{v:.9g}" for v in values)
    runs = [(v, len(list(same))) for v, same in groupby(values)]
    return tuple(f"{v:.9g}" if n == 1 else f"{n} times {v:.9g}" for v, n in runs)


Witness = Confusion | Ratio | Disorder | Stray
