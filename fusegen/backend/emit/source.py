"""A generated file: what is its own, and the fixed headers that it uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fusegen.backend.emit.comments import comment
from fusegen.backend.emit.headers import inlined, needed

ABOVE = "// ==== above: what is used of fusegen's headers (--include names them); below: the kernel"
"""The line between what is inlined and what the program is."""


@dataclass(frozen=True, slots=True)
class Source:
    """One translation unit. `text()` compiles as it stands; `text(include=True)` compiles where
    `-I` has `include_dir()`."""

    body: str
    banner: tuple[str, ...] = ()  # comment lines, without comment signs
    system: tuple[str, ...] = ()  # headers of the toolchain
    headers: tuple[str, ...] = ()  # of ours: "fusegen/…"
    given: str = ""  # what ours take for granted: it stands before them
    opening: str = "using namespace fusegen;"  # and this behind them

    def text(self, *, include: bool = False) -> str:
        """The whole file, ours inlined or included. Raises InternalError if a header is missing."""
        ours, theirs = needed(self.headers)
        system = dict.fromkeys((*self.system, *(() if include else theirs)))
        named = _included(self.headers if include else ())
        first = [_included(system), self.given, named] if self.given else [
            _included(system) + named]
        parts = [_lines(f"// {comment(ln)}".rstrip() for ln in self.banner), *first]
        if ours and not include:
            parts += [inlined(ours), f"{ABOVE}\n"]
        if ours:
            parts.append(f"{self.opening}\n")
        return "\n".join(part for part in (*parts, self.body) if part)


def _included(names: Iterable[str]) -> str:
    return _lines(f"#include <{name}>" for name in names)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{ln}\n" for ln in lines)
