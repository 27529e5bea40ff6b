"""Numbers that users set by environment variables."""

from __future__ import annotations

import math
import os

from fusegen.ir.errors import ArgumentError


def number(name: str, usual: float) -> float:
    """$name, or `usual` where it is not set or empty. Raises ArgumentError for no number ≥ 0."""
    text = os.environ.get(name)
    if not text:
        return usual
    try:
        return number_in(text)
    except ValueError:
        raise ArgumentError(
            f"{name}={text} is not a number ≥ 0",
            fix=f"Set it to one, or to nothing for {usual:g}.",
        ) from None


def number_in(text: str) -> float:
    """The number ≥ 0 that the text is; ValueError where it is none, or infinite."""
    found = float(text)
    if not 0 <= found < math.inf:
        raise ValueError(text)
    return found


def compile_seconds() -> float:
    """$FUSEGEN_COMPILE_SECONDS: how long a compiler may take, and how long one waits for another
    process that compiles the same."""
    return number("FUSEGEN_COMPILE_SECONDS", 120.0)


def cache_bytes() -> float:
    """$FUSEGEN_CACHE_MB: what the cache folder may hold; 0: nothing is kept."""
    return number("FUSEGEN_CACHE_MB", 1024.0) * 1e6
