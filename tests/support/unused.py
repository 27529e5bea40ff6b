"""Names that a generated CUDA source declares and nothing refers to."""

from __future__ import annotations

import re
from collections import Counter

from fusegen.backend.emit.comments import code

_CONSTANT = re.compile(
    r"(?:(?:constexpr|#define) .*?\b(?=k[A-Z])|(?:template <[^>]*> )?using (?!namespace)"
    r"|typedef .* (?=\w+;))(\w+)\b"
)
_LOCAL = re.compile(r"\s+(?:const \w.*?|Row )\b(\w+)(?:\[\w+\])? = [^;]*;")
_ANOTHER = re.compile(r", \w+ = ")  # on the same line
_END_OF_FUNCTION = re.compile(r"(?<=\n}\n)")


def unused(text: str) -> set[str]:
    """Constants and aliases of the file, and constants within its functions."""
    parts = _END_OF_FUNCTION.split(text)
    return _among(text, _CONSTANT).union(*(_among(part, _LOCAL) for part in parts))


def _among(text: str, declaration: re.Pattern[str]) -> set[str]:
    lines = text.splitlines()
    names = [found[1] for ln in lines
             if (found := declaration.match(ln)) and not _ANOTHER.search(ln)]
    declared, used = Counter(names), Counter(re.findall(r"\w+", code(text)))
    return {n for n in declared if used[n] <= declared[n]}
