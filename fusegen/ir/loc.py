"""Where in the user's files something was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from fusegen.ir.one_line import MOST, one_line


@dataclass(frozen=True, slots=True)
class Loc:
    """A line of the user's source."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{one_line(self.file)}:{self.line}"

    @property
    def short(self) -> str:
        """`name.py:12`, the same on every machine: what generated source shows."""
        return f"{one_line(PurePath(self.file).name)}:{self.line}"

    @property
    def shown(self) -> str:
        """The text as one line that can be printed."""
        return one_line(self.text, MOST)
