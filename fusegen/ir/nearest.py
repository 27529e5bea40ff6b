"""What somebody may have meant, in an error's last sentence."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: object, known: Iterable[str]) -> str:
    """A sentence that offers the known name most like `name`; empty if none is like it."""
    if not isinstance(name, str):
        return ""
    found = closest(name, [str(k) for k in known])
    return f"Did you mean {found!r}?" if found else ""


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The known word most like `word`; "" if none is as like it as difflib's ratio asks for."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, known, n=1, cutoff=cutoff)), "")
