"""A derivation as users hold it: it prints itself, and can be written down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from fusegen.algebra.proof.html import as_html
from fusegen.algebra.proof.latex import as_latex
from fusegen.algebra.proof.record import from_json, to_json
from fusegen.algebra.proof.text import as_text
from fusegen.ir.derivation import Derivation


class Proof(Derivation):
    """What `p.derivation()` gives: entries with their obligations, as an argument to read.

    `str(proof)` is the argument as text, notebooks typeset it, `.latex()` is a fragment for a
    document, `.to_json()` is all of it as data.
    """

    __slots__ = ()

    @classmethod
    def of(cls, derivation: Derivation) -> Proof:
        return cls(*_values(derivation))

    def __str__(self) -> str:
        """The derivation as a short argument that a person can follow."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def latex(self) -> str:
        """The argument as a LaTeX fragment; needs amsmath."""
        return as_latex(self)

    def to_json(self) -> str:
        """All of it, exactly: `Proof.from_json(p.to_json()) == p`."""
        return to_json(Derivation(*_values(self)))

    @classmethod
    def from_json(cls, text: str) -> Proof:
        """What `to_json` wrote. Raises ArgumentError for anything else."""
        return cls.of(from_json(text))


def _values(derivation: Derivation) -> Iterator[Any]:
    return (getattr(derivation, field.name) for field in fields(Derivation))
