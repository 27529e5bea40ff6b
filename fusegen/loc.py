"""Where in the user's files something was written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class Loc:
    """A line of the user's source."""

    file: str
    line: int
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def short(self) -> str:
        """`name.py:12`, the same on every machine: what generated source shows."""
        return f"{PurePath(self.file).name}:{self.line}"
