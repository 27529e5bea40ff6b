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

    def text(self, *, include: bool = False) -> str:
        """The whole file, ours inlined or included. Raises InternalError if a header is missing."""
        ours, theirs = needed(self.headers)
        system = dict.fromkeys((*self.system, *theirs))
        includes = [*system, *(self.headers if include else ())]
        parts = [_lines(f"// {comment(ln)}".rstrip() for ln in self.banner),
                 _lines(f"#include <{name}>" for name in includes)]
        if ours and not include:
            parts += [inlined(ours), f"{ABOVE}\n"]
        if ours:
            parts.append("using namespace fusegen;\n")
        return "\n".join(part for part in (*parts, self.body) if part)


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{ln}\n" for ln in lines)
