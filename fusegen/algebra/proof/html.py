"""The argument as HTML with MathML: notebooks and browsers typeset it without a script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fusegen.algebra.proof.argument import Argument, Phrase, Row, argument_of
from fusegen.algebra.proof.notation import parts_of_name, written
from fusegen.ir.derivation import Derivation

_STYLE = "padding: 0.15em 1em 0.15em 0; text-align: left; vertical-align: top"


class MathML:
    """Elements of MathML Core; whatever a user wrote is escaped."""

    stacked = True

    def name(self, name: str) -> str:
        letters, digits, primes = parts_of_name(name)
        shown = f"<mi>{escape(letters)}</mi>"
        if digits:
            shown = f"<msub>{shown}<mn>{digits}</mn></msub>"
        return f"<msup>{shown}<mo>{primes}</mo></msup>" if primes else shown

    def number(self, text: str) -> str:
        return f"<mn>{escape(text)}</mn>"

    def infix(self, sign: str, left: str, right: str) -> str:
        return f"{left}<mo>{escape(sign)}</mo>{right}"

    def minus(self, inner: str) -> str:
        return f"<mo>−</mo>{inner}"

    def product(self, factors: Sequence[str]) -> str:
        return "<mo>·</mo>".join(factors)

    def fraction(self, over: str, under: str) -> str:
        return f"<mfrac>{_group(over)}{_group(under)}</mfrac>"

    def power(self, base: str, exponent: str) -> str:
        return f"<msup>{_group(base)}{_group(exponent)}</msup>"

    def root(self, inner: str) -> str:
        return f"<msqrt>{inner}</msqrt>"

    def magnitude(self, inner: str) -> str:
        return f"<mo>|</mo>{inner}<mo>|</mo>"

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        return f"<mi>{escape(function)}</mi>{self.bracket('<mo>,</mo>'.join(arguments))}"

    def bracket(self, inner: str) -> str:
        return f"<mrow><mo>(</mo>{inner}<mo>)</mo></mrow>"

    def indicator(self, condition: str) -> str:
        return f"<mrow><mo>[</mo>{condition}<mo>]</mo></mrow>"

    def fold(self, word: str, inner: str) -> str:
        head = "<mo>∑</mo>" if word == "Σ" else f"<mi>{escape(word)}</mi><mspace width='0.3em'/>"
        return f"{head}{inner}"


def _group(inner: str) -> str:
    return f"<mrow>{inner}</mrow>"


_MATHML = MathML()


def as_html(derivation: Derivation) -> str:
    """One block; MathJax is told to leave it alone."""
    argument = argument_of(derivation)
    parts = [f"<h4>{escape(argument.title)}</h4>", *_sections(argument)]
    for theorem in argument.theorems:
        stated = escape(" ".join(theorem.statement))
        parts.append(f"<p><b>{escape(theorem.name)}.</b> {stated}</p>")
    return "\n".join(["<div class='tex2jax_ignore mathjax_ignore'>", *parts, "</div>"])


def _sections(argument: Argument) -> list[str]:
    parts = []
    for section in argument.sections:
        parts.append(f"<p>{_prose(section.heading)}</p>")
        if section.rows:
            parts += ["<table>", *(_row(r) for r in section.rows), "</table>"]
    return parts


def _row(row: Row) -> str:
    cells = (escape(row.label), _prose(row.phrase), f"<small>{escape(row.note)}</small>")
    return f"<tr>{''.join(f'<td style={chr(34)}{_STYLE}{chr(34)}>{c}</td>' for c in cells)}</tr>"


def _prose(phrase: Phrase) -> str:
    words = [escape(p) if isinstance(p, str) else f"<math>{written(p, _MATHML)}</math>"
             for p in phrase]
    return " ".join(words).replace(" ,", ",")
