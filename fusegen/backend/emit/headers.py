"""Fixed headers: C++ that no program changes, one meaning a file, all in `namespace fusegen`.

A header is `#pragma once`, a comment on what it holds where functions do not say, its `#include`
lines, and one namespace. Generated sources either name those that they use, or hold them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fusegen.backend.own_files import template_root
from fusegen.ir.errors import InternalError

_FORM = re.compile(
    r"#pragma once\n(?P<title>(?://[^\n]*\n)*)\n(?P<includes>(?:#include <[^\n]+>\n)*)\n?"
    r"namespace fusegen \{\n\n(?P<code>.*)\n\}  // namespace fusegen\n",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Header:
    """One of our files: `name` is what an `#include` says."""

    name: str
    title: str
    includes: tuple[str, ...]
    code: str  # what is in the namespace


def include_dir() -> Path:
    """The folder for a compiler's -I, from which sources include <fusegen/…>."""
    return template_root() / "include"


@cache
def header(name: str) -> Header:
    """The header that `#include <name>` finds. Raises InternalError if it is none of ours, or not
    of the form above."""
    path = include_dir() / name
    found = _FORM.fullmatch(path.read_text(encoding="utf-8")) if path.is_file() else None
    if found is None:
        raise InternalError(f"no header of ours: {path}")
    title = " ".join(ln.removeprefix("//").strip() for ln in found["title"].splitlines())
    includes = tuple(re.findall(r"#include <([^>]+)>", found["includes"]))
    return Header(name, title, includes, found["code"])


def needed(names: Iterable[str]) -> tuple[list[Header], list[str]]:
    """These headers of ours and all that they include, each once and after those that it needs;
    and the toolchain's own that they name."""
    ours: dict[str, Header] = {}
    others: dict[str, None] = {}

    def add(name: str) -> None:
        if not name.startswith("fusegen/"):
            others[name] = None
        elif name not in ours:
            found = header(name)
            for each in found.includes:
                add(each)
            ours[name] = found

    for name in names:
        add(name)
    return list(ours.values()), list(others)


def inlined(headers: Iterable[Header]) -> str:
    """The headers' text in one namespace."""
    parts = (f"// ---- <{h.name}>{': ' * bool(h.title)}{h.title}\n\n{h.code}" for h in headers)
    return "namespace fusegen {\n\n" + "\n".join(parts) + "\n}  // namespace fusegen\n"
