"""Terminals that have no letters for mathematics: what cannot be written is written otherwise."""

from __future__ import annotations

import codecs
import io
import os
import sys
import unicodedata

_PLAIN = {
    "·": "*", "−": "-", "Σ": "sum ", "∑": "sum ", "Π": "product ", "⊕": "(+)", "…": "...",
    "≥": ">=", "≤": "<=", "≠": "!=", "→": "->", "δ": "delta", "ρ": "rho", "κ": "kappa", "ε": "eps",
    "∂": "d", "∞": "inf", "²": "^2", "³": "^3", "µ": "u", "μ": "mu", "×": "x", "±": "+-", "÷": "/",
    "≈": "~", "½": "1/2", "′": "'",
}


def _otherwise(error: UnicodeError) -> tuple[str, int]:
    """A handler for encoders: plain signs where there are some, else Python's escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lost = error.object[error.start : error.end]
    return "".join(map(_plainly, lost)), error.end


def _plainly(letter: str) -> str:
    """Subscripts as digits, letters without their marks."""
    parts = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return _PLAIN.get(letter) or parts or letter.encode("ascii", "backslashreplace").decode()


def write_anything() -> None:
    """From now on no text fails for want of a letter, on this process's output and errors; where
    one of them was closed from the start, what goes there goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            nowhere = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
            setattr(sys, name, nowhere)
    codecs.register_error("fusegen.otherwise", _otherwise)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="fusegen.otherwise")
