"""The argument as a LaTeX fragment: one align* per reduction, for a document with amsmath."""

from __future__ import annotations

from collections.abc import Sequence

from fusegen.algebra.proof.argument import Phrase, Row, argument_of
from fusegen.algebra.proof.notation import parts_of_name, written
from fusegen.ir.derivation import Derivation

_GREEK = {"δ": r"\delta", "ρ": r"\rho", "κ": r"\kappa"}
_SIGNS = {"−": "-", "≤": r"\le", "≥": r"\ge", "≠": r"\ne", "→": r"\to", "<": "<", ">": ">",
          "and": r"\wedge", "or": r"\vee"}
_OPERATORS = frozenset({"exp", "log", "tanh", "sin", "cos", "max", "min"})
_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "$": r"\$", "%": r"\%",
    "#": r"\#", "&": r"\&", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
    "Σ": r"$\sum$", "∂": r"$\partial$", "⊕": r"$\oplus$", "→": r"$\to$", "·": r"$\cdot$",
    "−": "$-$", "δ": r"$\delta$", "ρ": r"$\rho$", "κ": r"$\kappa$", "≤": r"$\le$", "≥": r"$\ge$",
    "<": "$<$", ">": "$>$", "∞": r"$\infty$", "…": r"\dots{}", "|": "$|$",
}


def escaped(text: str) -> str:
    """Any text, harmless in LaTeX text mode."""
    return "".join(_SPECIAL.get(c, c) for c in text)


class Latex:
    """Math mode."""

    stacked = True

    def name(self, name: str) -> str:
        letters, digits, primes = parts_of_name(name)
        upright = letters if len(letters) == 1 else rf"\mathrm{{{_upright(letters)}}}"
        shown = _GREEK.get(letters, upright)
        below = f"_{{{digits}}}" if digits else ""
        return shown + below + "'" * len(primes)

    def number(self, text: str) -> str:
        return text.replace("−", "-").replace("∞", r"\infty")

    def infix(self, sign: str, left: str, right: str) -> str:
        return f"{left} {_SIGNS.get(sign, sign)} {right}"

    def minus(self, inner: str) -> str:
        return f"-{inner}"

    def product(self, factors: Sequence[str]) -> str:
        return r" \cdot ".join(factors)

    def fraction(self, over: str, under: str) -> str:
        return rf"\frac{{{over}}}{{{under}}}"

    def power(self, base: str, exponent: str) -> str:
        return f"{{{base}}}^{{{exponent}}}"

    def root(self, inner: str) -> str:
        return rf"\sqrt{{{inner}}}"

    def magnitude(self, inner: str) -> str:
        return rf"\left|{inner}\right|"

    def apply(self, function: str, arguments: Sequence[str]) -> str:
        head = f"\\{function}" if function in _OPERATORS else _operator(function)
        return rf"{head}\left({', '.join(arguments)}\right)"

    def bracket(self, inner: str) -> str:
        return rf"\left({inner}\right)"

    def indicator(self, condition: str) -> str:
        return rf"\left[{condition}\right]"

    def fold(self, word: str, inner: str) -> str:
        head = r"\sum" if word == "Σ" else f"\\{word}" if word in _OPERATORS else _operator(word)
        return f"{head} {inner}"


def _upright(name: str) -> str:
    return name.replace("_", r"\_")


def _operator(word: str) -> str:
    return rf"\operatorname{{{_upright(word).replace(' ', '~')}}}"


_LATEX = Latex()


def as_latex(derivation: Derivation) -> str:
    """A fragment to be typeset inside a document that loads amsmath."""
    argument = argument_of(derivation)
    parts = [rf"\textbf{{{escaped(argument.title)}}}"]
    for section in argument.sections:
        parts += ["", rf"\noindent {_prose(section.heading)}"]
        if section.rows:
            rows = " \\\\\n".join(_row(r) for r in section.rows)
            parts += [r"\begin{align*}", rows, r"\end{align*}"]
    for theorem in argument.theorems:
        stated = escaped(" ".join(theorem.statement))
        parts += ["", rf"\noindent\textbf{{{escaped(theorem.name)}.}} {stated}"]
    return "\n".join(parts) + "\n"


def _row(row: Row) -> str:
    words = [rf"\text{{{escaped(p)} }}" if isinstance(p, str) else written(p, _LATEX)
             for p in row.phrase if not isinstance(p, str) or p.strip()]
    note = rf" && \text{{{escaped(row.note)}}}" if row.note else ""
    return rf"\text{{{escaped(row.label)}}} & \quad {' '.join(words)}{note}"


def _prose(phrase: Phrase) -> str:
    words = [escaped(p) if isinstance(p, str) else f"${written(p, _LATEX)}$" for p in phrase]
    return " ".join(words).replace(" ,", ",")
