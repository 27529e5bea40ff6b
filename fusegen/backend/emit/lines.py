"""Lines of generated source as data: what they say, and which names they use and declare.

Printers build them where they spell expressions; whoever asks what a piece of source needs (a
parameter, the column, a member of the row) asks the lines. No text is ever read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fusegen.backend.emit.comments import comment


@dataclass(frozen=True, slots=True)
class Line:
    """One line of C++. `str` of it is what is printed, with the user's own line behind it."""

    text: str
    uses: frozenset[str] = frozenset()  # names of values, of arrays and of items
    declares: str = ""
    note: str = ""  # the user's line

    def __str__(self) -> str:
        return f"{self.text}  // {comment(self.note)}" if self.note else self.text

    def inside(self) -> Line:
        """The same line, one block further in."""
        return replace(self, text=f"    {self.text}")


def uses_of(lines: Iterable[Line]) -> frozenset[str]:
    """Every name that these lines use."""
    return frozenset[str]().union(*(ln.uses for ln in lines))


def inside(lines: Iterable[Line]) -> list[Line]:
    """Lines, one block further in."""
    return [ln.inside() for ln in lines]
