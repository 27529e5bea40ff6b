"""What templates declare and a program has no use for: compilers warn, readers wonder."""

from __future__ import annotations

import re
from collections import Counter

from fusegen.emit.comments import code

_CONSTANT = re.compile(r"(?:constexpr|#define) .*?\b(k[A-Z]\w*)\b")
_LOCAL = re.compile(r"\s+(?:const \w.*?|Row )\b(\w+)(?:\[\w+\])? = [^;]*;")
_ANOTHER = re.compile(r", \w+ = ")  # on the same line
_END_OF_FUNCTION = re.compile(r"(?<=\n}\n)")


def without_unused(text: str) -> str:
    """Drop names that nothing refers to, and then those that only these referred to."""
    functions = _END_OF_FUNCTION.split(_without(text, _CONSTANT))
    return "".join(_without(function, _LOCAL) for function in functions)


def _without(text: str, declaration: re.Pattern[str]) -> str:
    """The text without the lines that declare what is nowhere used."""
    lines = text.splitlines(keepends=True)
    names = [found[1] if (found := declaration.match(ln)) and not _ANOTHER.search(ln) else ""
             for ln in lines]  # fmt: skip
    declared, used = Counter(names), Counter(re.findall(r"\w+", code(text)))
    kept = [ln for ln, n in zip(lines, names, strict=True) if not n or used[n] > declared[n]]
    return text if len(kept) == len(lines) else _without("".join(kept), declaration)
