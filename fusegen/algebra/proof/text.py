"""The argument as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.algebra.proof.argument import Phrase, Row, argument_of
from fusegen.algebra.proof.notation import written
from fusegen.ir.derivation import Derivation

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


class Plain:
    """One line of Unicode."""

    stacked = False

    def name(self, name: str) -> str:
        return name

    def number(self, text: str) -> str:
        return text

    def infix(self, sign: str, left: str, right: str) -> str:
        return f"{left} {sign} {right}"

    def minus(self, inner: str) -> str:
        return f"−{inner}"

    def product(self, factors: Sequence[str]) -> str:
        return "·".join(factors)

    def fraction(self, over: str, under: str) -> str:
        return f"{over} / {under}"

    def power(self, base: str, exponent: str) -> str:
        return f"{base}{exponent.translate(_SUPERSCRIPTS)}" if exponent.isdecimal() \
            else f"{base}^{exponent}"

    def root(self, inner: str) -> str:
        return f"sqrt({inner})"

    def magnitude(self, inner: str) -> str:
        return f"|{inner}|"

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        return f"{function}({', '.join(arguments)})"

    def bracket(self, inner: str) -> str:
        return f"({inner})"

    def indicator(self, condition: str) -> str:
        return f"[{condition}]"

    def fold(self, word: str, inner: str) -> str:
        return f"{word} {inner}"


_PLAIN = Plain()


def as_text(derivation: Derivation) -> str:
    """The argument, one row a line; obligations with engine and time."""
    argument = argument_of(derivation)
    lines = [argument.title]
    for section in argument.sections:
        lines += ["", phrase_text(section.heading), *(_row(r) for r in section.rows)]
    for theorem in argument.theorems:
        lines += ["", theorem.name, *(f"  {line}" for line in theorem.statement)]
    return "\n".join(lines)


def _row(row: Row) -> str:
    note = f"  [{row.note}]" if row.note else ""
    return f"  {row.label:<9} {phrase_text(row.phrase)}{note}"


def phrase_text(phrase: Phrase) -> str:
    """Prose and formulas on one line."""
    words = [p if isinstance(p, str) else written(p, _PLAIN) for p in phrase]
    return " ".join(words).replace(" ,", ",").replace(" : ", ": ")
