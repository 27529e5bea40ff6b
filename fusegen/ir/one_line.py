"""Any text as one line that terminals, editors, markup and compilers take for one line."""

from __future__ import annotations

MOST = 160  # characters of a line shown beside others


def one_line(text: str, most: int | None = None) -> str:
    """Blanks of every kind become one space; what cannot be printed is spelled as Python escapes.

    `most`: longer text is cut there, with an ellipsis.
    """
    shown = printable(" ".join(text.split()))
    return shown if most is None or len(shown) <= most else shown[: most - 1].rstrip() + "…"


def printable(text: str) -> str:
    """Control characters, lone surrogates and marks that turn text round, as Python escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
