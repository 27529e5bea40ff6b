"""Comments of generated source: whatever a text says, it ends where its line ends."""

from __future__ import annotations

import re

from fusegen.ir.one_line import printable


def comment(text: str) -> str:
    r"""The text as the rest of a line of C++ after `//`; also harmless between `/*` and `*/`.

    A backslash at the end of a line (and `??/`, which older compilers read as one) would make the
    next line part of the comment. Python continues lines the same way: shown as an ellipsis.
    """
    plain = printable(re.sub(r"\s", " ", text)).rstrip()
    plain = plain.replace("*/", "* /").replace("??/", "?? /")
    ended = plain.rstrip("\\ ")
    return f"{ended} …" if plain.endswith("\\") else plain


def noted(line: str, note: str) -> str:
    """A statement with the user's line behind it."""
    return f"{line}  // {comment(note)}" if note else line


def code(text: str) -> str:
    """The text without its comments: only this says which names a program uses."""
    return re.sub(r"//.*", "", text)
